// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"math"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/tachograph/tacho/internal/testkit"
)

// parsed is what a parser found, by key: a number, or "max", "invalid", "missing".
type parsed map[string]any

// parseForTest runs a parser over the keys.
func parseForTest(parse FieldParser, data string, keys ...string) parsed {
	fields := make([]Field, len(keys))
	for i, key := range keys {
		fields[i].Key = key
	}
	parse([]byte(data), fields)
	found := parsed{}
	for _, f := range fields {
		switch f.State {
		case FieldRead:
			found[f.Key] = f.Value
		case FieldUnlimited:
			found[f.Key] = "max"
		case FieldInvalid:
			found[f.Key] = "invalid"
		case FieldMissing:
			found[f.Key] = "missing"
		}
	}
	return found
}

type parserTest struct {
	name, data string
	want       parsed
}

// runParserTests asks the parser for the keys of each test's want.
func runParserTests(t *testing.T, parse FieldParser, tests []parserTest) {
	t.Helper()
	for _, test := range tests {
		var keys []string
		for key := range test.want {
			keys = append(keys, key)
		}
		if diff := cmp.Diff(test.want, parseForTest(parse, test.data, keys...)); diff != "" {
			t.Errorf("%s: %q differs (-want +got):\n%s", test.name, test.data, diff)
		}
	}
}

// writeTree writes files below a folder of the test's own; a name that ends in a slash is a folder.
func writeTree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		path := root + "/" + name
		err := os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755)
		if err == nil && !strings.HasSuffix(name, "/") {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		must(t, err)
	}
	return root
}

// procTree writes files below a proc folder.
func procTree(t *testing.T, files map[string]string) FS {
	t.Helper()
	return FS{Proc: writeTree(t, files)}
}

func TestParseFlatKeyed(t *testing.T) {
	runParserTests(t, ParseFlatKeyed, []parserTest{
		{"in order", "anon 1\nfile 2\n", parsed{"anon": 1.0, "file": 2.0}},
		{"other order", "file 2\njunk 3\nanon 1\n", parsed{"anon": 1.0, "file": 2.0}},
		{"a key that is the start of another", "slab_reclaimable 7\nslab 9\n", parsed{"slab": 9.0}},
		{"twice: the first counts", "anon 1\nanon 2\n", parsed{"anon": 1.0}},
		{"CRLF", "anon 1\r\nfile 2\r\n", parsed{"anon": 1.0, "file": 2.0}},
		{"cut short within the number", "anon 1\nfile 1234", parsed{"anon": 1.0, "file": "missing"}},
		{"empty", "", parsed{"anon": "missing"}},
		{"empty lines", "\n\nanon 1\n", parsed{"anon": 1.0}},
		{"no value", "anon\nfile \n", parsed{"anon": "missing", "file": "invalid"}},
		{"negative", "anon -1\n", parsed{"anon": "invalid"}},
		{"largest", "anon 9223372036854775807\n", parsed{"anon": float64(math.MaxInt64)}},
		{"over int64", "anon 9223372036854775808\nfile 99999999999999999999999\n", parsed{"anon": "invalid", "file": "invalid"}},
		{"junk", "anon 1x\nfile 0x10\nshmem 1 2\n", parsed{"anon": "invalid", "file": "invalid", "shmem": "invalid"}},
		{"max is no number here", "max 3\noom max\n", parsed{"max": 3.0, "oom": "invalid"}},
		{"binary", "\x00\xff\nanon\x00 1\nanon 4\n", parsed{"anon": 4.0}},
	})
}

func TestParseSingleValue(t *testing.T) {
	runParserTests(t, ParseSingleValue, []parserTest{
		{"number", "4096\n", parsed{"": 4096.0}},
		{"zero", "0\n", parsed{"": 0.0}},
		{"no limit", "max\n", parsed{"": "max"}},
		{"CRLF", "max\r\n", parsed{"": "max"}},
		{"empty", "", parsed{"": "missing"}},
		{"empty line", "\n", parsed{"": "missing"}},
		{"cut short", "409", parsed{"": "missing"}},
		{"negative", "-1\n", parsed{"": "invalid"}},
		{"over int64", "18446744073709551615\n", parsed{"": "invalid"}},
		{"spaces", " 1\n", parsed{"": "invalid"}},
	})
	runParserTests(t, ParseMemoryLimitV1, []parserTest{
		{"limit", "4096\n", parsed{"": 4096.0}},
		{"no limit, 4 KiB pages", "9223372036854771712\n", parsed{"": "max"}},
		{"no limit, 64 KiB pages", "9223372036854710272\n", parsed{"": "max"}},
		{"no limit, old kernels", "9223372036854775807\n", parsed{"": "max"}},
		{"large", "1152921504606846976\n", parsed{"": float64(1 << 60)}},
		{"negative", "-1\n", parsed{"": "invalid"}},
	})
}

