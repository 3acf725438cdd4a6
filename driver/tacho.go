// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Options say how our driver is made.
type Options struct {
	// Config is in force until SetConfig; the zero Config is not a useful one, see DefaultConfig.
	Config Config
	// Version is the build's, for the fingerprint.
	Version string
	// Binary is the tacho executable that runs as the executor; empty for the running one.
	Binary string
	// Remote says that hosts are behind a wire: a stream of events then ends when the driver must know that its host
	// has handled them, see [Tacho.TaskEvents].
	Remote bool
	// ExecutorStats leaves all streams of samples to the executors, as those of tasks whose cgroup this process may
	// not read.
	ExecutorStats bool
	// Logger may be nil.
	Logger hclog.Logger
}

const (
	// shutdownTimeout bounds how long an executor without a task may take to end.
	shutdownTimeout = 5 * time.Second
	// killTimeout bounds how long a killed task may take to be gone: the kernel ends no process that waits for a
	// disk or a network file system that does not answer.
	killTimeout = 30 * time.Second
)

// patience is how long executors are waited for.
type patience struct {
	// quiet is how long a connection to an executor is held for an answer that may come in hours. It is short, so that
	// a host that starts many tasks does not hold all their connections at one time.
	quiet time.Duration
	// overdue is how long beyond the grace a stop may take before the executor is suspected, and silent how long any may
	// take to answer what needs no wait. Together they are less than hosts wait beyond the grace.
	overdue, silent time.Duration
	// launch is how long an executor may take to start its task.
	launch time.Duration
	// report is the age at which a running task is reported for the first time, then at twice that age, and so on; 0 for
	// never. Hosts behind a wire have no other account of a service that does not end.
	report time.Duration
}

// Tacho is the task driver over executors. Its methods may be called concurrently, in the process of an agent as
// well as behind a plugin's wire.
type Tacho struct {
	log             hclog.Logger
	version, binary string
	host            kernel.FS
	events          *delivery

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	// starts limits concurrent starts.
	starts   startLimit
	patience patience
	// waits is where the ends and changes of executors are waited for.
	waits *process.EpollSet
	// loop reads the tasks that have streams.
	loop *sampling.Loop

	// endpoint serves what the tasks use, if the configuration asks for it; serving is held while it is replaced.
	endpoint atomic.Pointer[endpoint]
	serving  sync.Mutex

	// hosts leads to the end of tasks of a host behind a wire that does not know of them; nil for a host in this process.
	hosts    confirmations
	watching sync.WaitGroup

	mu       sync.Mutex // guards following
	config   Config
	coreMHz  float64 // the node's mean core speed; 0 where not known
	tasks    map[string]*task
	starting map[string]*reservation // what is being started or recovered, by id
	changed  chan struct{}           // closed and replaced when the configuration changes
}

// New returns a driver that has started nothing.
func New(o Options) *Tacho {
	d := &Tacho{
		log: cmp.Or(o.Logger, hclog.NewNullLogger()), version: o.Version, binary: o.Binary, host: kernel.HostFS(),
		config: o.Config, tasks: make(map[string]*task), starting: make(map[string]*reservation),
		changed: make(chan struct{}), starts: newStartLimit(), waits: process.NewEpollSet(), events: newDelivery(o.Remote),
		patience: patience{quiet: time.Second, overdue: 4 * time.Second, silent: 3 * time.Second, launch: 2 * time.Minute},
	}
	d.coreMHz, _ = kernel.CoreSpeed(d.host)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	client.BePatient()
	d.loop = sampling.New(d.log, o.ExecutorStats)
	if o.Remote {
		d.patience.report = 24 * time.Hour
		d.hosts = make(confirmations, 1)
		d.watching.Go(func() { d.hosts.watch(d.ctx, d.endUnconfirmed) })
	}
	return d
}

