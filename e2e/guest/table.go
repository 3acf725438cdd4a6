// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"path"
	"runtime"
	"slices"
	"strings"
)

// suiteTable has a line for each guest: its flags : the packages whose tests run there one after the other, each with
// flags of its own. The longest stand first. Lines with "nightly" are not for every change. Linux 6.12 of Debian, and
// later, has no memory controller of version 1, and uses that of version 2 in both layouts with it. Systemd, which
// executor/cgroup and e2e/unit start, leaves things behind: they come last.
const suiteTable = `
nightly -kernel 5.10 -cgroup v2 -memory 3072 : ./e2e/truth -run=TestTruth/root/parent
nightly -kernel 7 -cgroup v2 -memory 3072 : ./e2e/truth -run=TestTruth/root/parent
nightly -kernel 6.12 -arch arm64 -memory 3072 : ./e2e/truth -run=TestTruth/root/parent
nightly -kernel 6.12 -cgroup v2 -memory 1024 : ./e2e/watch
nightly -kernel 7 -cgroup v1 -memory 1024 : ./e2e/watch
-kernel 6.12 -arch arm64 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom -run=Limit|Ancestor|Namespace|Outside ./e2e/limits -run=Memory|Peak|Lower ./e2e/where -run=Here ./executor/cgroup ./e2e/unit
-kernel 5.10 -cgroup v2 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom -run=Limit|Ancestor|Namespace|Outside ./e2e/limits -skip=HugePages|Swap ./e2e/where -run=Here|Rootless ./e2e/watch -skip=Layouts ./executor/cgroup ./e2e/unit
-kernel 7 -cgroup v2 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom -run=Limit|Ancestor|Namespace|Outside ./e2e/limits ./e2e/where -run=Here|Rootless ./executor/cgroup ./e2e/unit
-kernel 6.12 -cgroup v2 -memory 3072 : ./e2e/truth -run=TestTruth/root/parent|TestLabels/(sleeps|writes_nothing|socket)|TestSockets|TestActivated|TestRealtime
-kernel 6.1 -cgroup v2 -memory 3072 : ./e2e/truth -run=TestTruth/root/parent
-kernel 6.12 -cgroup v2 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom ./e2e/where -skip=Same ./e2e/where -run=Same/partition ./e2e/limits ./driver -run=TestGivenCgroup ./e2e/agent -run=TestSuspend ./executor/cgroup ./e2e/unit
-kernel 6.1 -cgroup v1 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./e2e/oom ./e2e/where -skip=Same ./e2e/where -run=Same/(class|huge) ./e2e/limits ./executor/cgroup
-kernel 6.1 -cgroup v2 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom -run=Limit|Ancestor|Namespace|Outside ./e2e/where -run=Here|Rootless ./e2e/limits -skip=HugePages|Swap ./executor/cgroup
-kernel 5.10 -cgroup v1 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom -run=Limit|Ancestor|Namespace|Outside ./e2e/limits -run=Memory|Peak|Lower ./e2e/where -run=Here ./executor/cgroup
-kernel 6.1 -cgroup hybrid -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/oom -run=Limit|Ancestor|Namespace|Outside ./e2e/limits -run=Memory|Peak|Lower ./executor/cgroup
-kernel 6.12 -cgroup v2 -memory 2048 : ./e2e/truth -run=TestRandom -parallel=1
-kernel 6.1 -cgroup v1 -memory 2048 : ./e2e/truth -run=TestRandom -parallel=1
-kernel 6.12 -cgroup v2 -user nobody -delegate -memory 3072 : ./e2e/truth -run=TestTruth/user/parent ./e2e/where -run=Here
-kernel 7 -cgroup hybrid -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/exits ./procstats/network ./e2e/limits -run=Memory|Peak|Lower ./executor/cgroup
-kernel 7 -cgroup v1 -memory 1024 -disk 128 : ./e2e/guest/smoke ./internal/command/doctor ./procstats/network ./e2e/limits -run=Memory|Peak|Lower ./e2e/where -run=Here ./executor/cgroup
-kernel 6.12 -cgroup v2 -memory 1024 -disk 256 -ext4 192 : ./e2e/storage
-kernel 6.1 -cgroup v1 -memory 1024 -disk 256 -ext4 192 : ./e2e/storage
-kernel 6.12 -cgroup hybrid -memory 1024 : ./e2e/guest/smoke ./internal/command/doctor ./e2e/limits -run=Memory|Peak|Lower
-kernel 6.12 -cgroup v1 : ./e2e/guest/smoke ./internal/command/doctor
-kernel 5.10 -cgroup flat : ./e2e/guest/smoke ./internal/command/doctor
-kernel 6.12 -cgroup v2 -memory 320 : ./e2e/oom -run=TestHost
-kernel 6.1 -cgroup v2 -memory 256 : ./e2e/oom -run=TestHost
-kernel 6.1 -cgroup v1 -memory 256 : ./e2e/oom -run=TestHost
-kernel 6.1 -cgroup v2 -append psi=0 : ./e2e/where -run=Here
-kernel 6.12 -cgroup v2 -user nobody : ./e2e/where -run=Here
nightly -kernel 6.12 -cgroup v2 -memory 2048 -disk 256 : ./e2e/where -run=Same ./e2e/advice -run=TestLoadedByOthers ./procstats/source -run=TestTree|TestSmaps ./executor -run=Leftover|WaitForAll|Outliving
nightly -kernel 6.12 -cgroup v2 -memory 1024 -disk 512 -ext4 512 : ./e2e/advice -run=TestAdviceLoop/(shared_made|jit_little|burst_20)
nightly -kernel 6.1 -cgroup v1 -memory 1024 : ./e2e/where -run=Same
nightly -kernel 5.10 -cgroup v2 -memory 1024 : ./e2e/where -run=Same
`

