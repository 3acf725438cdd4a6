// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Constraint is a condition on the node.
type Constraint struct {
	LTarget, RTarget, Operand string
	// Range is where it stands in the job file.
	Range hcl.Range `json:"-"`
}

// String returns the constraint as one line.
func (c *Constraint) String() string {
	return strings.Join(strings.Fields(c.LTarget+" "+c.Operand+" "+c.RTarget), " ")
}

// The operands of constraints that do not compare two values.
const (
	DistinctHosts    = "distinct_hosts"
	DistinctProperty = "distinct_property"
	IsSet            = "is_set"
	IsNotSet         = "is_not_set"
)

// comparisons maps the operands of job files to those that compare two values.
func comparisons() map[string]string {
	return map[string]string{
		"=": "=", "==": "=", "is": "=", "!=": "!=", "not": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<=",
		"regexp":  "regexp",
		"version": "version", "semver": "semver", "set_contains": "set_contains", "set_contains_all": "set_contains",
		"set_contains_any": "set_contains_any", IsSet: IsSet, IsNotSet: IsNotSet,
		"attribute_is_set": IsSet, "attribute_is_not_set": IsNotSet,
		DistinctHosts: DistinctHosts, DistinctProperty: DistinctProperty,
	}
}

// constraint reads a constraint. Some operands may be written as an attribute whose value is the operand's.
func (d *decoder) constraint(into *[]*Constraint) func(*hclsyntax.Block) {
	return func(b *hclsyntax.Block) {
		c := &Constraint{Operand: "=", Range: b.TypeRange}
		operands := comparisons()
		attributes := map[string]func(*hclsyntax.Attribute){
			"attribute": d.lenientStr(&c.LTarget), "value": d.lenientStr(&c.RTarget), "operator": d.lenientStr(&c.Operand),
		}
		for _, name := range []string{"regexp", "version", "semver", "set_contains", "set_contains_any", DistinctProperty} {
			attributes[name] = func(a *hclsyntax.Attribute) {
				c.Operand = name
				target := &c.RTarget
				if name == DistinctProperty {
					target = &c.LTarget
				}
				d.lenientStr(target)(a)
			}
		}
		off := false
		attributes[DistinctHosts] = func(a *hclsyntax.Attribute) {
			on := true
			d.flag(&on)(a)
			c.Operand, off = DistinctHosts, !on
		}
		d.body("constraint", b.Body, fields{attributes: attributes})
		operand, known := operands[c.Operand]
		if !known {
			d.errorf(b.TypeRange, "Invalid value", "unknown operator %q of a constraint", c.Operand)
		}
		c.Operand = operand
		d.need(c.LTarget != "" || operand == DistinctHosts || !known, b.TypeRange, "constraint", "attribute")
		if !off && c.RTarget != "false" || operand != DistinctHosts {
			*into = append(*into, c)
		}
	}
}

// lenientStr reads a string in which names that only the node knows stand for themselves.
func (d *decoder) lenientStr(into *string) func(*hclsyntax.Attribute) {
	return func(a *hclsyntax.Attribute) {
		if text, ok := d.lenient(a.Expr); ok {
			*into = text
		}
	}
}

// elsewhereOnly accepts what selects nodes or changes how allocations are replaced, and notes that it has no effect.
func (d *decoder) elsewhereOnly(name string) {
	if !slices.Contains(d.placed, name) {
		d.placed = append(d.placed, name)
	}
}

// update accepts an update block without canaries, which would run beside the allocations that they replace.
func (d *decoder) update(b *hclsyntax.Block) {
	d.elsewhereOnly("update")
	a := b.Body.Attributes["canary"]
	if a == nil {
		return
	}
	canaries := 0
	if d.number(&canaries, 0, MaxCount)(a); canaries > 0 {
		d.unsupported(a.NameRange, "canary is not supported by the embedded agent")
	}
}

