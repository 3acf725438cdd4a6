// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
)

// Examine checks what can be measured. It creates the cgroup that a task would get and a directory, and removes both.
func Examine(host Host) (*Report, error) {
	r := &Report{}
	release := osRelease{kernel.OSRelease(host.FS)}
	r.Checks = append(r.Checks, checkWhere(host), release.check(), checkNamespaces(host), checkHidden(host))
	group, err := cgroup.Create(cgroup.Options{FS: host.FS, ID: fmt.Sprintf("doctor-%d", os.Getpid())})
	if err != nil {
		group = cgroup.None(err.Error())
	}
	r.Notes = group.Notes
	tried := network.Try(host.FS)
	r.Checks = append(r.Checks, checkGroup(host, group)...)
	r.Checks = append(r.Checks,
		checkClone(group), checkSeccomp(host), checkSecurityModule(host, group),
		checkPressure(host), checkPidfd(), checkKmsg(host), checkExits(host, group), checkNetwork(tried, group), checkChildren(host),
		checkOwnProcess(host), checkOtherUsers(host), checkOOMScore(host))
	return r, errors.Join(r.tryCollect(host, group, tried), group.Remove())
}

// tryCollect reads everything once: of the empty cgroup, and of this process in place of a task.
func (r *Report) tryCollect(host Host, group *cgroup.Group, tried error) error {
	dir, err := os.MkdirTemp("", "tacho-doctor-")
	if err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	c := source.Open(source.Target{
		FS: host.FS, Cgroup: group.Cgroup, Dir: dir,
		Roots:  func() []int { return []int{os.Getpid()} },
		Reaped: func() source.Reaped { return source.Reaped{} },
	}, selection(), packets(host, group, tried))
	r.measure(c)
	return errors.Join(c.Close(), os.Remove(dir))
}

// packets counts those of the group, as for a task, unless a packet of this process was tried in vain.
func packets(host Host, group *cgroup.Group, tried error) *network.Source {
	if tried != nil {
		return network.Absent(selection(), tried.Error())
	}
	dir := ""
	if group.Encloses() {
		dir = group.V2
	}
	return network.Open(host.FS, selection(), dir, true)
}
