package trainer_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rejoin/ckpt/hf"
)

// faults is how many seeded runs TestFaultAtAnyPointOfASave makes.
var faults = flag.Int("faults", 6, "seeded runs in which a save is made to fail")

// bin is where the programs are that can be made to fail; "" until built.
var bin string

func TestMain(m *testing.M) {
	code := m.Run()
	if bin != "" {
		if err := os.RemoveAll(bin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func makeBin() (string, error) { return os.MkdirTemp("", "rejoin-faults-") }

// buildPrograms builds launch and worker with fault points, once.
func buildPrograms(t *testing.T) {
	t.Helper()
	if bin != "" {
		return
	}
	dir := must[string](t)(makeBin())
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "rejoin_fault", "-o", dir+string(filepath.Separator), "rejoin/cmd/launch", "rejoin/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	bin = dir
}

// launched is how a launch ended.
type launched struct {
	code int
	text string // both streams
}

// launchWith runs launch to its end under a fault; "" for none. A launch that
// takes a minute hangs.
func launchWith(t *testing.T, fault string, args ...string) launched {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "launch"), args...)
	cmd.Env = append(os.Environ(), "REJOIN_FAULT="+fault)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("launch %v under %q: %v\n%s", args, fault, err, out.String())
	}
	return launched{cmd.ProcessState.ExitCode(), out.String()}
}

// A faultScene is a run whose saves are made to fail. It begins in a copy of
// before, and a run without faults leaves the checkpoints of want there.
type faultScene struct {
	name   string
	before string // run directory; "": none
	args   []string
	again  []string          // how it is resumed afterwards; nil: its newest checkpoint
	want   map[string]string // checkpoint name → digest, of a run without faults
	old    map[string]string // digests of what was there before
	points []string          // passed by rank 0 in a run without faults, in order
	limit  int
}

func train(more ...string) []string {
	return append([]string{
		"--nproc", "2", "train", "--data", testdata("regression.jsonl"), "--model", testdata("regression.yaml"),
		"--config", testdata("regression-train.yaml"),
	}, more...)
}

// digests lists the checkpoints in dir by name, every byte of each verified.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range must[[]hf.Found](t)(hf.List(dir)) {
		c := openCheckpoint(t, f.Path)
		if err := errors.Join(hf.Complete(f.Path), c.Verify(t.Context())); err != nil {
			t.Errorf("a checkpoint is not whole: %v", err)
		}
		out[filepath.Base(f.Path)] = digestOf(files(t, f.Path))
	}
	return out
}

// digestOf is a hash of files, by name.
func digestOf(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %d\n%s", name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// faultScenes makes the runs that are to fail: from scratch, resumed with
// rotation, and over other checkpoints.
func faultScenes(t *testing.T) []*faultScene {
	t.Helper()
	straight, rotated, other := t.TempDir(), t.TempDir(), t.TempDir()
	for _, r := range []struct {
		fault string
		args  []string
	}{
		{"", train("--output-dir", straight)},
		// Its one removal fails, so that all its checkpoints are there to compare with.
		{"rename .removed-checkpoint-2:fail", train("--output-dir", rotated, "--set", "save_total_limit=2")},
		{"", train("--output-dir", other, "--set", "seed=7")},
	} {
		if e := launchWith(t, r.fault, r.args...); e.code != 0 {
			t.Fatalf("a run without faults ended with %d:\n%s", e.code, e.text)
		}
	}
	mixed := t.TempDir() // the straight run's checkpoint-2 below the other's later ones
	for name, from := range map[string]string{"checkpoint-2": straight, "checkpoint-4": other, "checkpoint-6": other} {
		copyTree(t, filepath.Join(from, name), filepath.Join(mixed, name))
	}
	first := t.TempDir()
	copyTree(t, filepath.Join(rotated, "checkpoint-2"), filepath.Join(first, "checkpoint-2"))
	over := []string{"--nproc", "2", "resume", "OUT/checkpoint-2", "--overwrite"}
	scenes := []*faultScene{
		{name: "from scratch", args: train("--output-dir", "OUT"), want: digests(t, straight)},
		{name: "with rotation", before: first, args: []string{"--nproc", "2", "resume", "OUT"}, want: digests(t, rotated), limit: 2},
		{name: "overwriting", before: mixed, args: over, again: over, want: digests(t, straight)},
	}
	for _, s := range scenes {
		if s.before != "" {
			s.old = digests(t, s.before)
		}
		s.listPoints(t)
	}
	return scenes
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// start makes the scene's directory and gives its arguments for it.
func (s *faultScene) start(t *testing.T, args []string, more ...string) (out string, _ []string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "run é")
	if s.before != "" {
		copyTree(t, s.before, out)
	}
	return out, append(s.in(out, args), more...)
}

func (s *faultScene) in(out string, args []string) []string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.Replace(args[i], "OUT", out, 1)
	}
	return args
}

