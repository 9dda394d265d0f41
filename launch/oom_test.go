package launch

import (
	"os"
	"strings"
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

func TestOOMHint(t *testing.T) {
	cgroup := func(n uint64) []oomCounter { return []oomCounter{{"/cg/memory.events", n}, {"/proc/vmstat", 9}} }
	tests := []struct {
		name          string
		before, after []oomCounter
		want          string
	}{
		{"risen", cgroup(1), cgroup(3), "likely out of memory: the kernel killed 2 process(es)"},
		{"not risen", cgroup(1), cgroup(1), "it was not the kernel for want of memory"},
		{"unknown", nil, nil, "likely the kernel, out of memory"},
	}
	for _, tt := range tests {
		if got := oomHint(tt.before, tt.after); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q lacks %q", tt.name, got, tt.want)
		}
	}
	_ = oomCounters(os.DirFS("/")) // whatever this machine has, it is read without harm
}
