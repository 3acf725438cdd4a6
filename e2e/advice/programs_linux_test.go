// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package advice

import "strings"

// program is what a user runs. Words that begin with @ are files of its own on a disk, those with ~ in /dev/shm.
type program struct {
	class, name string
	// command is for a shell; steps are for the helper.
	command, steps string
	// files are the sizes in MiB of the files @0, @1 and so on that are there before.
	files []int
	// cold runs find nothing in the page cache; others all of it, loaded by another process. Files in /dev/shm are made by
	// that one for those.
	cold bool
	shm  map[string]int
	// runs is how often it is run before advice is asked for; 0 for once.
	runs int
	// unknown says that there may be no advice after the first runs: it depends on how much the disk reads ahead.
	unknown bool
}

// python returns a command of it.
func python(lines ...string) string { return "python3 -c '" + strings.Join(lines, "\n") + "'" }

func programs() []program {
	const spin = "import time; e=time.process_time()+0.5\nwhile time.process_time()<e: pass"
	all := []program{
		{class: "interpreter", name: "python, small", command: python(spin)},
		{class: "interpreter", name: "python, small, cold", command: python(spin), cold: true},
		{class: "interpreter", name: "python, list", command: python("a=[str(i) for i in range(1000000)]", spin)},
		{class: "interpreter", name: "python, dict", command: python("a={i:i for i in range(1500000)}", spin), runs: 3},
		{class: "interpreter", name: "python, json", command: python("import json; a=json.dumps([list(range(9))]*200000); b=json.loads(a)")},
		{class: "interpreter", name: "python, file by file", command: python("for i in range(4): a=open(\"@\"+str(i),\"rb\").read()", spin), files: []int{30, 30, 30, 30}},
		{class: "interpreter", name: "perl, hash", command: `perl -e 'my %h; $h{$_}=$_ for 1..400000; my $s=0; $s+=$_ for 1..8000000'`},
		{class: "interpreter", name: "sh, loop", command: "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"},
		{class: "interpreter", name: "awk, words", command: `awk 'BEGIN{for(i=0;i<1500000;i++)a[i]=i; for(i=0;i<3000000;i++)s+=i}'`},
		{class: "interpreter", name: "sqlite", command: `sqlite3 :memory: "create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<700000) insert into t select x from c; select count(*) from t order by a"`},
		{class: "interpreter", name: "node", command: `node -e 'let a=[];for(let i=0;i<2e6;i++)a.push({i});let u=()=>{let c=process.cpuUsage();return c.user+c.system};let t=u()+5e5;while(u()<t);'`},
		{class: "compiler", name: "gcc", command: `i=0; while [ $i -lt 2500 ]; do echo "int f$i(int a){return a*$i+1;}"; i=$((i+1)); done >@c.c; gcc -O2 -c -o @c.o @c.c`},
		{class: "compiler", name: "gcc, cold", command: `i=0; while [ $i -lt 2500 ]; do echo "int f$i(int a){return a*$i+1;}"; i=$((i+1)); done >@c.c; gcc -O2 -c -o @c.o @c.c`, cold: true},
		{class: "compiler", name: "g++", command: `printf '#include <map>\n#include <string>\n#include <iostream>\nint main(){std::map<std::string,int> m; m["a"]=1; std::cout<<m["a"];}' >@c.cc; g++ -O2 -c -o @c.o @c.cc`},
		{class: "compiler", name: "four gcc", command: `for n in 1 2 3 4; do (echo "int f$n(int a){return a;}" >@$n.c; gcc -O2 -c -o @$n.o @$n.c; gcc -O2 -c -o @$n.o @$n.c) & done; wait`},
		{class: "compiler", name: "xz", command: "xz -6 -T1 -c @0 | wc -c", files: []int{24}},
		{class: "compiler", name: "gzip", command: "gzip -9 -c @0 >@z", files: []int{40}, cold: true},
		{class: "compiler", name: "sort", command: "seq 700000 -1 1 | sort -S 60M >@s"},
		{class: "mmap", name: "one file", steps: "map:@0:40", files: []int{60}},
		{class: "mmap", name: "one file, cold", steps: "map:@0:40", files: []int{60}, cold: true},
		{class: "mmap", name: "large file", steps: "map:@0:20", files: []int{200}},
		{class: "mmap", name: "python, one file", command: python("import mmap; f=open(\"@0\",\"rb\"); m=mmap.mmap(f.fileno(),0,prot=1); t=0", "for p in range(40): t+=sum(m[::4096])"), files: []int{60}},
		{class: "mmap", name: "four files by four processes", steps: "each:4 map:@#:40 sleep:300", files: []int{40, 40, 40, 40}},
		{class: "mmap", name: "one file by four processes", steps: "each:4 map:@0:40 sleep:300", files: []int{80}},
		{class: "mmap", name: "four files in turn", steps: "seq:4 map:@#:20 sleep:100", files: []int{40, 40, 40, 40}},
		{class: "mmap", name: "file and memory", steps: "anon:80 map:@0:40 sleep:300", files: []int{50}},
		{class: "mmap", name: "file after memory", steps: "anon:80 sleep:200 free map:@0:40 sleep:300", files: []int{50}},
		{class: "mmap", name: "short", steps: "map:@0:2", files: []int{40}},
		{class: "mmap", name: "three runs", steps: "map:@0:40 sleep:200", files: []int{30}, runs: 3},
		{class: "shared", name: "made by itself", steps: "shm:~0:60 sleep:400"},
		{class: "shared", name: "made for another program", command: python("import mmap, subprocess, sys", "f=open(\"~0\",\"w+b\"); f.truncate(60<<20); m=mmap.mmap(f.fileno(),0)", "for i in range(0,60<<20,4096): m[i]=1", "subprocess.run([sys.executable,\"-c\",\"\"\"import mmap,time; m=mmap.mmap(open(\"~0\",\"r+b\").fileno(),0); sum(m[::4096]); time.sleep(.3)\"\"\"])")},
		{class: "shared", name: "made outside", steps: "shm:~0:60 sleep:400", shm: map[string]int{"~0": 60}},
		{class: "shared", name: "large, made outside", steps: "shm:~0:200 sleep:400", shm: map[string]int{"~0": 200}},
		{class: "shared", name: "half made outside", steps: "shm:~0:60 shm:~1:60 sleep:400", shm: map[string]int{"~0": 60}},
		{class: "shared", name: "of four processes", steps: "each:4 shm:~0:60 sleep:400", shm: map[string]int{"~0": 60}},
		{class: "shared", name: "four of four processes", steps: "each:4 shm:~#:30 sleep:600", shm: map[string]int{"~0": 30, "~1": 30, "~2": 30, "~3": 30}},
		{class: "jit", name: "little of much", steps: "reserve:4096:12 burn:400"},
		{class: "jit", name: "more of much", steps: "reserve:16384:90 burn:400"},
		{class: "jit", name: "in four processes", steps: "each:4 reserve:4096:30 sleep:400"},
		{class: "jit", name: "java", command: "java -Xshare:auto -XX:+UseSerialGC -Xmx64m -version"},
		{class: "jit", name: "java, cold", command: "java -Xshare:auto -XX:+UseSerialGC -Xmx64m -version", cold: true},
		{class: "page cache", name: "read once", steps: "read:@0:1 sleep:300", files: []int{120}, unknown: true},
		{class: "page cache", name: "read once, cold", steps: "read:@0:1 sleep:300", files: []int{120}, cold: true, unknown: true},
		{class: "page cache", name: "read again", steps: "read:@0:20 sleep:300", files: []int{120}, unknown: true},
		{class: "page cache", name: "read again, cold", steps: "read:@0:20 sleep:300", files: []int{120}, cold: true},
		{class: "page cache", name: "write", steps: "write:@w:60 sleep:300", unknown: true},
		{class: "page cache", name: "write a little", steps: "write:@w:12 anon:40 sleep:300"},
		{class: "page cache", name: "copy", command: "cp @0 @1; sleep 0.3", files: []int{60}, unknown: true},
		{class: "page cache", name: "count lines, cold", command: "wc -c <@0; cat @0 @0 | wc -c", files: []int{80}, cold: true, unknown: true},
		{class: "page cache", name: "cache that takes what is there", steps: "anon:30 read:@0:1 read:@1:1 sleep:200", files: []int{150, 150}, cold: true},
		{class: "forker", name: "many short ones", command: "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"},
		{class: "forker", name: "pipeline", command: "seq 1 400000 | sort -n | uniq | wc -l"},
		{class: "forker", name: "eight at once", steps: "each:8 anon:12 sleep:400"},
		{class: "forker", name: "one large among small", steps: "seq:20 anon:5 burn:5"},
		{class: "forker", name: "large ones in turn", steps: "seq:6 anon:60 burn:30"},
		{class: "forker", name: "subshells", command: "for i in 1 2 3 4 5 6 7 8; do (sleep 0.3) & done; wait"},
		{class: "burst", name: "20 ms", steps: "burn:20"},
		{class: "burst", name: "20 ms of 80 MiB", steps: "anon:80"},
		{class: "burst", name: "80 MiB between samples", steps: "sleep:60 anon:80 free sleep:300"},
		{class: "burst", name: "ten times 20 ms", steps: "seq:10 anon:20 burn:20"},
		{class: "burst", name: "sh", command: "echo done", runs: 3},
	}
	return all
}
