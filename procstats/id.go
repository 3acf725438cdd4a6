// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// ID is the permanent number of a measurement, on the wire and on disk. A number is never given away twice:
// rows are only ever added, and a measurement with another meaning is another row.
type ID uint16

// The permanent numbers, in the order of the table.
const (
	CgroupCPUUsage                 ID = 1
	CgroupCPUUser                  ID = 2
	CgroupCPUSystem                ID = 3
	CgroupCPUPeriods               ID = 4
	CgroupCPUThrottledPeriods      ID = 5
	CgroupCPUThrottled             ID = 6
	CgroupCPUQuota                 ID = 7
	CgroupCPUWeight                ID = 8
	CgroupCPUShares                ID = 9
	CgroupMemoryCurrent            ID = 10
	CgroupMemoryPeak               ID = 11
	CgroupMemoryAnon               ID = 12
	CgroupMemoryFile               ID = 13
	CgroupMemoryShmem              ID = 14
	CgroupMemoryFileMapped         ID = 15
	CgroupMemoryActiveFile         ID = 16
	CgroupMemoryInactiveFile       ID = 17
	CgroupMemorySlabReclaimable    ID = 18
	CgroupMemorySlabUnreclaimable  ID = 19
	CgroupMemoryKernel             ID = 20
	CgroupMemorySock               ID = 21
	CgroupMemoryFileDirty          ID = 22
	CgroupMemoryFileWriteback      ID = 23
	CgroupMemoryPgfault            ID = 24
	CgroupMemoryPgmajfault         ID = 25
	CgroupMemoryRefaultAnon        ID = 26
	CgroupMemoryRefaultFile        ID = 27
	CgroupMemorySwapCurrent        ID = 28
	CgroupMemorySwapPeak           ID = 29
	CgroupMemoryMax                ID = 30
	CgroupMemoryHigh               ID = 31
	CgroupMemorySwapMax            ID = 32
	CgroupMemoryEventsLow          ID = 33
	CgroupMemoryEventsHigh         ID = 34
	CgroupMemoryEventsMax          ID = 35
	CgroupMemoryEventsOOM          ID = 36
	CgroupMemoryEventsOOMKill      ID = 37
	CgroupMemoryEventsOOMGroupKill ID = 38
	CgroupMemoryFailcnt            ID = 39
	CgroupIORead                   ID = 40
	CgroupIOWrite                  ID = 41
	CgroupIOReadOperations         ID = 42
	CgroupIOWriteOperations        ID = 43
	CgroupBlkioRead                ID = 44
	CgroupBlkioWrite               ID = 45
	CgroupBlkioReadOperations      ID = 46
	CgroupBlkioWriteOperations     ID = 47
	CgroupPidsCurrent              ID = 50
	CgroupPidsPeak                 ID = 51
	CgroupPidsMax                  ID = 52
	CgroupPidsEventsMax            ID = 53
	PSICPUSome                     ID = 100
	PSICPUFull                     ID = 101
	PSIMemorySome                  ID = 102
	PSIMemoryFull                  ID = 103
	PSIIOSome                      ID = 104
	PSIIOFull                      ID = 105
	TreeCPU                        ID = 120
	TreeRSS                        ID = 121
	TreeProcesses                  ID = 122
	TreeThreads                    ID = 123
	TreeCPULive                    ID = 124
	TreeCPUExited                  ID = 125
	TreeCPUUnattributed            ID = 126
	TreeProcessesExited            ID = 127
	TreeVsize                      ID = 128
	TreeIORchar                    ID = 130
	TreeIOWchar                    ID = 131
	TreeIORead                     ID = 132
	TreeIOWrite                    ID = 133
	TreeIOCancelledWrite           ID = 134
	RusageCPU                      ID = 140
	RusageMaxRSS                   ID = 141
	RusageMinflt                   ID = 142
	RusageMajflt                   ID = 143
	RusageNvcsw                    ID = 144
	RusageNivcsw                   ID = 145
	RusageInblock                  ID = 146
	RusageOublock                  ID = 147
	SmapsPSS                       ID = 150
	SmapsSwapPSS                   ID = 151
	SmapsSkipped                   ID = 152
	DiskUsage                      ID = 160
	DiskFiles                      ID = 161
	ProcessCPU                     ID = 200
	ProcessChildrenCPU             ID = 201
	ProcessRSS                     ID = 202
	ProcessShared                  ID = 203
	ProcessVsize                   ID = 204
	ProcessState                   ID = 205
	ProcessThreads                 ID = 206
	ProcessMinflt                  ID = 207
	ProcessMajflt                  ID = 208
	ProcessStartTime               ID = 209
	ProcessCommand                 ID = 210
	ProcessPSS                     ID = 211
	ProcessIORchar                 ID = 212
	ProcessIOWchar                 ID = 213
	ProcessIORead                  ID = 214
	ProcessIOWrite                 ID = 215
	ProcessIOCancelledWrite        ID = 216
	ProcessElapsed                 ID = 217
	ProcessCmdline                 ID = 218
	ExecutorCPU                    ID = 240
	ExecutorCollections            ID = 241
	ExecutorCollectSeconds         ID = 242
	PortableCPU                    ID = 260
	PortableRSS                    ID = 261
	PortableProcesses              ID = 262
	PortableProcessCPU             ID = 263
	PortableProcessRSS             ID = 264
	HeadlineCPU                    ID = 300
	HeadlineCores                  ID = 301
	HeadlineCoresAverage           ID = 302
	HeadlineMemory                 ID = 303
	HeadlineMemoryCharged          ID = 304
	HeadlineMemoryPeak             ID = 305
	HeadlineIORead                 ID = 306
	HeadlineIOWrite                ID = 307
)

// String returns the name in the table, or unknown_N for a number that a newer build gave.
func (id ID) String() string { return nameOf(id) }