// row is a guest of the table.
type row struct {
	guest   []string // its flags
	nightly bool
	suites  []suite
}

// suite is a package and the flags of its tests.
type suite struct {
	pkg   string
	flags []string
}

func (r row) name(s suite) string {
	return strings.Join(r.guest, " ") + " : " + strings.Join(append([]string{s.pkg}, s.flags...), " ")
}

// rows reads the table.
func rows() []row {
	var all []row
	for line := range strings.Lines(suiteTable) {
		guest, tests, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		r := row{guest: strings.Fields(guest)}
		if r.guest[0] == "nightly" {
			r.nightly, r.guest = true, r.guest[1:]
		}
		for word := range strings.FieldsSeq(tests) {
			if strings.HasPrefix(word, "./") {
				r.suites = append(r.suites, suite{pkg: word})
			} else {
				last := &r.suites[len(r.suites)-1]
				last.flags = append(last.flags, word)
			}
		}
		all = append(all, r)
	}
	return all
}

// place names where a guest's tests run, for people.
func (o options) place() string {
	name := o.kernel + " " + o.cgroup
	if o.arch != runtime.GOARCH {
		name += " " + o.arch
	}
	if o.user != "root" {
		name += " " + o.user
	}
	if o.delegate {
		name += " delegated"
	}
	return strings.TrimSpace(name + " " + o.append)
}

// needs returns the flags of a guest for what the tests of a package need beside it.
func needs(pkg, root string) []string {
	systemd := []string{"-program", "/lib/systemd/systemd,/usr/bin/dbus-daemon"}
	switch path.Clean(pkg) {
	case "executor/cgroup":
		return systemd
	case "e2e/unit":
		return append(slices.Clip(systemd), "-file", root+"/packaging:/src"+root+"/packaging")
	case "e2e/agent":
		return []string{"-program", "/bin/date"}
	case "e2e/truth":
		return []string{"-program", "/usr/bin/head,/bin/rm,/usr/bin/chrt"}
	case "e2e/watch":
		return []string{"-program", "/usr/bin/crun"}
	case "executor":
		return []string{"-program", "/usr/bin/mkfifo,/usr/bin/setsid,/usr/bin/timeout"}
	case "procstats/network":
		return []string{"-program", "/sbin/ip"}
	}
	return nil
}
