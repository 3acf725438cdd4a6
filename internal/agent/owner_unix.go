// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package agent

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/tachograph/tacho/internal/agent/allocdir"
)

// ownerOf is whose a task's directories are; nil where the task runs as this process does.
func ownerOf(name string) (*allocdir.Owner, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		var byID error
		u, byID = user.LookupId(name)
		if _, unknown := errors.AsType[user.UnknownUserError](err); unknown && byID != nil {
			return nil, fmt.Errorf("unknown user %q", name)
		}
		if byID != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	return &allocdir.Owner{UID: uid, GID: gid}, nil
}
