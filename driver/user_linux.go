// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
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

// idsOf returns the ids of a user and of all groups the user is in.
func idsOf(name string) (uid uint32, gids []uint32, err error) {
	if name == "" {
		return ownIDs()
	}
	userName, group, _ := strings.Cut(name, ":")
	u, err := lookupUser(userName)
	if err != nil {
		return 0, nil, invalid("%w", err)
	}
	groups := []string{u.Gid}
	if more, err := u.GroupIds(); err == nil {
		groups = append(groups, more...)
	}
	if group != "" {
		gid, err := lookupGroup(group)
		if err != nil {
			return 0, nil, invalid("%w", err)
		}
		groups = append(groups, gid)
	}
	if uid, err = parseID(u.Uid); err != nil {
		return 0, nil, err
	}
	for _, group := range groups {
		gid, err := parseID(group)
		if err != nil {
			return 0, nil, err
		}
		gids = append(gids, gid)
	}
	return uid, gids, nil
}

func ownIDs() (uid uint32, gids []uint32, err error) {
	groups, err := os.Getgroups()
	if err != nil {
		return 0, nil, fmt.Errorf("own groups: %w", err)
	}
	for _, gid := range append(groups, os.Getegid()) {
		gids = append(gids, uint32(gid))
	}
	return uint32(os.Geteuid()), gids, nil
}

// lookupUser finds a user by name or id, as executors do: a name may be of digits alone. An id that no user has is
// allowed, as for chown(1).
func lookupUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	if _, numeric := parseID(name); numeric != nil {
		if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
			return nil, fmt.Errorf("unknown user %q", name)
		}
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	u, err = user.LookupId(name)
	if err != nil {
		return &user.User{Uid: name, Gid: name}, nil //nolint:nilerr // see above
	}
	return u, nil
}

func lookupGroup(name string) (gid string, err error) {
	group, err := user.LookupGroup(name)
	if err == nil {
		return group.Gid, nil
	}
	if _, numeric := parseID(name); numeric != nil {
		if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
			return "", fmt.Errorf("unknown group %q", name)
		}
		return "", fmt.Errorf("group %q: %w", name, err)
	}
	return name, nil
}

func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	return uint32(id), err
}