func (s *faultScene) listPoints(t *testing.T) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "points")
	_, args := s.start(t, s.args)
	if e := launchWith(t, "*@0:list="+list, args...); e.code != 0 {
		t.Fatalf("%s ended with %d:\n%s", s.name, e.code, e.text)
	}
	in := bufio.NewScanner(bytes.NewReader(must[[]byte](t)(os.ReadFile(list))))
	for in.Scan() {
		s.points = append(s.points, in.Text())
	}
}

// faultOf picks a point that the scene passes, and what happens there.
func (s *faultScene) faultOf(random *rand.Rand) (fault, action string) {
	i := random.IntN(len(s.points))
	point, nth := s.points[i], 1
	for _, p := range s.points[:i] {
		if p == point {
			nth++
		}
	}
	rank := 0
	if slices.Contains([]string{"gather", "snapshot", "settle"}, point) {
		rank = random.IntN(2)
	}
	action = []string{"kill", "kill", "fail", "full", "delay=200ms"}[random.IntN(5)]
	return fmt.Sprintf("%s@%d#%d:%s", point, rank, nth, action), action
}

// Whatever fails at whichever point of a save: a name is the old or the new whole
// checkpoint, nothing hangs, and the next resume ends as if nothing had been
// (D19, Lightning-AI/pytorch-lightning#688).
func TestFaultAtAnyPointOfASave(t *testing.T) {
	buildPrograms(t)
	scenes := faultScenes(t)
	tally := map[string]int{}
	for seed := range *faults {
		random := rand.New(rand.NewPCG(uint64(seed), 4))
		s := scenes[seed%len(scenes)]
		mode := []string{"async", "sync"}[random.IntN(2)]
		fault, action := s.faultOf(random)
		ok := t.Run(fmt.Sprintf("%d %s %s %s", seed, s.name, mode, fault), func(t *testing.T) {
			s.run(t, mode, fault, action)
		})
		tally[action]++
		if !ok {
			tally["failed"]++
		}
	}
	for _, action := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%s: %d", action, tally[action])
	}
	for _, s := range scenes {
		t.Logf("%s: %d points", s.name, len(s.points))
	}
}

func (s *faultScene) run(t *testing.T, mode, fault, action string) {
	t.Helper()
	out, args := s.start(t, s.args, "--save-mode", mode)
	e := launchWith(t, fault, args...)
	switch {
	case action == "kill" && e.code != 128+9:
		t.Errorf("exit code %d, want 137:\n%s", e.code, e.text)
	case action == "delay=200ms" && e.code != 0:
		t.Errorf("exit code %d after a delay:\n%s", e.code, e.text)
	case e.code == 1 && action == "full" && strings.Contains(fault, "write ") && !strings.Contains(e.text, "bytes needed"):
		t.Errorf("a full disk is not explained:\n%s", e.text)
	case e.code == 1 && strings.Count(e.text, "error: ") != 1:
		t.Errorf("%d errors were printed:\n%s", strings.Count(e.text, "error: "), e.text)
	}
	for name, digest := range digests(t, out) {
		if digest != s.want[name] && digest != s.old[name] {
			t.Errorf("%s is neither the old nor the new checkpoint", name)
		}
	}
	s.resume(t, out)
	if t.Failed() {
		t.Logf("the run said:\n%s", e.text)
	}
}

