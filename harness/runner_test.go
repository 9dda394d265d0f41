package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeRunner runs scenarios with the fake launcher.
func fakeRunner(t *testing.T) *Runner {
	t.Helper()
	t.Setenv(fakeVariable, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Runner{Launch: self, Dir: t.TempDir(), Python: func(context.Context) *Python { return &Python{Problem: "none in this test"} }}
}

func scenario(name string, e Expectation, command ...string) *Scenario {
	return &Scenario{
		Name: name, About: "about " + name, Timeout: Duration(time.Minute),
		Jobs: []Job{{Name: "job", Workers: 2, Output: "out", Command: command, Expect: e}},
	}
}

func run(t *testing.T, r *Runner, scenarios ...*Scenario) []*Result {
	t.Helper()
	results, err := r.Run(t.Context(), scenarios)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestExpectationsAreLookedAt(t *testing.T) {
	r := fakeRunner(t)
	for name, tc := range map[string]struct {
		e       Expectation
		command []string
		says    string // "": passed
	}{
		"all well": {
			Expectation{Exit: 3, Ranks: map[int]int{0: 3, 1: 137}, Says: []string{"hello"}, Once: []string{"one"}, RankSays: map[int][]string{1: {"mine"}}, Silent: []string{"trouble"}, Checkpoints: []int{}},
			[]string{"say=hello", "say=[rank1]: mine", "say=one", "rank=3", "rank=137", "exit=3"},
			"",
		},
		"exit code":           {Expectation{}, []string{"exit=4"}, "exit code 4, expected 0"},
		"rank's code":         {Expectation{Ranks: map[int]int{0: 1}}, []string{"rank=2"}, "rank 0: exit code 2, expected 1"},
		"rank not started":    {Expectation{Ranks: map[int]int{1: 0}}, []string{"rank=0"}, "rank 1 was not started"},
		"says":                {Expectation{Says: []string{"hello"}}, nil, `nothing printed says "hello"`},
		"another rank says":   {Expectation{RankSays: map[int][]string{0: {"mine"}}}, []string{"say=[rank1]: mine"}, `rank 0 does not say "mine"`},
		"twice":               {Expectation{Once: []string{"a"}}, []string{"say=a", "say=a"}, `"a" is said 2 times, expected once`},
		"not silent":          {Expectation{Silent: []string{"b"}}, []string{"say=b"}, `"b" is said, expected not to be`},
		"checkpoints":         {Expectation{Checkpoints: []int{4}}, []string{"mkdir=out/checkpoint-2"}, "checkpoints of steps [2] are in out, expected [4]"},
		"broken checkpoint":   {Expectation{Checkpoints: []int{2}}, []string{"mkdir=out/checkpoint-2"}, "checkpoint-2 is not complete"},
		"rows":                {Expectation{Rows: map[int][][]int{0: {{1}}}}, nil, "rank 0 left no trace of its rows"},
		"equal to nothing":    {Expectation{Equal: []Equality{{To: "gone"}}}, nil, "out: found no checkpoint, expected one to compare"},
		"no file to compare":  {Expectation{Equal: []Equality{{To: "gone.pt", File: "final.pt"}}}, nil, "cannot be compared with gone.pt"},
		"no such checkpoints": {Expectation{Equal: []Equality{{To: "gone", Checkpoints: []int{2}}}}, nil, "checkpoint-2: found "},
	} {
		t.Run(name, func(t *testing.T) {
			result := run(t, r, scenario("s", tc.e, tc.command...))[0]
			if tc.says == "" {
				if result.Outcome != Passed {
					t.Errorf("%+v", result)
				}
				return
			}
			if result.Outcome != Failed || !strings.Contains(strings.Join(result.Failures, "\n"), tc.says) {
				t.Errorf("outcome %s, failures %q, expected one that says %q", result.Outcome, result.Failures, tc.says)
			}
		})
	}
}

func TestRunnerEndsWhatTakesTooLong(t *testing.T) {
	r := fakeRunner(t)
	s := scenario("slow", Expectation{}, "say=begun", "wait")
	s.Timeout = Duration(300 * time.Millisecond)
	begun := time.Now()
	result := run(t, r, s)[0]
	if result.Outcome != Failed || !strings.Contains(strings.Join(result.Failures, " "), "not done after 300ms") {
		t.Errorf("%+v", result)
	}
	if took := time.Since(begun); took > stopGrace {
		t.Errorf("it took %v", took)
	}
	if result.Jobs[0].Code != 128+15 {
		t.Errorf("the launcher ended with %d, expected SIGTERM's 143", result.Jobs[0].Code)
	}
}

func TestInterruptedRunnerSkipsTheRest(t *testing.T) {
	r := fakeRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Parallel = 1
	r.Started = func(*Scenario) { cancel() }
	results, err := r.Run(ctx, []*Scenario{scenario("a", Expectation{}, "wait"), scenario("b", Expectation{}, "wait")})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Outcome != Failed || results[1].Outcome != Skipped || results[1].Reason == "" {
		t.Errorf("%+v, %+v", results[0], results[1])
	}
}

func TestSkippedIsNotPassed(t *testing.T) {
	r := fakeRunner(t)
	s := scenario("torch", Expectation{}, "exit=0")
	s.Needs = []string{"torch"}
	result := run(t, r, s)[0]
	if result.Outcome != Skipped || !strings.Contains(result.Reason, "none in this test") || len(result.Jobs) != 0 {
		t.Errorf("%+v", result)
	}
}

func TestDirectoriesAreRemovedUnlessKept(t *testing.T) {
	r := fakeRunner(t)
	s := scenario("s", Expectation{}, "mkdir=out")
	run(t, r, s)
	if left, _ := os.ReadDir(r.Dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	r.Keep = true
	result := run(t, r, s)[0]
	if _, err := os.Stat(filepath.Join(result.Dir, "out")); err != nil || !strings.HasPrefix(result.Dir, r.Dir) {
		t.Errorf("directory %q, %v", result.Dir, err)
	}
}

func TestInterruptionOfARealProcess(t *testing.T) {
	r := fakeRunner(t)
	s := scenario("s", Expectation{Exit: 130}, "say=ready", "wait")
	s.Jobs[0].During = []Interruption{{When: "ready", Do: "interrupt"}}
	result := run(t, r, s)[0]
	if result.Outcome != Passed || len(result.Jobs[0].Marks) == 0 || result.Jobs[0].Marks[0].Text != "interrupt the launcher" {
		t.Errorf("%+v", result)
	}
	s = scenario("s", Expectation{}, "say=ready")
	s.Jobs[0].During = []Interruption{{When: "never", Do: "kill"}}
	if result := run(t, r, s)[0]; result.Outcome != Failed || !strings.Contains(result.Failures[0], "not done") {
		t.Errorf("%+v", result)
	}
}

func TestALivingWorkerIsNamed(t *testing.T) {
	err := gone([]Rank{{Rank: 1, PID: os.Getpid()}}, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "rank 1 (pid ") || !strings.Contains(err.Error(), "still lives") {
		t.Errorf("error %v", err)
	}
}

func TestScenariosThatWantToBeAloneAre(t *testing.T) {
	r := fakeRunner(t)
	r.Parallel = 4
	running, most := 0, 0
	r.Started = func(*Scenario) { running++; most = max(most, running) }
	r.Ended = func(*Result) { running-- }
	var all []*Scenario
	for _, name := range []string{"a", "b", "c"} {
		s := scenario(name, Expectation{}, "exit=0")
		s.Alone = true
		all = append(all, s)
	}
	for _, result := range run(t, r, all...) {
		if result.Outcome != Passed {
			t.Errorf("%+v", result)
		}
	}
	if most != 1 {
		t.Errorf("%d scenarios that want to be alone ran together", most)
	}
}

func TestCommand(t *testing.T) {
	j := Job{Name: "a", Workers: 2, Checkpoint: "c", Output: "o", Command: []string{"{python}", "{scripts}/x.py", "{checkpoint}", "--out={output}", "{rank}"}}
	got := strings.Join(j.command("/bin/launch", "py"), " ")
	if want := "--nproc 2 run -- /bin/launch expand -- py scripts/x.py c --out=o {rank}"; got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	j = Job{Workers: 3, Checkpoint: "c", Output: "o", MapLocation: "device", LocationRules: "torch", Args: []string{"--trace"}}
	got = strings.Join(j.command("launch", ""), " ")
	if want := "--nproc 3 resume c --output-dir o --map-location device --location-rules torch --trace"; got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}

func TestEnvironmentIsOfNoOtherJob(t *testing.T) {
	got := strings.Join(environment([]string{"HOME=/h", "RANK=1", "PET_NNODES=2", "TORCHELASTIC_RUN_ID=x", "MASTER_PORT=1", eventsVariable + "=f"}), " ")
	if !strings.HasPrefix(got, "HOME=/h PYTHONUNBUFFERED=1") {
		t.Errorf("environment %s", got)
	}
}

func TestRerunIsACommandForAShell(t *testing.T) {
	t.Setenv("REJOIN_PYTHON", "/opt/my python")
	r := &Runner{Launch: "/opt/it's/launch"}
	got := r.rerun(&Scenario{Name: "bug", Needs: []string{"torch"}})
	if want := `REJOIN_PYTHON='/opt/my python' '/opt/it'\''s/launch' harness --keep --only bug`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if got := r.rerun(&Scenario{Name: "mine", file: "mine.yaml"}); !strings.HasSuffix(got, "harness --keep mine.yaml") {
		t.Error(got)
	}
}
