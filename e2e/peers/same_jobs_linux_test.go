// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"fmt"
	"slices"
	"strings"
)

// sameJob is a job whose tasks end in some order; without tasks it is that of a file in testdata/same. The words of kind are its type,
// restarts for two attempts after a failure, and apart for a group for each task, as a failure ends the others of its group. Services and
// system jobs are stopped when all tasks that say "ready" do, and the others around the main ones have ended.
type sameJob struct {
	name, kind string
	tasks      []sameTask
}

// sameTask is a task of sameJob. The words of how are a lifecycle hook, sidecar, leader, or KEY=VALUE.
type sameTask struct{ name, how, script string }

const (
	// obeys says which signal it gets, and takes a while to end.
	obeys   = `for s in INT HUP TERM USR1 USR2 QUIT ALRM; do trap "echo $s; sleep 1.5; exit 0" $s; done; ` + forever
	forever = `echo ready; while :; do sleep 0.05; done`
	once    = `sleep 1.5`
	again   = `test -e $NOMAD_TASK_DIR/again && exec sleep 2; touch $NOMAD_TASK_DIR/again; exit 6`
)

func sameJobs() []sameJob {
	shipper, post := sameTask{"shipper", "prestart sidecar", obeys}, sameTask{"post", "poststop", once}
	lead, other := sameTask{"lead", "leader", obeys}, sameTask{"other", "", obeys}
	watcher := sameTask{"watcher", "poststart sidecar", obeys}
	return []sameJob{
		{"stop-order", "service", []sameTask{
			shipper, lead, other, {"second", "", obeys}, watcher, post, {"init", "prestart", once}, {"announce", "poststart", once},
		}},
		{"stop-without-leader", "service", []sameTask{shipper, {"one", "", obeys}, other, post}},
		{"stop-in-prestart", "service", []sameTask{shipper, {"init", "prestart", obeys}, {"one", "", once}, post}},
		{"stop-stubborn-leader", "service", []sameTask{
			shipper, {"lead", "leader kill_timeout=2s", "trap '' INT; " + forever}, other, post,
		}},
		{"stop-codes", "service", []sameTask{
			{"shipper", "prestart sidecar", "trap 'sleep 1.5; exit 9' INT; " + forever},
			{"one", "", "trap 'sleep 1.5; exit 8' INT; " + forever},
			{"post", "poststop", "sleep 1.5; exit 7"},
		}},
		{"stop-system", "system", []sameTask{shipper, lead, other, post}},
		{"kill-signals", "service", []sameTask{
			{"default", "", obeys},
			{"int", "kill_signal=SIGINT", obeys},
			{"hup", "kill_signal=SIGHUP", obeys},
			{"usr1", "kill_signal=SIGUSR1", obeys},
			{"usr2", "kill_signal=SIGUSR2", obeys},
			{"quit", "kill_signal=SIGQUIT", obeys},
			{"alrm", "kill_signal=SIGALRM", obeys},
			{"term", "kill_signal=SIGTERM", obeys},
			{"killed", "kill_signal=SIGKILL", obeys},
			{"dies", "kill_signal=SIGUSR1", forever},
			{"codes", "kill_signal=SIGTERM", "trap 'sleep 1.5; exit 9' TERM; " + forever},
			{"ignores", "kill_signal=SIGINT kill_timeout=4s", "trap '' INT TERM; " + forever},
		}},
		{"realtime-signal", "service", []sameTask{{"t", "kill_signal=SIGRTMIN+3", "trap 'echo got; exit 0' 37; " + forever}}},
		{"leader-ends", "batch", []sameTask{shipper, {"lead", "leader", "sleep 2"}, other, post}},
		{"leader-fails", "batch", []sameTask{shipper, {"lead", "leader", "sleep 2; exit 3"}, other, post}},
		{"leader-restarts", "batch restarts", []sameTask{shipper, {"lead", "leader", again}, other, post}},
		{"main-ends", "batch", []sameTask{shipper, {"one", "", "sleep 1"}, {"two", "", "sleep 2.5"}, post}},
		{"main-fails", "batch", []sameTask{shipper, {"one", "", "sleep 2; exit 4"}, other, post}},
		{"main-restarts", "batch restarts", []sameTask{{"one", "", "exit 8"}, other}},
		{"prestart-fails", "batch", []sameTask{shipper, {"init", "prestart", "sleep 1.5; exit 5"}, {"one", "", once}, post}},
		{"poststart-fails", "batch", []sameTask{{"one", "", "sleep 3"}, {"announce", "poststart", "exit 5"}, watcher, post}},
		{"poststop-fails", "batch", []sameTask{{"one", "", once}, {"post", "poststop", "sleep 1.5; exit 7"}}},
		{"sidecar-fails", "batch", []sameTask{{"shipper", "prestart sidecar", "sleep 1; exit 6"}, {"one", "", "sleep 3"}, post}},
		{"sidecar-restarts", "batch restarts", []sameTask{
			{"shipper", "prestart sidecar", strings.Replace(again, "sleep 2", "sleep 60", 1)}, {"one", "", "sleep 4"}, post,
		}},
		{"sysbatch", "sysbatch", []sameTask{shipper, {"one", "", once}, post}},
		{"killed-by-itself", "batch apart", []sameTask{
			{"kill", "", "kill -9 $$"}, {"segv", "", "kill -SEGV $$"}, {"term", "", "kill -TERM $$"}, {"high", "", "exit 255"}, {"code137", "", "exit 137"},
		}},
		{"unknown-user", "batch", []sameTask{{"t", "user=nobody-here", "id"}}},
		{"user-by-number", "batch", []sameTask{{"t", "user=1234", "id"}}},
		{"user-with-group", "batch", []sameTask{{"t", "user=nobody:daemon", "id"}}},
	}
}

