// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestUsersUnderUmasks has tasks of several users do in their directories what they may, whatever umask the agent has.
func TestUsersUnderUmasks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root starts tasks of others")
	}
	const script = `set -e
for dir in . local secrets tmp $TMPDIR $NOMAD_ALLOC_DIR/data $NOMAD_ALLOC_DIR/tmp; do echo $NOMAD_TASK_NAME > $dir/of-$NOMAD_TASK_NAME; done
cat local/new/dir/file secrets/file > /dev/null; echo x > local/new/dir/own
cut -d: -f3 /proc/self/cgroup | sort -u | while read -r path; do
	for at in /sys/fs/cgroup$path /sys/fs/cgroup/*$path; do [ ! -d $at ] || ls $at > /dev/null; done
done
test "$(stat -c %a $NOMAD_ALLOC_DIR/data)" = MODE
cat $NOMAD_ALLOC_DIR/logs/$NOMAD_TASK_NAME.stdout.0
if ls $NOMAD_ALLOC_DIR/.. 2> /dev/null && [ $(id -u) != 0 ]; then exit 9; fi`
	template := func(path string) string {
		return fmt.Sprintf("template {\n data = \"x\"\n destination = %q\n perms = \"0600\"\n}\n", path)
	}
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	for _, umask := range []int{0o022, 0o077} {
		syscall.Umask(umask)
		r := begin(t, testConfig(shortDir(t)))
		for users, mode := range map[string]string{"1": "700", "1 2": "1777", "1 0": "1777", "0": "700"} {
			var tasks []string
			for user := range strings.FieldsSeq(users) {
				more := fmt.Sprintf("user = %q\nrestart {\n attempts = 0\n }\nresources {\n memory = 10\n memory_max = 100\n }\n", user) + template("local/new/dir/file") + template("secrets/file")
				tasks = append(tasks, shell("t"+user, more, strings.Replace(script, "MODE", mode, 1)))
			}
			id := "users-" + strings.ReplaceAll(users, " ", "-")
			text := strings.Replace(inGroup(1, tasks...), "job \"test\" {", "job \""+id+"\" {\n type = \"batch\"", 1)
			l := r.submit(text)[0]
			l = r.await(l.ID, "ended", allDead)
			if l.ClientStatus != allocation.Complete {
				for name := range l.Tasks {
					log := testkit.Value(l.Dir.OpenLog(name, "stderr", datadir.WholeLog))(t)
					t.Errorf("umask %03o, users %s: task %s: %+v: %s", umask, users, name, l.Tasks[name].State.Exit, testkit.Value(io.ReadAll(log))(t))
				}
			}
		}
		r.end(true)
	}
}
