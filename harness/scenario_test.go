package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const minimal = `
name: small
about: Shows nothing much
jobs:
  - name: run
    workers: 2
    checkpoint: out/checkpoint-2
`

func TestShippedScenariosAreWhole(t *testing.T) {
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range all {
		names[s.Name] = true
		if err := s.lay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		for _, j := range s.Jobs {
			e := j.Expect
			if e.Exit == 0 && e.Ranks == nil && e.Checkpoints == nil && e.Equal == nil && e.Says == nil && e.Once == nil {
				t.Errorf("%s: job %s expects nothing", s.Name, j.Name)
			}
		}
	}
	for _, want := range []string{
		"bug", "bug-fixed", "one-worker", "tags-cpu-index", "tags-cuda", "tags-mixed", "legacy-file", "world-sizes",
		"missing-files", "damaged-newest", "killed-rank", "slow-rank", "trainer-bug", "trainer-fixed", "ddp-bug",
	} {
		if !names[want] {
			t.Errorf("scenario %s is not shipped", want)
		}
	}
}

func TestParseFillsDefaults(t *testing.T) {
	s, err := Parse([]byte(minimal), "small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.Jobs[0].Output != "run" || time.Duration(s.Timeout) != DefaultTimeout {
		t.Errorf("output %q, timeout %v", s.Jobs[0].Output, time.Duration(s.Timeout))
	}
}

func TestParseRefuses(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(minimal, old, new, 1) }
	for name, tc := range map[string]struct{ text, says string }{
		"empty":            {"", "the file is empty"},
		"not a mapping":    {"- a\n", "cannot unmarshal"},
		"unknown key":      {edit("about:", "abuot:"), "abuot"},
		"two documents":    {minimal + "---\nname: b\n", "expected one document"},
		"name":             {edit("name: small", "name: Small One"), "small letters"},
		"no about":         {edit("about: Shows nothing much\n", ""), "about is missing"},
		"no jobs":          {"name: a\nabout: b\n", "jobs is missing"},
		"no workers":       {edit("workers: 2", "workers: 0"), "found 0, expected 1 to 64"},
		"nothing to train": {edit("    checkpoint: out/checkpoint-2\n", ""), "nothing to train"},
		"data alone":       {edit("checkpoint: out/checkpoint-2", "data: x.jsonl"), "data and model go together"},
		"path out":         {edit("out/checkpoint-2", "../other"), "leads out of"},
		"absolute path":    {edit("out/checkpoint-2", "/etc"), "leads out of"},
		"twice":            {minimal + "  - name: run\n    workers: 1\n    checkpoint: a\n", "two jobs have this name"},
		"timeout":          {edit("jobs:", "timeout: soon\njobs:"), `found "soon", expected a time`},
		"needs":            {edit("jobs:", "needs: [cuda]\njobs:"), `found "cuda"`},
		"no verb":          {minimal + "    before:\n      - {to: x}\n", "expected one of delete"},
		"two verbs":        {minimal + "    before:\n      - {delete: x, truncate: y, keep: 1}\n", "more than one verb"},
		"copy to nowhere":  {minimal + "    before:\n      - {copy: x}\n", "to goes with"},
		"keep":             {minimal + "    before:\n      - {truncate: x, keep: 120%}\n", `found "120%"`},
		"no tags":          {minimal + "    before:\n      - {retag: x}\n", "tags is missing"},
		"damage out":       {minimal + "    before:\n      - {delete: ../../x}\n", "leads out of"},
		"when":             {minimal + "    during:\n      - {do: kill}\n", "when is missing"},
		"do":               {minimal + "    during:\n      - {when: a, do: tickle}\n", `found "tickle"`},
		"rank":             {minimal + "    during:\n      - {when: a, do: kill, rank: 2}\n", "found 2, expected 0 to 1"},
		"stop":             {minimal + "    during:\n      - {when: a, do: stop}\n", "rank is missing"},
		"equal to nothing": {minimal + "    expect:\n      equal:\n        - {tolerance: 0.1}\n", "to is missing"},
		"tolerance":        {minimal + "    expect:\n      equal:\n        - {to: a, tolerance: 2}\n", "expected 0 to 1"},
		"parts":            {minimal + "    expect:\n      equal:\n        - {to: a, parts: [soul]}\n", `found "soul"`},
		"file and more":    {minimal + "    expect:\n      equal:\n        - {to: a, file: b, tolerance: 0.1}\n", "file compares one file"},
		"rows":             {minimal + "    expect:\n      equal:\n        - {to: a, rows: {skip: -1}}\n", "a negative number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text), "small.yaml")
			var wrong *ScenarioError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "small.yaml") {
				t.Errorf("error %v, expected one that says %q", err, tc.says)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	all, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(all) == 0 {
		f.Fatal("no scenarios to begin with")
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text, "fuzz.yaml")
		if err != nil {
			return
		}
		for _, j := range s.Jobs { // what is accepted stays in its directory
			for i := range j.Before {
				if p := j.Before[i].path(); !filepath.IsLocal(p) {
					t.Errorf("path %q is accepted", p)
				}
			}
			if j.command("launch", "python")[0] != "--nproc" {
				t.Error("no command")
			}
		}
	})
}

func TestSelect(t *testing.T) {
	all := []*Scenario{{Name: "a"}, {Name: "b"}}
	if got, err := Select(all, nil); err != nil || len(got) != 2 {
		t.Errorf("none named: %v, %v", got, err)
	}
	if got, err := Select(all, []string{"b"}); err != nil || len(got) != 1 || got[0].Name != "b" {
		t.Errorf("b: %v, %v", got, err)
	}
	if _, err := Select(all, []string{"c"}); err == nil || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("c: %v", err)
	}
}

func TestLoadTakesFixturesFromBesideTheFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mine.yaml"), strings.Replace(minimal, "jobs:", "fixtures: [rows.jsonl, regression.yaml]\njobs:", 1))
	write(t, filepath.Join(dir, "rows.jsonl"), "{}\n")
	s, err := Load(filepath.Join(dir, "mine.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := s.lay(to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rows.jsonl", "regression.yaml"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	s.Fixtures = []string{"gone.txt"}
	if err := s.lay(to); err == nil || !strings.Contains(err.Error(), "gone.txt") {
		t.Errorf("a fixture that is not there: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
