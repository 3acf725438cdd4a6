// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// BasisAnnotation is the annotation of a task's end with [Record.AdviceBasis]; CoreMHzAnnotation has what a core of the
// machine counts for in job files.
const (
	BasisAnnotation   = "record"
	CoreMHzAnnotation = "cpu.core_mhz"
)

// adviceBasis is the part of a record that advice reads, in the JSON of a record: Decode reads it. Its size is bounded,
// because hosts store it with the event of a task's end.
type adviceBasis struct {
	SchemaVersion string    `json:"schema_version"`
	State         State     `json:"state"`
	StartedAt     time.Time `json:"started_at"`
	SpanSeconds   *float64  `json:"span_seconds,omitempty"`
	Diagnosis     struct {
		Verdict Verdict `json:"verdict"`
		Reason  string  `json:"reason,omitempty"` // of a watch
		Stall   Stall   `json:"stall,omitempty"`
		OOM     struct {
			Kills *int64 `json:"kills"`
		} `json:"oom"`
	} `json:"diagnosis"`
	Headline     map[string]HeadlineValue `json:"headline"`
	Measurements map[string]float64       `json:"measurements"`
	Commands     *basisCommands           `json:"commands,omitempty"`
	Host         struct {
		CPUs           int   `json:"cpus"`
		ReadAheadBytes int64 `json:"read_ahead_bytes,omitempty"`
	} `json:"host"`
}

// basisCommands are the commands of a record, added up in three rows.
type basisCommands struct {
	Rows        []basisCommand `json:"rows"`
	Others      *basisCommand  `json:"others"`
	LostRecords int64          `json:"lost_records"`
	Reason      string         `json:"reason,omitempty"`
}

type basisCommand struct {
	Processes        int64               `json:"processes"`
	PeakRSSBytes     int64               `json:"peak_rss_bytes"`
	PeakRSSGuarantee procstats.Guarantee `json:"peak_rss_guarantee"`
	MappedBytes      int64               `json:"mapped_bytes,omitempty"`
	MinorFaults      int64               `json:"minor_faults,omitempty"`
}

// AdviceBasis returns the part of a record that advice reads, and what a task waited for, as JSON. Advice from it is
// that from the record.
func (r *Record) AdviceBasis() string {
	b := adviceBasis{
		SchemaVersion: SchemaVersion, State: r.State, StartedAt: r.StartedAt,
		Headline: map[string]HeadlineValue{}, Measurements: map[string]float64{},
	}
	if span, ok := r.Span(); ok {
		b.SpanSeconds = &span
	}
	b.Diagnosis.Verdict, b.Diagnosis.Stall, b.Host.CPUs = r.Diagnosis.Verdict, r.Diagnosis.Stall, r.Host.CPUs
	b.Diagnosis.OOM.Kills, b.Host.ReadAheadBytes = r.Diagnosis.OOM.Kills, r.Host.ReadAheadBytes
	if r.Diagnosis.Verdict == Watched {
		b.Diagnosis.Reason = r.Diagnosis.Reason
	}
	for _, id := range [...]procstats.ID{
		procstats.HeadlineMemoryPeak, procstats.HeadlineCPU, procstats.HeadlineIORead, procstats.HeadlineIOHanded,
		procstats.HeadlineNetworkReceived,
	} {
		if h := r.Headline[id.String()]; h.Value != nil {
			value := HeadlineValue{Value: h.Value}
			switch {
			case id == procstats.HeadlineMemoryPeak && chargedExactly(&h):
				value.Guarantee = procstats.Exact
			case id == procstats.HeadlineMemoryPeak, id == procstats.HeadlineCPU:
				value.Guarantee = h.Guarantee
			}
			b.Headline[id.String()] = value
		}
	}
	for _, id := range [...]procstats.ID{
		procstats.CgroupMemorySwapPeak, procstats.CgroupMemorySwapCurrent, procstats.CgroupMemoryEventsHigh,
		procstats.CgroupMemoryEventsMax, procstats.CgroupMemoryFailcnt, procstats.CgroupCPUThrottled,
		procstats.TreeIORchar, procstats.TreeIOWchar, procstats.TreeUncharged, procstats.TreeUnchargedData,
		procstats.TreeUnchargedAround, procstats.TreeChargedMapped, procstats.CgroupPidsPeak,
		procstats.PSICPUSome, procstats.PSICPUFull, procstats.PSIMemorySome, procstats.PSIIOSome,
		procstats.CgroupCPUUsage, procstats.TreeCPU, procstats.RusageCPU, procstats.ExitsPageCache,
		procstats.ExitsKernelMemory,
	} {
		if value, ok := r.measured(id); ok {
			b.Measurements[id.String()] = value
		}
	}
	b.Commands = r.basisCommands()
	text, err := encode(&b, "")
	if err != nil { // of numbers that are not finite: JSON has none, and no record either
		return ""
	}
	return string(text)
}

// basisCommands adds up commands: the largest process, all others, and what may have inherited its size.
func (r *Record) basisCommands() *basisCommands {
	c := r.Commands
	if c == nil {
		return nil
	}
	u := usageOf(r, 0)
	largest, inherited := int64(u.largest), int64(u.inherited)
	b := &basisCommands{LostRecords: c.LostRecords, Rows: []basisCommand{
		{Processes: 1, PeakRSSBytes: largest, PeakRSSGuarantee: procstats.LowerBound},
		{Processes: 1, PeakRSSBytes: inherited, PeakRSSGuarantee: procstats.UpperBound},
	}}
	b.Rows[0].MappedBytes, b.Rows[0].MinorFaults = c.mostMapped()
	if c.Reason != "" {
		b.Reason = "not counted"
	}
	b.Others = &basisCommand{
		Processes: 1, PeakRSSBytes: int64(u.resident) - largest - inherited, PeakRSSGuarantee: procstats.LowerBound,
	}
	return b
}
