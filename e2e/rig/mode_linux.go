// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import "testing"

// Placement is where a task goes.
type Placement string

const (
	// Auto lets tacho find the place.
	Auto Placement = "auto"
	// Below puts the task below a cgroup that the test made, which counts beside tacho.
	Below Placement = "parent"
	// None gives the task no cgroup.
	None Placement = "none"
)

// Mode is who runs tacho, and where its task goes.
type Mode struct {
	User      User
	Placement Placement
}

func (m Mode) String() string { return m.User.Name + "/" + string(m.Placement) }

// Modes lists what can be tried here: as the user of the tests and as one without privileges.
func Modes() []Mode {
	users := []User{Self()}
	if Unprivileged() != Self() {
		users = append(users, Unprivileged())
	}
	var all []Mode
	for _, user := range users {
		for _, placement := range []Placement{Below, Auto, None} {
			all = append(all, Mode{user, placement})
		}
	}
	return all
}

// Place returns the flags of tacho run that say where the task goes, and the cgroup that counts beside it. With
// None nothing is in that cgroup unless it moves there; with Auto, and where the user can be given none, it is nil.
func (m Mode) Place(t testing.TB) ([]string, *Parent) {
	t.Helper()
	if m.Placement == Auto {
		return []string{"--cgroup", "auto"}, nil
	}
	parent, err := NewParent(t, m.User)
	if m.Placement == None {
		if err != nil {
			t.Logf("no cgroup as a meter: %v", err)
			parent = nil
		}
		return []string{"--cgroup", "none"}, parent
	}
	if err != nil {
		t.Skipf("this user can be given no cgroup here: %v", err)
	}
	return []string{"--cgroup", "auto", "--cgroup-parent", parent.Path}, parent
}
