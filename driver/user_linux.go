// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/tachograph/tacho/executor/process"
)

// checkUser refuses users and groups that the operator denies. name is a user name or id with an optional :group;
// empty is the user of this process.
func checkUser(name string, c Config) error {
	if len(c.DeniedUIDs) == 0 && len(c.DeniedGIDs) == 0 {
		return nil
	}
	uid, gids, err := idsOf(name)
	if err != nil {
		return err
	}
	if c.DeniedUIDs.Has(uid) {
		return invalid("user %s: running as uid %d is disallowed by denied_host_uids", display(name, uid), uid)
	}
	for _, gid := range gids {
		if c.DeniedGIDs.Has(gid) {
			return invalid("user %s: running as gid %d is disallowed by denied_host_gids", display(name, uid), gid)
		}
	}
	return nil
}

// CheckUser refuses a user that StartTask would refuse whenever it is called; empty is the user of this process.
func (d *Tacho) CheckUser(name string) error { return checkUser(name, d.currentConfig()) }

// display is the user as the job names it; a job that names none runs as the user of this process.
func display(name string, uid uint32) string {
	if name != "" {
		return strconv.Quote(name)
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return strconv.Quote(u.Username) + " (the job names none)"
	}
	return "of the driver (the job names none)"
}

// LookupUser returns the ids of a task's user, as executors set them.
func LookupUser(name string) (uid, gid uint32, err error) {
	credential, err := process.LookupUser(name)
	if err != nil {
		return 0, 0, err
	}
	return credential.Uid, credential.Gid, nil
}

// SetUser puts the HOME, USER and LOGNAME of a task's user into its environment, in the place of those of this process.
func SetUser(env map[string]string, name string) { process.SetUser(env, name) }

// idsOf returns the ids of a user and of all groups the user is in, as executors set them.
func idsOf(name string) (uid uint32, gids []uint32, err error) {
	if name != "" {
		credential, err := process.LookupUser(name)
		if err != nil {
			return 0, nil, invalid("%w", err)
		}
		return credential.Uid, append(credential.Groups, credential.Gid), nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return 0, nil, fmt.Errorf("own groups: %w", err)
	}
	for _, gid := range append(groups, os.Getegid()) {
		gids = append(gids, uint32(gid))
	}
	return uint32(os.Geteuid()), gids, nil
}