// scaling accepts a scaling block: the agent has no autoscaler. A group without a count has its min, as in Nomad.
func (d *decoder) scaling(group *hclsyntax.Block, g *Group) func(*hclsyntax.Block) {
	return func(b *hclsyntax.Block) {
		d.elsewhereOnly("scaling")
		least, most := 0, MaxCount
		if a := b.Body.Attributes["min"]; a != nil {
			if d.number(&least, 0, MaxCount)(a); group.Body.Attributes["count"] == nil {
				g.Count = least
			}
		}
		if a := b.Body.Attributes["max"]; a != nil {
			d.number(&most, 0, MaxCount)(a)
		}
		if g.Count < least || g.Count > most {
			d.errorf(b.TypeRange, "Invalid value", "count is %d; scaling allows %d to %d", g.Count, least, most)
		}
	}
}

// service accepts a service. The agent has no catalog to register it in, and does not run its checks, so that no
// check restarts a task.
func (d *decoder) service(b *hclsyntax.Block) {
	for _, inner := range b.Body.Blocks {
		if inner.Type == "connect" {
			d.unsupported(inner.TypeRange, "connect is not supported by the embedded agent")
		}
	}
	d.services = true
}

// notes returns what has no effect in a job.
func (d *decoder) notes() []string {
	var notes []string
	if len(d.placed) > 0 {
		notes = append(notes, "no effect on one node: "+strings.Join(slices.Sorted(slices.Values(d.placed)), ", "))
	}
	if d.services {
		notes = append(notes, "services are not registered; checks do not run and restart nothing")
	}
	return notes
}

// Port is a port that a group asks for.
type Port struct {
	Label string
	// Value is the port, 0 for one that the agent chooses. To is the port that the task is told to listen on; 0 for the
	// same.
	Value int
	To    int `json:",omitempty"`
}

// network reads the ports of a group on the host's network.
func (d *decoder) network(g *Group) func(*hclsyntax.Block) {
	return func(b *hclsyntax.Block) {
		mode := "host"
		ignored := 0
		d.body("network", b.Body, fields{
			attributes: map[string]func(*hclsyntax.Attribute){"mode": d.str(&mode), "mbits": d.number(&ignored, 0, maxInt)},
			blocks:     map[string]func(*hclsyntax.Block){"port": func(p *hclsyntax.Block) { d.port(p, g) }},
			labelled:   []string{"port"},
			elsewhere:  []string{"dns", "hostname", "cni"},
		})
		if mode != "host" && mode != "" {
			d.unsupported(b.TypeRange,
				"network mode %q is not supported by the embedded agent, whose tasks are on the host's network", mode)
		}
	}
}

func (d *decoder) port(b *hclsyntax.Block, g *Group) {
	p := &Port{Label: b.Labels[0]}
	network := "default"
	collide := false
	d.body("port", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"static": d.number(&p.Value, 1, 65535), "to": d.number(&p.To, -1, 65535), "host_network": d.str(&network),
			"ignore_collision": d.flag(&collide),
		},
	})
	if network != "default" || collide {
		d.unsupported(b.TypeRange, "host_network and ignore_collision are not supported by the embedded agent")
	}
	if slices.ContainsFunc(g.Ports, func(o *Port) bool { return o.Label == p.Label }) {
		d.errorf(b.LabelRanges[0], "Duplicate name", "duplicate port %q", p.Label)
	}
	d.name(b.LabelRanges[0], "port", p.Label)
	g.Ports = append(g.Ports, p)
}

// ephemeralDisk bounds the logs of the group's tasks.
func (d *decoder) ephemeralDisk(g *Group) func(*hclsyntax.Block) {
	return func(b *hclsyntax.Block) {
		d.body("ephemeral_disk", b.Body, fields{
			attributes: map[string]func(*hclsyntax.Attribute){"size": d.number(&g.DiskMB, 10, maxInt)},
			placed:     []string{"sticky", "migrate"},
		})
	}
}