func TestParseCPUMax(t *testing.T) {
	runParserTests(t, ParseCPUMax, []parserTest{
		{"quota", "50000 100000\n", parsed{"": 0.5}},
		{"two files of v1", "150000\n100000\n", parsed{"": 1.5}},
		{"no limit", "max 100000\n", parsed{"": "max"}},
		{"no limit on v1", "-1\n100000\n", parsed{"": "max"}},
		{"no period", "50000\n", parsed{"": "invalid"}},
		{"period cut short", "50000 1000", parsed{"": "invalid"}},
		{"period of zero", "50000 0\n", parsed{"": "invalid"}},
		{"negative", "-2 100000\n", parsed{"": "invalid"}},
		{"empty", "", parsed{"": "missing"}},
		{"CRLF", "50000 100000\r\n", parsed{"": 0.5}},
	})
}

// ioStat reads one io.stat file once.
func ioStat(devices *BlockDevices) FieldParser {
	return func(data []byte, fields []Field) { NewIOStat(devices).Parse(data, fields) }
}

func TestParseIOStat(t *testing.T) {
	runParserTests(t, ioStat(NewBlockDevices(FS{})), []parserTest{
		{"no device is zero", "", parsed{"rbytes": 0.0}},
		{"one device", "254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n", parsed{"rbytes": 1.0, "wbytes": 2.0, "rios": 3.0, "wios": 4.0}},
		{"summed", "8:0 rbytes=1 wbytes=2\n8:16 rbytes=10 wbytes=20\n", parsed{"rbytes": 11.0, "wbytes": 22.0}},
		{"device without numbers", "8:0 \n8:16 rbytes=10\n7:0\n", parsed{"rbytes": 10.0, "wbytes": 0.0}},
		{"cost keys", "8:0 rbytes=1 cost.vrate=100.00 cost.usage=7 use_delay=0\n", parsed{"rbytes": 1.0}},
		{"CRLF", "8:0 rbytes=1 wios=2\r\n", parsed{"rbytes": 1.0, "wios": 2.0}},
		{"cut short", "8:0 rbytes=1\n8:16 rbyt", parsed{"rbytes": "invalid", "wbytes": "invalid"}},
		{"negative", "8:0 rbytes=-1 wbytes=2\n", parsed{"rbytes": "invalid", "wbytes": "invalid"}},
		{"invalid stays invalid", "8:0 rbytes=x\n8:16 rbytes=3\n", parsed{"rbytes": "invalid"}},
		{"sum over int64", "8:0 rbytes=9223372036854775807\n8:16 rbytes=9223372036854775807\n", parsed{"rbytes": "invalid"}},
	})
}

func TestParseBlkio(t *testing.T) {
	const device = "254:0 Read 5\n254:0 Write 6\n254:0 Sync 11\n254:0 Async 0\n254:0 Discard 0\n254:0 Total 11\n"
	runParserTests(t, NewBlockDevices(FS{}).ParseBlkio, []parserTest{
		{"one device", device + "Total 11\n", parsed{"Read": 5.0, "Write": 6.0}},
		{"summed", device + "8:0 Read 10\n8:0 Write 0\nTotal 21\n", parsed{"Read": 15.0, "Write": 6.0}},
		{"no device", "Total 0\n", parsed{"Read": "missing", "Write": "missing"}},
		{"nothing counted", "8:0 Read 0\n8:0 Write 0\nTotal 0\n", parsed{"Read": "missing", "Write": "missing"}},
		{"cut short", device + "Total 1", parsed{"Read": "invalid"}},
		{"negative", "8:0 Read -5\n", parsed{"Read": "invalid"}},
		{"empty", "", parsed{"Read": "missing"}},
	})
}

