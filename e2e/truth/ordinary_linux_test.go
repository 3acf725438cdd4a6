// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/procstats"
)

// ordinary are commands of every day: the programs that they need, and a script in an empty folder.
func ordinary() []struct{ name, needs, script string } {
	const module = "go mod init x 2>/dev/null; export GOFLAGS=-mod=mod GOPROXY=off; "
	const program = `printf 'package main\nfunc F() int { return 1 }\nfunc main() { println(F()) }\n' >x.go; `
	return []struct{ name, needs, script string }{
		{"build of C", "gcc", `echo 'int main(void) { return 0; }' >x.c; gcc -O2 -o x x.c && ./x`},
		{"build with make", "gcc make", `for i in 1 2 3; do echo "int f$i(void) { return $i; }" >f$i.c; done
			printf 'all: f1.o f2.o f3.o\n\tar rcs x.a $^\n' >Makefile; make -j2`},
		{"build of Go", "go", module + program + `go build -o x . && ./x`},
		{"test of Go", "go", module + program + `printf 'package main\nimport "testing"\nfunc TestF(t *testing.T) { if F() != 1 { t.Fail() } }\n' >x_test.go
			go test .`},
		{"check of Go", "go", program + `gofmt -l . && go vet x.go`},
		{"test of Python", "python3", `echo 'import unittest
class T(unittest.TestCase):
    def test(self): self.assertEqual(sum(range(10)), 45)' >test_x.py; python3 -m unittest`},
		{"test of Node", "node", `echo 'require("node:test")("sums", () => require("assert").equal(1 + 1, 2))' >x.test.js; node --test`},
		{"test of shell", "sh", `t() { [ "$1" = "$2" ] || exit 1; }; for i in $(seq 50); do t "$(echo $i | cat)" $i; done`},
		{"computing in Python", "python3", `python3 -c 'print(sum(i * i for i in range(10**6)))'`},
		{"memory in Python", "python3", `python3 -c 'x = bytearray(50 << 20); print(len(x))'`},
		{"processes of Python", "python3", `python3 -c 'import multiprocessing as m
with m.Pool(2) as p: print(sum(p.map(abs, range(1000))))'`},
		{"threads of Python", "python3", `python3 -c 'import concurrent.futures as c, time
list(c.ThreadPoolExecutor(8).map(time.sleep, [0.05] * 16))'`},
		{"computing in Node", "node", `node -e 'let s = 0; for (let i = 0; i < 1e7; i++) s += i; console.log(s)'`},
		{"files in Node", "node", `node -e 'const fs = require("fs"); for (let i = 0; i < 50; i++) fs.writeFileSync("f" + i, "x".repeat(i * 1000))'`},
		{"script of Perl", "perl", `perl -e 'for (1..300000) { $h{$_ % 1000} += $_ } print scalar(keys %h), "\n"'`},
		{"script of awk", "awk", `seq 100000 | awk '{ s += $1 } END { print s }'`},
		{"script of sed", "sed", `seq 200000 | sed -n 's/9/nine/gp' | tail -1`},
		{"database", "sqlite3", `sqlite3 x.db 'create table t (a); with recursive c(x) as (select 1 union all select x + 1 from c where x < 50000)
			insert into t select x from c; select sum(a) from t'`},
		{"repository", "git", `git init -q . && echo x >x && git add x && git -c user.name=x -c user.email=x@x commit -q -m x && git log --oneline`},
		{"archive", "tar gzip", `mkdir d; for i in $(seq 100); do seq $i >d/$i; done; tar czf x.tar.gz d && rm -r d && tar xzf x.tar.gz`},
		{"copies", "cp", `mkdir d; for i in $(seq 20); do seq 1000 >d/$i; done; cp -a d e; mv e f; rm -r d`},
		{"pipeline that sorts", "sort", `seq 100000 | sort -r | uniq -c | sort -n | head -3`},
		{"pipeline that compresses", "xz zstd gzip", `head -c 4M /dev/urandom | gzip -1 | gzip -d | zstd -q | zstd -dq | head -c 1M | xz -0 | wc -c`},
		{"search", "find grep", `find /usr/share/doc -name 'c*' -type f | head -200 | xargs grep -l -i license | wc -l`},
		{"sums", "md5sum openssl", `head -c 8M /dev/zero | tee x | md5sum; openssl dgst -sha256 x`},
		{"key", "openssl", `openssl genrsa -out x.pem 2048 && openssl rsa -in x.pem -noout -check`},
		{"queries", "jq", `seq 20000 | jq -s 'map(. * 2) | add'`},
		{"processes that are listed", "ps", `ps aux | wc -l; ls -la /proc/self/ >/dev/null`},
		{"server of Python", "python3 curl", `python3 -m http.server --bind 127.0.0.1 18361 & p=$!
			for i in $(seq 20); do sleep 0.25; curl -s -o x http://127.0.0.1:18361/; done; kill $p; wait; [ -s x ]`},
		{"server of Node", "node", `node -e 'const h = require("http"); const s = h.createServer((q, r) => r.end("x")).listen(18362, "127.0.0.1", () => {
			const t = setInterval(() => h.get("http://127.0.0.1:18362", (r) => r.resume()), 200); setTimeout(() => process.exit(), 5000) })'`},
	}
}

// TestOrdinary holds that nothing is said to be unsure about runs of every day that is known.
func TestOrdinary(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("the ends of processes, and packets, are recorded for root")
	}
	for _, run := range ordinary() {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			for program := range strings.FieldsSeq(run.needs) {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(err)
				}
			}
			place := rig.NewPlace(t, rig.Self())
			place.Parallel = true
			cmd := place.Run(t.Context(), "--", "sh", "-c", run.script)
			cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "GOCACHE="+goCache(t))
			if out := rig.Capture(t, cmd); out.Code != 0 {
				t.Fatal(out.Code, out.Stdout, out.Stderr)
			}
			r := place.TheRun(t).Record
			if r.WallSeconds == nil {
				t.Fatal("no wall time")
			}
			t.Logf("%.1f ms", *r.WallSeconds*1e3) // of less than 5 the average use of CPUs is not exact
			for _, id := range []procstats.ID{
				procstats.HeadlineCPU, procstats.HeadlineCoresAverage, procstats.HeadlineMemoryPeak,
				procstats.HeadlineNetworkReceived, procstats.HeadlineNetworkSent,
				procstats.HeadlineIORead, procstats.HeadlineIOWrite, procstats.HeadlineIOHanded,
			} {
				h := r.Headline[id.String()]
				io := strings.HasPrefix(id.String(), "io_")
				// The need of a program is not known while others have loaded its files, and the peak says so.
				loaded := len(h.Notes) == 1 && h.Notes[0].Rule == procstats.MemoryUnchargedRule
				if h.Value == nil || h.Guarantee != procstats.Exact && !io && !loaded {
					t.Errorf("%s: %+v", id, h)
				}
			}
		})
	}
}

// goCache is the build cache of the tests' own user: without it each build compiles the standard library.
func goCache(t *testing.T) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	return filepath.Join(dir, "go-build")
}
