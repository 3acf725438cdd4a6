// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// Health says whether a driver can run tasks.
type Health int32

// The hosts' numbers.
const (
	// Undetected drivers are not there at all.
	Undetected Health = 0
	Unhealthy  Health = 1
	Healthy    Health = 2
)

// Fingerprint is a driver's state on its node.
type Fingerprint struct {
	// Attributes can be used in constraints of jobs. Values are strings and bools.
	Attributes map[string]any
	Health     Health
	// Description says why, in a sentence.
	Description string
}

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
	d.watch.hostConnected()
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
		if errors.Is(err, errors.ErrUnsupported) {
			f.Health = Undetected
		}
	}
	return f
}

func (d *Tacho) describeMetrics(f *Fingerprint) {
	endpoint := d.endpoint.Load()
	if endpoint == nil {
		return
	}
	f.Attributes[attributeMetrics] = endpoint.address
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
