// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"fmt"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/wire"
)

// baseServer serves what every plugin has, whatever its type.
type baseServer struct {
	base.UnimplementedBasePluginServer
	info   Info
	driver driver.Configurer
}

func (s *baseServer) PluginInfo(context.Context, *base.PluginInfoRequest) (*base.PluginInfoResponse, error) {
	return &base.PluginInfoResponse{
		Type:              base.PluginType_DRIVER,
		PluginApiVersions: []string{APIVersion},
		PluginVersion:     s.info.Version,
		Name:              s.info.Name,
	}, nil
}

func (s *baseServer) ConfigSchema(ctx context.Context, _ *base.ConfigSchemaRequest) (*base.ConfigSchemaResponse, error) {
	spec, err := s.driver.ConfigSchema(ctx)
	return answer(&base.ConfigSchemaResponse{Spec: wire.FromSchema(spec)}, err)
}

func (s *baseServer) SetConfig(ctx context.Context, req *base.SetConfigRequest) (*base.SetConfigResponse, error) {
	// A host that negotiates nothing is one of the first version.
	if v := req.GetPluginApiVersion(); v != "" && v != APIVersion {
		return nil, wire.Status(fmt.Errorf("plugin API %q, this plugin speaks %s: %w", v, APIVersion, driver.ErrInvalid))
	}
	return answer(&base.SetConfigResponse{}, s.driver.SetConfig(ctx, req.GetMsgpackConfig(), wire.ToNode(req.GetNomadConfig())))
}
