package launch

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestOOMCounters(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  []oomCounter
	}{
		{"cgroup 2", map[string]string{
			"proc/self/cgroup":                           "0::/user.slice/job\n",
			"sys/fs/cgroup/user.slice/job/memory.events": "low 0\noom 5\noom_kill 2\noom_group_kill 0\n",
			"proc/vmstat":                                "nr_free_pages 1\noom_kill 7\n",
		}, []oomCounter{{"/sys/fs/cgroup/user.slice/job/memory.events", 2}, {"/proc/vmstat", 7}}},
		{"cgroup 2 in a container", map[string]string{
			"proc/self/cgroup":            "0::/../../somewhere\n",
			"sys/fs/cgroup/memory.events": "oom_kill 1\n",
		}, []oomCounter{{"/sys/fs/cgroup/memory.events", 1}}},
		{"cgroup 1", map[string]string{
			"proc/self/cgroup": "5:cpu:/\n4:memory:/docker/abc\n0::/\n",
			"sys/fs/cgroup/memory/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
		}, []oomCounter{{"/sys/fs/cgroup/memory/docker/abc/memory.oom_control", 3}}},
		{"nothing readable", map[string]string{"proc/self/cgroup": "junk\n"}, nil},
		{"junk", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill many\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, content := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			got := oomCounters(root)
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, expected %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("got %v, expected %v", got[i], tt.want[i])
				}
			}
		})
	}
}

// The report of a SIGKILL says that the launcher did not send it, whether it was
// for want of memory, how much there was, and what to do
// (D24, deepspeedai/DeepSpeed#1956).
func TestKilledHint(t *testing.T) {
	cgroup := func(n uint64) []oomCounter { return []oomCounter{{"/cg/memory.events", n}, {"/proc/vmstat", 9}} }
	meminfo := "MemTotal:       24684592 kB\nMemFree:        17541 kB\nMemAvailable:   1000 kB\n"
	tests := []struct {
		name          string
		before, after []oomCounter
		files         map[string]string
		want          string
	}{
		{"risen", cgroup(1), cgroup(3), map[string]string{
			"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.events": "oom_kill 3\n",
			"sys/fs/cgroup/job/memory.max": "1000000000\n", "sys/fs/cgroup/job/memory.peak": "999999488\n", "proc/meminfo": meminfo,
		}, `the launcher did not send this SIGKILL: likely out of memory, for want of which the kernel killed 2 process(es) meanwhile (oom_kill 1 → 3 in /cg/memory.events)
memory: this worker held up to 500 MB; its cgroup's limit is 1000 MB, of which 1000 MB were used at most (/sys/fs/cgroup/job); the machine has 25277 MB, of which 1 MB are free now
use fewer workers, a smaller batch or more memory`},
		{"risen, under version 1", cgroup(0), cgroup(1), map[string]string{
			"proc/self/cgroup": "4:memory:/job\n", "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2000000\n",
			"sys/fs/cgroup/memory/job/memory.max_usage_in_bytes": "2000000\n",
		}, `the launcher did not send this SIGKILL: likely out of memory, for want of which the kernel killed 1 process(es) meanwhile (oom_kill 0 → 1 in /cg/memory.events)
memory: this worker held up to 500 MB; its cgroup's limit is 2 MB, of which 2 MB were used at most (/sys/fs/cgroup/memory/job)
use fewer workers, a smaller batch or more memory`},
		{"of the group above, in a container", cgroup(0), cgroup(1), map[string]string{
			"proc/self/cgroup": "0::/../../somewhere\n4:memory:/pod/job\n", "sys/fs/cgroup/memory.max": "3000000\n",
			"sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "2000000\n",
		}, `the launcher did not send this SIGKILL: likely out of memory, for want of which the kernel killed 1 process(es) meanwhile (oom_kill 0 → 1 in /cg/memory.events)
memory: this worker held up to 500 MB; its cgroup's limit is 3 MB (/sys/fs/cgroup); its cgroup's limit is 2 MB (/sys/fs/cgroup/memory/pod)
use fewer workers, a smaller batch or more memory`},
		{"not risen, no limit", cgroup(1), cgroup(1), map[string]string{
			"proc/self/cgroup": "4:memory:/\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory.max": "max\n",
		}, `the launcher did not send this SIGKILL: a person or a program did, such as a job manager or systemd-oomd; the kernel killed nothing for want of memory (oom_kill is 1 in /cg/memory.events, as before)
memory: this worker held up to 500 MB`},
		{"unknown", nil, nil, nil, `the launcher did not send this SIGKILL: likely out of memory; the kernel's counters are not readable here, see dmesg
memory: this worker held up to 500 MB
use fewer workers, a smaller batch or more memory`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, content := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			if got := killedHint(root, tt.before, tt.after, Exit{PeakMemory: 500e6}); got != tt.want {
				t.Errorf("got:\n%s\nexpected:\n%s", got, tt.want)
			}
		})
	}
	root := fstest.MapFS{
		"proc/self/cgroup": {Data: []byte("0::/job\n")}, "sys/fs/cgroup/job/memory.max": {Data: []byte("1000000000\n")},
		"sys/fs/cgroup/job/memory.peak": {Data: []byte("400000000\n")},
	}
	if got := frozenHint(root, Exit{}); got != "" {
		t.Errorf("of a cgroup far from its limit: %q", got)
	}
	root["sys/fs/cgroup/job/memory.peak"].Data = []byte("990000000\n")
	const want = "it may have waited for memory: this worker held up to 500 MB; its cgroup's limit is 1000 MB, of which 990 MB were used at most (/sys/fs/cgroup/job)"
	if got := frozenHint(root, Exit{PeakMemory: 500e6}); got != want {
		t.Errorf("of a full cgroup: %q", got)
	}
	_ = oomCounters(os.DirFS("/")) // whatever this machine has, it is read without harm
	_ = memoryLevels(os.DirFS("/"), 0)
}
