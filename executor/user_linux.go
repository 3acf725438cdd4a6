// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// credentialOf looks up "user", "uid", "user:group" or "uid:gid", with the user's supplementary groups.
func credentialOf(name string) (*syscall.Credential, error) {
	userName, groupName, _ := strings.Cut(name, ":")
	account, err := user.Lookup(userName)
	if err != nil {
		if _, numeric := strconv.ParseUint(userName, 10, 32); numeric != nil {
			return nil, unknownUser(userName, err)
		}
		account, err = user.LookupId(userName)
		if err != nil {
			// A uid without an entry is legal; it has no group but its own number.
			account = &user.User{Uid: userName, Gid: userName}
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q: invalid uid %q", userName, account.Uid)
	}
	gid, err := groupID(account, groupName)
	if err != nil {
		return nil, err
	}
	credential := &syscall.Credential{Uid: uint32(uid), Gid: gid}
	if account.Username == "" {
		return credential, nil
	}
	ids, err := account.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", userName, err)
	}
	for _, id := range ids {
		group, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of user %q: invalid gid %q", userName, id)
		}
		credential.Groups = append(credential.Groups, uint32(group))
	}
	return credential, nil
}

// unknownUser returns an error of user.Lookup with the name in it once.
func unknownUser(name string, err error) error {
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return fmt.Errorf("unknown user %q", name)
	}
	return fmt.Errorf("user %q: %w", name, err)
}

func groupID(account *user.User, groupName string) (uint32, error) {
	id := account.Gid
	if groupName != "" {
		id = groupName
		if group, err := user.LookupGroup(groupName); err == nil {
			id = group.Gid
		}
	}
	gid, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("unknown group %q", id)
	}
	return uint32(gid), nil
}

// lookupUser returns the credential of "user", "uid", "user:group" or "uid:gid"; nil for the executor's own, which
// takes no right to set.
func lookupUser(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no credential is what syscall wants for "do not change it"
	}
	credential, err := credentialOf(name)
	if err == nil && os.Geteuid() != 0 && int(credential.Uid) == os.Geteuid() && int(credential.Gid) == os.Getegid() {
		return nil, nil //nolint:nilnil // as above
	}
	return credential, err
}
