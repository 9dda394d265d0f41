package machine

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"rejoin/harness"
)

func files(m map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range m {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestReadFiles(t *testing.T) {
	var d Description
	d.readFiles(files(map[string]string{
		"etc/os-release":                "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n",
		"proc/sys/kernel/osrelease":     "6.1.0\n",
		"proc/cpuinfo":                  "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu avx avx2 fma sse\n",
		"proc/meminfo":                  "MemTotal:       2048 kB\nMemAvailable:   1024 kB\n",
		"proc/self/cgroup":              "0::/user/job\n",
		"sys/fs/cgroup/user/cpu.max":    "150000 100000\n",
		"sys/fs/cgroup/memory.max":      "max\n",
		"sys/fs/cgroup/user/job/x":      "",
		"sys/fs/cgroup/user/memory.max": "1048576\n",
	}))
	want := Description{
		System: "Debian GNU/Linux 12", Release: "6.1.0", CPU: "A CPU", Features: []string{"avx", "avx2", "fma"},
		Memory: 2 << 20, Available: 1 << 20, CgroupCores: 1.5, CgroupLimit: 1 << 20,
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, expected %+v", d, want)
	}
	var empty Description
	empty.readFiles(files(nil)) // a system that tells nothing
	if !reflect.DeepEqual(empty, Description{}) {
		t.Errorf("%+v", empty)
	}
}

func TestCgroups(t *testing.T) {
	for name, tc := range map[string]struct {
		lines  string
		files  map[string]string
		cores  float64
		memory uint64
	}{
		"none":      {"0::/\n", nil, 0, 0},
		"unlimited": {"0::/a\n", map[string]string{"sys/fs/cgroup/a/cpu.max": "max 100000", "sys/fs/cgroup/a/memory.max": "max"}, 0, 0},
		"the parent is tighter": {
			"0::/a/b\n",
			map[string]string{"sys/fs/cgroup/a/b/cpu.max": "400000 100000", "sys/fs/cgroup/a/cpu.max": "200000 100000", "sys/fs/cgroup/a/b/memory.max": "300", "sys/fs/cgroup/memory.max": "200"},
			2, 200,
		},
		"version 1": {
			"5:memory:/m\n3:cpu,cpuacct:/c\n",
			map[string]string{"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000", "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "77"},
			0.5, 77,
		},
		"version 1 without limits": {
			"5:memory:/\n3:cpu:/\n",
			map[string]string{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"},
			0, 0,
		},
		"nonsense": {"x\n:::\n0::/../../up\n", map[string]string{"sys/fs/cgroup/cpu.max": "a b", "sys/fs/cgroup/memory.max": "-3"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := cgroups{lines: tc.lines, read: func(path string) string { return tc.files[path] }}
			if g.cores() != tc.cores || g.memoryLimit() != tc.memory {
				t.Errorf("%v cores and %d bytes, expected %v and %d", g.cores(), g.memoryLimit(), tc.cores, tc.memory)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	sound := func() Description {
		return Description{
			Host: "box", Cores: 4, OpenFiles: 4096, SharedSize: 1 << 30, SharedFree: 1 << 30, Available: 1 << 33,
			Interfaces: []Interface{{Name: "lo", Addresses: []string{"127.0.0.1/8"}}},
		}
	}
	names := map[string][]string{"localhost": {"127.0.0.1"}, "box": {"10.0.0.2"}}
	for name, tc := range map[string]struct {
		change func(*Description, map[string][]string)
		says   string // "": no problem
	}{
		"none":                    {func(*Description, map[string][]string) {}, ""},
		"no localhost":            {func(_ *Description, n map[string][]string) { delete(n, "localhost") }, "the name localhost does not resolve"},
		"odd localhost":           {func(_ *Description, n map[string][]string) { n["localhost"] = []string{"1.2.3.4"} }, "none of them a loopback address"},
		"own name unknown":        {func(_ *Description, n map[string][]string) { delete(n, "box") }, "own name box does not resolve"},
		"own name is another's":   {func(_ *Description, n map[string][]string) { n["box"] = []string{"10.9.9.9"} }, "no address of its"},
		"own name is loopback":    {func(_ *Description, n map[string][]string) { n["box"] = []string{"127.0.1.1"} }, ""},
		"no loopback":             {func(d *Description, _ map[string][]string) { d.Interfaces = nil }, "no loopback interface"},
		"tiny shared memory":      {func(d *Description, _ map[string][]string) { d.SharedFree = 1 << 20 }, "/dev/shm has 1 MiB free"},
		"few files":               {func(d *Description, _ map[string][]string) { d.OpenFiles = 256 }, "only 256 files"},
		"little memory":           {func(d *Description, _ map[string][]string) { d.Available = 100 << 20 }, "only 100 MiB of memory"},
		"a quota below the cores": {func(d *Description, _ map[string][]string) { d.CgroupCores = 1.5 }, "1.5 cores of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			d, n := sound(), map[string][]string{}
			maps.Copy(n, names)
			tc.change(&d, n)
			d.findProblems(resolver{
				host: func(name string) ([]string, error) {
					if n[name] == nil {
						return nil, errors.New("no such host")
					}
					return n[name], nil
				},
				local: func() ([]string, error) { return []string{"10.0.0.2"}, nil },
			})
			if tc.says == "" && len(d.Problems) > 0 || tc.says != "" && (len(d.Problems) != 1 || !strings.Contains(d.Problems[0], tc.says)) {
				t.Errorf("problems %q, expected %q", d.Problems, tc.says)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	t.Setenv("REJOIN_PYTHON", filepath.Join(t.TempDir(), "none"))
	t.Setenv("OMP_NUM_THREADS", "2")
	d := Describe(t.Context())
	if d.Cores < 1 || d.Go == "" || d.Environment["OMP_NUM_THREADS"] != "2" || d.Python.Problem == "" {
		t.Errorf("%+v", d)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
	text := d.String()
	for _, part := range []string{"cores ", "python        none: ", "environment   OMP_NUM_THREADS=2", "problem"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text lacks %q:\n%s", part, text)
		}
	}
	d.Python = &harness.Python{Path: "/p", Version: "3.12", Modules: map[string]harness.Module{"torch": {Version: "2.14.0"}, "transformers": {Error: "gone"}}}
	if text := d.String(); !strings.Contains(text, "torch         2.14.0") || !strings.Contains(text, "transformers  not there: gone") {
		t.Errorf("%s", text)
	}
}
