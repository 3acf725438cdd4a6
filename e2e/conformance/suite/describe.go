// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
)

func describeCases() []Case {
	return []Case{
		{"plugin info", pluginInfo},
		{"schemas are well formed", schemas},
		{"bad config is refused", badConfig},
		{"capabilities", capabilities},
		{"fingerprint comes at once and is healthy", fingerprint},
	}
}

// semver is enough of semver.org to refuse what hosts refuse.
var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func pluginInfo(ctx context.Context, e *Env) error {
	d, ok := e.Driver.(*host.Process)
	if !ok {
		return skip("not behind a plugin")
	}
	info := value(d.Info(ctx))
	if info.Name == "" || !semver.MatchString(info.Version) || len(info.APIVersions) == 0 {
		return fmt.Errorf("info %+v: want a name, a semantic version and API versions", info)
	}
	return nil
}

func schemas(ctx context.Context, e *Env) error {
	task := value(e.TaskConfigSchema(ctx))
	if _, err := host.ToDecoder(task); err != nil {
		return fmt.Errorf("task config: %w", err)
	}
	own, err := e.ConfigSchema(ctx)
	if err != nil || own == nil { // a plugin without a configuration
		return err
	}
	if _, err := host.ToDecoder(own); err != nil {
		return fmt.Errorf("plugin config: %w", err)
	}
	return nil
}

func badConfig(ctx context.Context, e *Env) error {
	for _, garbage := range [][]byte{{0xc1}, []byte("garbage"), {0xdf, 0xff, 0xff, 0xff, 0xff}} {
		if err := e.SetConfig(ctx, garbage, nil); err == nil {
			return fmt.Errorf("the config %x is taken", garbage)
		}
	}
	if _, err := e.Capabilities(ctx); err != nil {
		return fmt.Errorf("after that: %w", err)
	}
	return nil
}

func capabilities(ctx context.Context, e *Env) error {
	c := value(e.Capabilities(ctx))
	for _, mode := range c.GetNetworkIsolationModes() {
		if mode.Descriptor().Values().ByNumber(mode.Number()) == nil {
			return fmt.Errorf("network mode %d", mode)
		}
	}
	if isolation := c.GetFsIsolation(); isolation.Descriptor().Values().ByNumber(isolation.Number()) == nil {
		return fmt.Errorf("file system isolation %d", isolation)
	}
	return nil
}

func fingerprint(ctx context.Context, e *Env) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("not in 5 s"))
	defer cancel()
	stream := value(e.Fingerprint(ctx))
	f := value(stream.Recv())
	if f.Health != driver.Healthy {
		return fmt.Errorf("health %d: %s", f.Health, f.Description)
	}
	if len(f.Attributes) == 0 {
		return errors.New("no attributes")
	}
	return nil
}