// ready are the tasks that a job is stopped with, and those that have ended by then.
func (j *sameJob) ready() (running, ended []string) {
	for _, task := range j.tasks {
		switch around := strings.HasPrefix(task.how, "prestart") || strings.HasPrefix(task.how, "poststart"); {
		case strings.Contains(task.script, "echo ready"):
			running = append(running, task.name)
		case around && !strings.Contains(j.name, "prestart"):
			ended = append(ended, task.name)
		}
	}
	return running, ended
}

// text is the job file.
func (j *sameJob) text() string {
	kind, attempts, apart := strings.Fields(j.kind)[0], 0, strings.Contains(j.kind, "apart")
	if strings.Contains(j.kind, "restarts") {
		attempts = 2
	}
	rules := fmt.Sprintf("restart {\nattempts = %d\ninterval = \"10m\"\ndelay = \"500ms\"\nmode = \"fail\"\n}\n", attempts)
	if kind == "batch" || kind == "service" {
		rules += "reschedule {\nattempts = 0\nunlimited = false\n}\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "job %q {\ntype = %q\n", j.name, kind)
	for i, task := range j.tasks {
		if i == 0 || apart {
			fmt.Fprintf(&text, "group \"g%d\" {\n%s", i, rules)
		}
		fmt.Fprintf(&text, "task %q {\ndriver = \"tacho\"\n", task.name)
		how := strings.Fields(task.how)
		for _, word := range how {
			key, value, set := strings.Cut(word, "=")
			switch {
			case set:
				fmt.Fprintf(&text, "%s = %q\n", key, value)
			case word == "leader":
				text.WriteString("leader = true\n")
			case word != "sidecar":
				fmt.Fprintf(&text, "lifecycle {\nhook = %q\nsidecar = %t\n}\n", word, slices.Contains(how, "sidecar"))
			}
		}
		fmt.Fprintf(&text, "config {\ncommand = \"/bin/sh\"\nargs = [\"-c\", %q]\n}\n}\n", task.script)
		if i == len(j.tasks)-1 || apart {
			text.WriteString("}\n")
		}
	}
	return text.String() + "}\n"
}