func TestParsePressure(t *testing.T) {
	runParserTests(t, ParsePressure, []parserTest{
		{"both", "some avg10=0.00 avg60=0.00 avg300=0.00 total=423352\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", parsed{"some": 423352.0, "full": 7.0}},
		{"cpu before 5.13", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", parsed{"some": 1.0, "full": "missing"}},
		{"something behind", "some avg10=0.00 total=1 max=3\r\n", parsed{"some": 1.0}},
		{"cut short", "some avg10=0.00 total=1\nfull avg10=0.00 total=12", parsed{"some": 1.0, "full": "missing"}},
		{"no total", "some avg10=0.00\n", parsed{"some": "invalid"}},
		{"not a number", "some total=max\nfull total=-1\n", parsed{"some": "invalid", "full": "invalid"}},
		{"empty", "", parsed{"some": "missing"}},
	})
}

func TestUnescape(t *testing.T) {
	tests := map[string]string{
		`/plain`: "/plain", `/a\040b`: "/a b", `/tab\011`: "/tab\t", `/back\134slash`: `/back\slash`,
		`/a\040\040`: "/a  ", `/cut\04`: `/cut\04`, `/not\999`: `/not\999`, `/big\777`: `/big\777`, `\`: `\`, ``: ``,
	}
	for in, want := range tests {
		testkit.Equal(t, Unescape(in, `\`, 8), want, "unescape %q", in)
	}
}

// addCapturedFiles seeds a fuzz target with every captured file of a name that ends so.
func addCapturedFiles(f *testing.F, suffixes ...string) {
	f.Helper()
	for _, archive := range []string{"hybrid-6.18", "v1-6.1", "v2-6.1", "v2-6.12"} {
		parsed, err := txtar.ParseFile("../source/testdata/cgroup/" + archive + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range parsed.Files {
			for _, suffix := range suffixes {
				if strings.HasSuffix(file.Name, suffix) {
					f.Add(file.Data)
				}
			}
		}
	}
	for _, hostile := range []string{"", "\n", "max\n", "-1\n", "anon 1", "8:0 \n", "Total 0\n", "99999999999999999999\n", "some total=1\r\n"} {
		f.Add([]byte(hostile))
	}
}

// FuzzParsers holds every parser of fields to its promises: no panic, no number below 0 or above the largest int64, and
// the same answer again.
func FuzzParsers(f *testing.F) {
	addCapturedFiles(f, ".stat", ".events", ".oom_control", ".current", ".max", ".peak", ".usage", ".limit_in_bytes",
		".cfs_quota_us", "io_service_bytes", "io_serviced_recursive", ".pressure", "pressure/cpu")
	flat := []string{"anon", "file", "usage_usec", "total_rss", "oom_kill", "max", "user", ""}
	devices := NewBlockDevices(FS{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parser := range []struct {
			parse FieldParser
			keys  []string
		}{
			{ParseFlatKeyed, flat},
			{ParseSingleValue, []string{""}},
			{ParseMemoryLimitV1, []string{""}},
			{ParseCPUMax, []string{""}},
			{ioStat(devices), []string{"rbytes", "wbytes", "rios", "wios"}},
			{devices.ParseBlkio, []string{"Read", "Write"}},
			{ParsePressure, []string{"some", "full"}},
		} {
			first := parseForTest(parser.parse, string(data), parser.keys...)
			for key, value := range first {
				if n, ok := value.(float64); ok && (n < 0 || n > math.MaxInt64 || math.IsNaN(n)) {
					t.Errorf("%q is %v", key, n)
				}
			}
			testkit.Diff(t, "two runs differ", first, parseForTest(parser.parse, string(data), parser.keys...))
		}
	})
}

func FuzzParseProcCgroup(f *testing.F) {
	addCapturedFiles(f, "/cgroup")
	f.Add([]byte("4:cpuacct,cpu:/a:b\n1:name=systemd:/x\n0::/../../y\n3:memory:/z (deleted)\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = eachCgroup(data, func(controller, path []byte) {
			if !bytes.HasPrefix(path, []byte("/")) || bytes.HasPrefix(controller, []byte("name=")) {
				t.Errorf("controller %q at %q", controller, path)
			}
		})
	})
}

func FuzzParseMountinfo(f *testing.F) {
	addCapturedFiles(f, "mountinfo")
	f.Add([]byte("36 35 98:0 /mnt1 /my\\040cg rw,noatime master:1 - cgroup2 none rw,errors=continue\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseMountinfo(data)
		if err != nil && entries != nil {
			t.Errorf("%d mounts beside the error %v", len(entries), err)
		}
		for _, entry := range entries {
			entry.visible(entries)
			mount, ok := entry.cgroupMount()
			if !ok {
				continue
			}
			dir, ok := mount.dir("/a/../../b")
			if ok && path.IsAbs(mount.Point) && !within(path.Clean(mount.Point), dir) {
				t.Errorf("a path that goes up was placed at %q, outside of %q", dir, mount.Point)
			}
		}
	})
}

// The helpers of package testkit, by short names.
var (
	must    = testkit.Must
	noError = testkit.NoError
	closing = testkit.Closing
)