// Close lets go of all tasks, which run on, and waits for the driver's goroutines.
func (d *Tacho) Close() error {
	d.cancel()
	d.watching.Wait()
	d.loop.Close()
	d.events.log.Close()
	errs := []error{d.stopServing()}
	for _, t := range d.list() {
		errs = append(errs, t.detach())
	}
	errs = append(errs, d.waits.Close())
	return errors.Join(errs...)
}

// SetConfig takes MessagePack shaped by ConfigSchema. coreMHz is the mean speed of the machine's cores as
// the host gives it, 0 if it does not. Tasks that run
// already keep what they were started with.
func (d *Tacho) SetConfig(_ context.Context, msgpack []byte, coreMHz float64) error {
	config, err := DecodeConfig(msgpack)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.config = config
	d.coreMHz = cmp.Or(coreMHz, d.coreMHz)
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	d.serveNumbers(config.MetricsAddress)
	return nil
}

// CoreMHz returns the mean speed of the machine's cores, as the host says, else as the kernel does; 0 if it is not
// known.
func (d *Tacho) CoreMHz() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.coreMHz
}

// CollectsLogs reports whether the executors write the log files of tasks, and not the host.
func (d *Tacho) CollectsLogs() bool { return d.currentConfig().LogCollection == LogsByExecutor }

// TaskEvents sends what happens in any task, until ctx ends. What happened without a listener is sent first. Before
// the end of a task is told to a host behind a wire, its stream ends with io.EOF: a host that opens another has
// handled all events of the first.
func (d *Tacho) TaskEvents(ctx context.Context) (Stream[*Event], error) {
	return d.events.listen(ctx), nil
}

func (d *Tacho) currentConfig() Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}

// find returns a task by its id.
func (d *Tacho) find(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, ErrTaskNotFound
}

// list returns all tasks, in no order.
func (d *Tacho) list() []*task {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.tasks))
}

// reserve takes an id for a task that is about to be started or recovered, so that two calls cannot do it at once.
func (d *Tacho) reserve(config *TaskConfig) error {
	id := config.ID
	if id == "" {
		return invalid("a task without an id")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, starting := d.starting[id]; starting || d.tasks[id] != nil {
		return fmt.Errorf("task %s: %w", id, ErrTaskExists)
	}
	r := &reservation{allocID: config.AllocID, task: config.Name, settled: make(chan struct{})}
	for _, other := range d.starting {
		if other.allocID == r.allocID && other.task == r.task {
			r.earlier = append(r.earlier, other)
		}
	}
	d.starting[id] = r
	return nil
}

// reservation is a task that is being started or recovered.
type reservation struct {
	allocID, task string
	earlier       []*reservation // of the same task, such as for a host that has died since
	settled       chan struct{}  // is closed when it is over
}

// await waits until reservations are over.
func await(ctx context.Context, what string, all ...*reservation) error {
	for _, r := range all {
		select {
		case <-r.settled:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of the task: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// settled returns a task once its start is over.
func (d *Tacho) settled(ctx context.Context, id string) (*task, error) {
	d.mu.Lock()
	r := d.starting[id]
	d.mu.Unlock()
	if r != nil {
		if err := await(ctx, "the start", r); err != nil {
			return nil, err
		}
	}
	return d.find(id)
}

// slowStart is how long a start counts towards the limit: one that hangs must not delay the others.
const slowStart = 2 * time.Second

// startLimit limits how many executors start at the same time. A hundred that start at once are not running sooner
// than one after the other, and the ends of running tasks are delayed by all of them.
type startLimit chan struct{}

// newStartLimit allows as many starts as keep the CPUs busy while some of them wait for storage.
func newStartLimit() startLimit { return make(startLimit, 2*runtime.GOMAXPROCS(0)) }

// acquire waits until another start is allowed, or until ctx is done. release ends the start.
func (l startLimit) acquire(ctx context.Context) (release func()) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	free := sync.OnceFunc(func() { <-l })
	late := time.AfterFunc(slowStart, free)
	return func() {
		late.Stop()
		free()
	}
}
