// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// LookupUser finds "user", "uid", "user:group" or "uid:gid", with the user's supplementary groups. A name may be of
// digits alone. An id that no user or group has is allowed, as for chown(1); such a user is in no group but the one of
// the same number.
func LookupUser(name string) (*syscall.Credential, error) {
	userName, groupName, _ := strings.Cut(name, ":")
	account, err := lookupAccount(userName)
	if err != nil {
		return nil, err
	}
	uid, err := parseID(account.Uid)
	if err != nil {
		return nil, fmt.Errorf("user %q: invalid uid %q", userName, account.Uid)
	}
	gid, err := groupID(account, groupName)
	if err != nil {
		return nil, err
	}
	credential := &syscall.Credential{Uid: uid, Gid: gid}
	if account.Username == "" {
		return credential, nil
	}
	ids, err := account.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", userName, err)
	}
	for _, id := range ids {
		group, err := parseID(id)
		if err != nil {
			return nil, fmt.Errorf("groups of user %q: invalid gid %q", userName, id)
		}
		credential.Groups = append(credential.Groups, group)
	}
	return credential, nil
}

// SetUser puts the HOME, USER and LOGNAME of a user into the environment of a task, in the place of those of this
// process, which runs as another user. Others stay: a job has set them. Of an id that no user has there are none, and
// no name is the user of this process. SHELL stays that of this process, as with Nomad's drivers.
func SetUser(env map[string]string, name string) {
	if name == "" {
		return
	}
	var own user.User
	userName, _, _ := strings.Cut(name, ":")
	if account, err := lookupAccount(userName); err == nil { // else the start fails
		own = *account
	}
	for name, value := range map[string]string{"HOME": own.HomeDir, "USER": own.Username, "LOGNAME": own.Username} {
		now, set := env[name]
		switch inherited, ours := os.LookupEnv(name); {
		case set && (!ours || now != inherited):
		case value == "":
			delete(env, name)
		default:
			env[name] = value
		}
	}
}

// IsOfUser reports whether a NAME=value is of a variable that [SetUser] sets.
func IsOfUser(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	return name == "HOME" || name == "USER" || name == "LOGNAME"
}

func lookupAccount(name string) (*user.User, error) {
	account, err := user.Lookup(name)
	if err == nil {
		return account, nil
	}
	if _, numeric := parseID(name); numeric != nil {
		if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
			return nil, fmt.Errorf("unknown user %s", display(name)) // with the name once
		}
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	if account, err = user.LookupId(name); err != nil {
		return &user.User{Uid: name, Gid: name}, nil //nolint:nilerr // an id that no user has is allowed
	}
	return account, nil
}

var plainName = regexp.MustCompile(`^[\w.-]+$`)

// display is a name as the C library and Nomad print it; one that no user can have is quoted.
func display(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

func groupID(account *user.User, name string) (uint32, error) {
	id := account.Gid
	if name != "" {
		id = name
		if group, err := user.LookupGroup(name); err == nil {
			id = group.Gid
		}
	}
	gid, err := parseID(id)
	if err != nil {
		return 0, fmt.Errorf("unknown group %s", display(id))
	}
	return gid, nil
}

func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	return uint32(id), err
}
