package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Runner runs scenarios.
type Runner struct {
	Launch string // path of the launch program
	// Dir is where the scenarios' directories are made; "": the system's
	// directory for temporary files.
	Dir      string
	Keep     bool // leave the directories
	Parallel int  // scenarios at a time; 0: one for each CPU
	// Python finds the interpreter, once, if a scenario needs one; nil: [FindPython].
	Python func(context.Context) *Python
	// Started and Ended, if set, are told of each scenario, one call at a time.
	Started func(*Scenario)
	Ended   func(*Result)

	mu     sync.Mutex // of the calls
	python *Python
}

// Run runs the scenarios and returns their results in the same order. When ctx
// ends, those under way are ended and the others are skipped.
func (r *Runner) Run(ctx context.Context, scenarios []*Scenario) ([]*Result, error) {
	root, err := r.root()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(scenarios, func(s *Scenario) bool { return len(s.Needs) > 0 }) {
		find := r.Python
		if find == nil {
			find = FindPython
		}
		r.python = find(ctx)
	}
	results := make([]*Result, len(scenarios))
	r.batch(ctx, scenarios, results, root, false)
	r.batch(ctx, scenarios, results, root, true)
	if r.Keep {
		return results, nil
	}
	return results, os.RemoveAll(root)
}

func (r *Runner) root() (string, error) {
	if r.Dir != "" {
		if err := os.MkdirAll(r.Dir, 0o777); err != nil {
			return "", err
		}
	}
	return os.MkdirTemp(r.Dir, "rejoin-harness-")
}

// batch runs the scenarios that may share the machine, or those that may not.
func (r *Runner) batch(ctx context.Context, scenarios []*Scenario, results []*Result, root string, alone bool) {
	limit := r.Parallel
	if limit < 1 {
		limit = runtime.NumCPU()
	}
	if alone {
		limit = 1
	}
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i, s := range scenarios {
		if s.Alone != alone {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = r.scenario(ctx, s, filepath.Join(root, s.Name))
		})
	}
	wg.Wait()
}

// scenario runs one scenario in the directory dir.
func (r *Runner) scenario(ctx context.Context, s *Scenario, dir string) *Result {
	result := &Result{Name: s.Name, About: s.About, Outcome: Passed, Rerun: r.rerun(s)}
	if reason := r.unmet(ctx, s); reason != "" {
		result.Outcome, result.Reason = Skipped, reason
		r.tell(func() {
			if r.Ended != nil {
				r.Ended(result)
			}
		})
		return result
	}
	r.tell(func() {
		if r.Started != nil {
			r.Started(s)
		}
	})
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, time.Duration(s.Timeout))
	defer cancel()
	r.jobs(limited, s, dir, result)
	result.Took = time.Since(begun)
	switch {
	case ctx.Err() != nil:
		result.Failures = append(result.Failures, "interrupted: "+context.Cause(ctx).Error())
	case limited.Err() != nil:
		result.Failures = append(result.Failures, fmt.Sprintf("not done after %v; what was running was ended", time.Duration(s.Timeout)))
	}
	if r.Keep {
		result.Dir = dir
	} else if err := os.RemoveAll(dir); err != nil {
		result.Failures = append(result.Failures, "its directory cannot be removed: "+err.Error())
	}
	if len(result.Failures) > 0 {
		result.Outcome = Failed
	}
	r.tell(func() {
		if r.Ended != nil {
			r.Ended(result)
		}
	})
	return result
}

func (r *Runner) tell(call func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call()
}

// unmet says why a scenario cannot run; "" if it can.
func (r *Runner) unmet(ctx context.Context, s *Scenario) string {
	if ctx.Err() != nil {
		return "interrupted before it began"
	}
	for _, text := range s.Needs {
		n, err := parseNeed(text)
		if err != nil {
			return err.Error()
		}
		if reason := n.unmet(r.python); reason != "" {
			return reason
		}
	}
	return ""
}

// jobs runs a scenario's jobs in order. What a job did not do as expected does
// not keep the next from running, unless time is over: each tells something.
func (r *Runner) jobs(ctx context.Context, s *Scenario, dir string, result *Result) {
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = s.lay(dir)
	}
	if err != nil {
		result.Failures = append(result.Failures, "cannot be set up: "+err.Error())
		return
	}
	python := ""
	if r.python != nil {
		python = r.python.Path
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if ctx.Err() != nil {
			return
		}
		run, unmet := r.job(ctx, j, dir, python)
		for _, text := range unmet {
			result.Failures = append(result.Failures, "job "+j.Name+": "+text)
		}
		if run != nil {
			job := run.result(r.Launch)
			job.Failures = unmet
			result.Jobs = append(result.Jobs, job)
		}
	}
}

// job runs one job and returns what of its expectation is not met.
func (r *Runner) job(ctx context.Context, j *Job, dir, python string) (*jobRun, []string) {
	run, err := r.runJob(ctx, j, dir, python)
	var unmet []string
	if err == nil && ctx.Err() == nil {
		unmet, err = run.check()
	}
	if err != nil {
		unmet = append(unmet, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return run, unmet
}

// rerun is the command that runs a scenario alone and keeps what it leaves.
func (r *Runner) rerun(s *Scenario) string {
	args := []string{r.Launch, "harness", "--keep"}
	if s.file == "" {
		args = append(args, "--only", s.Name)
	} else {
		args = append(args, s.file)
	}
	for i, a := range args {
		args[i] = shellQuote(a)
	}
	command := strings.Join(args, " ")
	if python := os.Getenv("REJOIN_PYTHON"); python != "" && len(s.Needs) > 0 {
		command = "REJOIN_PYTHON=" + shellQuote(python) + " " + command
	}
	return command
}

// shellQuote quotes a word for a POSIX shell where it needs it.
func shellQuote(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./=:,+@%", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
