// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/tachograph/tacho/procstats/source"
)

// group is the Job Object of a command: all its processes are in it, however they were started, and Windows ends them
// when the last handle is closed, which is this process's.
type group struct{ job windows.Handle }

// killedCode is the exit code of processes that were killed, as of a shell for SIGKILL.
const killedCode = exitSignalBase + 9

// noEffect returns the flags that have none on this system: processes are ended at once.
func (o *runOptions) noEffect() []string { return []string{"kill-grace", "kill-signal", "disk"} }

// caught returns the signals that would end tacho: Ctrl-C and Ctrl-Break, and SIGTERM when the console is closed.
func caught() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// Guard reports that this process is none: a Job Object needs no guard.
func Guard([]string) bool { return false }

// newGroup creates a Job Object.
func newGroup(*runOptions) (*group, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	return &group{job}, os.NewSyscallError("SetInformationJobObject", err)
}

// start starts the command in the job from its first instruction.
func (g *group) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
	if err := cmd.Start(); err != nil {
		return err
	}
	resume := windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")
	var failed error
	err := cmd.Process.WithHandle(func(handle uintptr) {
		if failed = windows.AssignProcessToJobObject(g.job, windows.Handle(handle)); failed == nil {
			if status, _, _ := resume.Call(handle); status != 0 {
				failed = windows.NTStatus(status)
			}
		}
		if failed != nil {
			failed = errors.Join(failed, windows.TerminateProcess(windows.Handle(handle), killedCode))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		_ = cmd.Wait() // it was killed
	}
	return err
}

// wait waits for the end of the command.
func (g *group) wait(cmd *exec.Cmd) end {
	state, err := cmd.Process.Wait()
	if err != nil {
		return end{err: err}
	}
	return end{code: state.ExitCode()}
}

// members returns the processes of the job, at most as many as the list has room for.
func (g *group) members() (pids []int) {
	var list struct {
		assigned, listed uint32
		pids             [4096]uintptr
	}
	_ = g.query(windows.JobObjectBasicProcessIdList, unsafe.Pointer(&list), unsafe.Sizeof(list)) // or there are more
	for _, pid := range list.pids[:list.listed] {
		pids = append(pids, int(pid))
	}
	return pids
}

// totals returns what all processes of the job used so far.
func (g *group) totals() (t source.JobTotals) {
	var times struct {
		user, kernel, periodUser, periodKernel int64 // in 100 ns
		faults, total, active, terminated      uint32
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if g.query(windows.JobObjectBasicAccountingInformation, unsafe.Pointer(&times), unsafe.Sizeof(times)) == nil {
		t.CPU = time.Duration(times.user+times.kernel) * 100
	}
	if g.query(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&limits), unsafe.Sizeof(limits)) == nil {
		t.CommittedPeak = int64(limits.PeakJobMemoryUsed)
	}
	return t
}

func (g *group) query(class int32, into unsafe.Pointer, size uintptr) error {
	return windows.QueryInformationJobObject(g.job, class, uintptr(into), uint32(size), nil)
}

// forward says why the command is ended, if it is: Windows itself delivers Ctrl-C to all processes of the console.
func (g *group) forward(s os.Signal) (number int, closing string) {
	if s == syscall.SIGTERM {
		closing = "the console was closed"
	}
	return 0, closing
}

// stop ends all processes.
func (g *group) stop() { g.kill() }

// kill ends all processes.
func (g *group) kill() { _ = windows.TerminateJobObject(g.job, killedCode) }

// see does nothing: the job has its processes.
func (g *group) see(int, int64) {}

func (g *group) close() error { return windows.CloseHandle(g.job) }
