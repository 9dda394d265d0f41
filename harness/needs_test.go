package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNeeds(t *testing.T) {
	found := &Python{Path: "python3", Modules: map[string]Module{
		"torch": {Version: "2.14.1+cu130"}, "transformers": {Version: "5.17.0"}, "accelerate": {Error: "ModuleNotFoundError: No module named 'accelerate'"},
	}}
	for _, tc := range []struct {
		need   string
		python *Python
		says   string // "": met
	}{
		{"torch", found, ""},
		{"torch>=2.14", found, ""},
		{"torch>=2.15.0", found, "needs torch>=2.15.0, found 2.14.1+cu130"},
		{"transformers<=5.17.0", found, ""},
		{"transformers==5.17", found, ""},
		{"transformers<=5.9.9", found, "found 5.17.0"},
		{"accelerate", found, "python3 cannot import accelerate: ModuleNotFoundError"},
		{"torch", &Python{Problem: "no python3 on PATH"}, "no Python: no python3 on PATH"},
	} {
		n, err := parseNeed(tc.need)
		if err != nil {
			t.Fatal(err)
		}
		got := n.unmet(tc.python)
		if tc.says == "" && got != "" || !strings.Contains(got, tc.says) {
			t.Errorf("%s: %q, expected %q", tc.need, got, tc.says)
		}
	}
	for _, bad := range []string{"", "cuda", "torch<2", "torch<=x", "torch <=2"} {
		if _, err := parseNeed(bad); err == nil {
			t.Errorf("need %q is taken", bad)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"1.2", "1.2.0", 0}, {"1.10", "1.9", 1}, {"2.0rc1", "2.0", 0}, {"1.13.0a0", "1.13", 0}, {"", "1", -1}} {
		if got := compareVersions(tc.a, tc.b); got < 0 != (tc.want < 0) || got > 0 != (tc.want > 0) {
			t.Errorf("compareVersions(%q, %q) = %d", tc.a, tc.b, got)
		}
	}
}

func TestFindPythonSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct{ path, says string }{
		"not there": {filepath.Join(dir, "gone"), "no such file"},
		"fails":     {script("fails", "exit 3\n"), "does not run: exit status 3"},
		"silent":    {script("silent", "exit 0\n"), "it printed nothing"},
		"babbles":   {script("babbles", "printf '\\nPROBE{'\n"), "unexpected end of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REJOIN_PYTHON", tc.path)
			if p := FindPython(t.Context()); p.Path != "" || !strings.Contains(p.Problem, tc.says) {
				t.Errorf("found %+v, expected a problem that says %q", p, tc.says)
			}
		})
	}
	t.Setenv("REJOIN_PYTHON", script("works", `echo noise; printf '\nPROBE{"version": "3.9", "modules": {"torch": {"version": "2.0"}}}\n'`))
	if p := FindPython(t.Context()); p.Version != "3.9" || p.Modules["torch"].Version != "2.0" {
		t.Errorf("found %+v", p)
	}
}
