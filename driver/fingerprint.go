// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// fingerprintInterval is how often a driver looks whether anything has changed.
const fingerprintInterval = 30 * time.Second

// Names of attributes.
const (
	attributeDriver  = "driver." + Name
	attributeVersion = attributeDriver + ".version"
	attributeCgroup  = attributeDriver + ".cgroup"
	attributeRoot    = attributeDriver + ".root"
	attributeSource  = attributeDriver + ".source."
	attributeMetrics = attributeDriver + ".metrics"
)

// Fingerprint sends the driver's state at once and then whenever it changes, until ctx ends.
func (d *Tacho) Fingerprint(ctx context.Context) (Stream[*Fingerprint], error) {
	d.hosts.connected()
	return &fingerprintStream{ctx: ctx, driver: d}, nil
}

type fingerprintStream struct {
	ctx    context.Context
	driver *Tacho
	sent   *Fingerprint
}

func (s *fingerprintStream) Recv() (*Fingerprint, error) {
	timer := time.NewTimer(fingerprintInterval)
	defer timer.Stop()
	for {
		s.driver.mu.Lock()
		changed := s.driver.changed
		s.driver.mu.Unlock()
		now := s.driver.fingerprint()
		if !reflect.DeepEqual(now, s.sent) {
			s.sent = now
			return now, nil
		}
		timer.Reset(fingerprintInterval)
		select {
		case <-timer.C:
		case <-changed:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-s.driver.ctx.Done():
			return nil, io.EOF
		}
	}
}

// fingerprint looks at the machine.
func (d *Tacho) fingerprint() *Fingerprint {
	if !d.currentConfig().Enabled {
		return &Fingerprint{Health: Undetected, Description: "disabled"}
	}
	f := &Fingerprint{Health: Healthy, Description: "Healthy", Attributes: map[string]any{
		attributeDriver:  true,
		attributeVersion: d.version,
		attributeRoot:    os.Geteuid() == 0,
	}}
	d.describeMetrics(f)
	if err := d.describeMachine(f); err != nil {
		f.Health, f.Description = Unhealthy, err.Error()
	}
	return f
}

func (d *Tacho) describeMetrics(f *Fingerprint) {
	endpoint := d.endpoint.Load()
	if endpoint == nil {
		return
	}
	f.Attributes[attributeMetrics] = endpoint.at
	if err := endpoint.failure(); err != nil {
		f.Attributes[attributeMetrics+".reason"] = err.Error()
	}
}

// describeSources says what can be measured in a cgroup, and why not what cannot.
func describeSources(f *Fingerprint, host kernel.FS, own procstats.Cgroup) error {
	f.Attributes[attributeCgroup] = own.Layout()
	reader := source.Open(source.Target{
		FS: host, Cgroup: own, Roots: func() []int { return []int{os.Getpid()} },
		Reaped: func() source.Reaped { return source.Reaped{} },
	}, procstats.DefaultSelection().Union(procstats.Select(procstats.SmapsPSS)))
	for _, source := range reader.Describe() {
		name := attributeSource + source.ID.String()
		f.Attributes[name] = source.Available
		if source.Version != "" {
			f.Attributes[name+".version"] = source.Version
		}
		if !source.Available {
			f.Attributes[name+".reason"] = source.Reason
		}
	}
	if err := reader.Close(); err != nil {
		return fmt.Errorf("close sources: %w", err)
	}
	return nil
}

// describeMachine adds what tasks find here. The error says why none can run.
func (d *Tacho) describeMachine(f *Fingerprint) error {
	own, err := kernel.FindCgroup(d.host, os.Getpid())
	if err != nil {
		return fmt.Errorf("no /proc to read: %w", err)
	}
	if err := describeSources(f, d.host, own); err != nil {
		return err
	}
	if _, err := client.FindRuntimeDir(d.currentConfig().RuntimeDir, longestID); err != nil { // as each start does
		return err
	}
	if err := d.checkCgroupParent(); err != nil {
		return err
	}
	if d.binary != "" {
		if err := unix.Access(d.binary, unix.X_OK); err != nil {
			return fmt.Errorf("no executable to run as executor: %s: %w", d.binary, err)
		}
	}
	return nil
}

// checkCgroupParent says why tasks cannot be put below cgroup_parent. All tasks have limits of memory and CPU, which
// are dropped where they cannot be set, but not for root.
func (d *Tacho) checkCgroupParent() error {
	own := d.currentConfig()
	if own.CgroupParent == "" {
		return nil
	}
	var controllers []string
	if own.Enforce && os.Geteuid() == 0 {
		controllers = []string{"memory", "cpu"}
	}
	return cgroup.CheckParent(d.host, own.CgroupParent, controllers...)
}