// capLogs lowers the bounds of tasks' logs so that both streams of all tasks fit on the group's disk.
func (g *Group) capLogs() {
	if g.DiskMB == 0 || len(g.Tasks) == 0 {
		return
	}
	budget := max(1, g.DiskMB/(2*len(g.Tasks)))
	for _, t := range g.Tasks {
		t.Logs = cmp.Or(t.Logs, &Logs{MaxFiles: 10, MaxFileSizeMB: 10})
		if t.Logs.MaxFiles*t.Logs.MaxFileSizeMB > budget {
			t.Logs.MaxFiles = min(t.Logs.MaxFiles, budget)
			t.Logs.MaxFileSizeMB = budget / t.Logs.MaxFiles
		}
	}
}

// implicitGroup puts a task that is directly in its job into a group of the same name.
func implicitGroup(b *hclsyntax.Block) *hclsyntax.Block {
	return &hclsyntax.Block{
		Type: "group", Labels: b.Labels, TypeRange: b.TypeRange, LabelRanges: b.LabelRanges,
		OpenBraceRange: b.OpenBraceRange, CloseBraceRange: b.CloseBraceRange,
		Body: &hclsyntax.Body{Blocks: hclsyntax.Blocks{b}, SrcRange: b.Body.SrcRange, EndRange: b.Body.EndRange},
	}
}

// Reschedule says when a failed allocation is replaced by another. The zero value means never.
type Reschedule struct {
	// Attempts are the most within Interval, if it is not Unlimited.
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// The ways in which the delay grows.
const (
	DelayConstant    = "constant"
	DelayExponential = "exponential"
	DelayFibonacci   = "fibonacci"
)

// defaultReschedule is Nomad's: services are replaced again and again, batch jobs once a day, and those that run on
// every node never.
func defaultReschedule(jobType string) Reschedule {
	switch jobType {
	case TypeService:
		return Reschedule{DelayFunction: DelayExponential, Delay: 30 * time.Second, MaxDelay: time.Hour, Unlimited: true}
	case TypeBatch:
		return Reschedule{DelayFunction: DelayConstant, Delay: 5 * time.Second, Attempts: 1, Interval: 24 * time.Hour}
	}
	return Reschedule{}
}

// OfHost returns the policy for failures on the host's account, which take no attempt.
func (r Reschedule) OfHost() Reschedule {
	if r.Unlimited = true; r.Delay == 0 {
		return defaultReschedule(TypeService)
	}
	return r
}

// Next returns how long after its failure an allocation is replaced; past is how long before it each of the earlier
// ones was. ok is false if it is not replaced.
func (r *Reschedule) Next(past []time.Duration) (delay time.Duration, ok bool) {
	within := 0
	for _, ago := range past {
		if ago < r.Interval {
			within++
		}
	}
	if !r.Unlimited && within >= r.Attempts {
		return 0, false
	}
	// Who ran for longer than the longest delay begins anew.
	if n := len(past); n > 0 && r.MaxDelay > 0 && past[n-1] > r.MaxDelay {
		past = nil
	}
	delay, before := r.Delay, time.Duration(0)
	for range past {
		switch r.DelayFunction {
		case DelayExponential:
			delay *= 2
		case DelayFibonacci:
			delay, before = delay+before, delay
		}
		if r.MaxDelay > 0 && delay >= r.MaxDelay {
			return r.MaxDelay, true
		}
	}
	return delay, true
}

func (d *decoder) reschedule(into *Reschedule) func(*hclsyntax.Block) {
	return func(b *hclsyntax.Block) {
		_, limited := b.Body.Attributes["attempts"]
		into.Unlimited = into.Unlimited && !limited
		d.body("reschedule", b.Body, fields{attributes: map[string]func(*hclsyntax.Attribute){
			"attempts": d.number(&into.Attempts, 0, maxInt),
			"interval": d.duration(&into.Interval), "delay": d.duration(&into.Delay),
			"delay_function": d.word(&into.DelayFunction, DelayConstant, DelayExponential, DelayFibonacci),
			"max_delay":      d.duration(&into.MaxDelay), "unlimited": d.flag(&into.Unlimited),
		}})
		if into.Delay < 5*time.Second && (into.Unlimited || into.Attempts > 0) {
			d.errorf(b.TypeRange, "Invalid value", "reschedule: delay must be at least 5s")
		}
	}
}