// resume goes on from what the fault left, and wants the end of a run without faults.
func (s *faultScene) resume(t *testing.T, out string) {
	t.Helper()
	args := s.in(out, s.again)
	if s.again == nil {
		args = []string{"--nproc", "2", "resume", out}
		if _, _, err := hf.Latest(out); err != nil {
			args = s.in(out, s.args) // it failed before there was anything to resume
		}
	}
	if e := launchWith(t, "", args...); e.code != 0 || !strings.HasSuffix(e.text, ": OK\n") {
		t.Fatalf("the next resume ended with %d:\n%s", e.code, e.text)
	}
	found := digests(t, out)
	if found["checkpoint-6"] != s.want["checkpoint-6"] {
		t.Error("the resumed run ends in another checkpoint than a run without faults")
	}
	if s.limit > 0 && len(found) > s.limit+1 { // one whose removal failed goes at the next save
		t.Errorf("%d checkpoints are left, want %d", len(found), s.limit)
	}
	for _, entry := range must[[]os.DirEntry](t)(os.ReadDir(out)) {
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("%s was left behind", entry.Name())
		}
	}
}

// One rank comes late to a save, whichever: the other waits for it, and one alone
// publishes, however often it is tried: 50 times each in `make faults`
// (D18, huggingface/transformers#28015).
func TestFaultDelayedRank(t *testing.T) {
	buildPrograms(t)
	straight := t.TempDir()
	if e := launchWith(t, "", train("--output-dir", straight)...); e.code != 0 {
		t.Fatal(e.text)
	}
	for i := range max(2, *faults/2) {
		out := t.TempDir()
		fault := fmt.Sprintf("gather@%d#%d:delay=500ms", (i+1)%2, 1+i/2%3) // rank 1, then rank 0; each save in turn
		if e := launchWith(t, fault, train("--output-dir", out)...); e.code != 0 || strings.Count(e.text, ": saved") != 3 {
			t.Errorf("%s: exit code %d:\n%s", fault, e.code, e.text)
		}
		if got, want := digests(t, out), digests(t, straight); !maps.Equal(got, want) {
			t.Errorf("%s: other checkpoints: %v, want %v", fault, got, want)
		}
		if names := dirNames(t, out); len(names) != 3 {
			t.Errorf("%s: the run left %v", fault, names)
		}
	}
}

// A second signal does not wait for the save that the first one asked for, here
// held up for longer than the test waits.
func TestFaultSecondSignalEndsAtOnce(t *testing.T) {
	buildPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	out := t.TempDir()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "launch"), train("--output-dir", out, "--set", "save_strategy=no", "--max-steps", "100000000")...)
	cmd.Env = append(os.Environ(), "REJOIN_FAULT=gather@1:delay=1h")
	begun := time.Now()
	var stdout, stderr watchedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, after := range []struct {
		out  *watchedBuffer
		text string
	}{{&stdout, "step "}, {&stderr, "SIGTERM: saving after this step"}} {
		if !after.out.await(ctx, after.text) {
			t.Fatalf("no %q:\n%s%s", after.text, stdout.String(), stderr.String())
		}
		if after.out == &stderr { // the launcher takes a quick second one for an echo
			<-time.After(300 * time.Millisecond)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); ctx.Err() != nil || code != 128+15 {
		t.Errorf("exit code %d, %v:\n%s%s", code, ctx.Err(), stdout.String(), stderr.String())
	}
	t.Logf("ended %v after the start", time.Since(begun).Round(time.Millisecond))
	if found := must[[]hf.Found](t)(hf.List(out)); len(found) != 0 {
		t.Errorf("it left %v", found)
	}
}
