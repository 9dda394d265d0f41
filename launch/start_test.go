package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	good := Config{Program: os.Args[0], NProc: 1}
	tests := []struct {
		field  string
		change func(*Config)
	}{
		{"Program", func(c *Config) { c.Program = "" }},
		{"NProc", func(c *Config) { c.NProc = 0 }},
		{"NProc", func(c *Config) { c.NProc = MaxNProc + 1 }},
		{"MasterPort", func(c *Config) { c.MasterPort = 65536 }},
		{"MaxRestarts", func(c *Config) { c.MaxRestarts = -1 }},
		{"KillAfter", func(c *Config) { c.KillAfter = -time.Second }},
		{"Env", func(c *Config) { c.Env = []string{"NOVALUE"} }},
		{"Env", func(c *Config) { c.Env = []string{"A=b\x00"} }},
	}
	for _, tt := range tests {
		c := good
		tt.change(&c)
		_, err := New(c)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != tt.field || ExitCode(err) != ExitUsage {
			t.Errorf("got %v (exit code %d), expected a ConfigError of %s", err, ExitCode(err), tt.field)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name, program string
		code          int
		want          string
	}{
		{"missing path", filepath.Join(dir, "none"), ExitNotFound, "check its name"},
		{"missing name", "no-such-program-anywhere", ExitNotFound, "check its name"},
		{"not executable", write("data", "x", 0o600), ExitNotExec, "chmod +x"},
		{"a directory", dir, ExitNotExec, ""},
		{"no program", write("text", "just text", 0o700), ExitNotExec, "not a program of this system"},
		{"missing interpreter", write("script", "#!/no/such/shell\n", 0o700), ExitNotFound, "check its name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Run(t.Context(), Config{Program: tt.program, NProc: 3})
			var start *StartError
			if !errors.As(err, &start) || ExitCode(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v (exit code %d), expected a StartError with %q and exit code %d", err, ExitCode(err), tt.want, tt.code)
			}
		})
	}
}

// When a rank cannot be started, those that were are ended.
func TestStartThatFailsHalfWay(t *testing.T) {
	program := filepath.Join(t.TempDir(), "vanishing")
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	f := newFixture(4, "block")
	f.Program = program
	var pids []int
	f.OnStart = func(_, pid int) { pids = append(pids, pid) }
	f.Prefix = func(rank int) string { // called as each rank is set up
		if rank == 2 {
			if err := os.Remove(program); err != nil {
				t.Error(err)
			}
		}
		return "> "
	}
	_, err := Run(t.Context(), f.Config)
	var start *StartError
	if !errors.As(err, &start) || start.Rank != 2 || !errors.Is(err, fs.ErrNotExist) || ExitCode(err) != ExitNotFound {
		t.Fatalf("got %v, expected a StartError of rank 2", err)
	}
	if len(pids) != 2 || !gone(pids[0]) || !gone(pids[1]) {
		t.Errorf("started %v, of which gone: %v; expected two, gone", pids, len(pids) == 2 && gone(pids[0]) && gone(pids[1]))
	}
}

func TestExitCodeOfErrors(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), ExitFailure},
		{&PortInUseError{Port: 1}, ExitFailure},
		{&WorkerNotFoundError{}, ExitNotFound},
		{&StartError{Err: exec.ErrNotFound}, ExitNotFound},
		{&StartError{Err: syscall.EACCES}, ExitNotExec},
		{&StartError{Err: syscall.EAGAIN}, ExitFailure},
	}
	for _, tt := range tests {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%v: exit code %d, expected %d", tt.err, got, tt.want)
		}
	}
	if got := (&StartError{Rank: 3, Program: "p", Err: syscall.EAGAIN}).Error(); !strings.Contains(got, "rank 3") || !strings.Contains(got, "ulimit") {
		t.Error(got)
	}
}

func TestFindWorker(t *testing.T) {
	real, links, path := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	launcher := filepath.Join(real, "launch")
	link := filepath.Join(links, "launch")
	for _, err := range []error{os.WriteFile(launcher, nil, 0o755), os.Symlink(launcher, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := findWorker(link)
	var missing *WorkerNotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), links) || !strings.Contains(err.Error(), "make build") {
		t.Fatalf("got %v, expected a WorkerNotFoundError with %s", err, links)
	}
	// From the least to the most preferred place.
	for _, dir := range []string{path, real, links} {
		want := filepath.Join(dir, "worker")
		if err := os.WriteFile(want, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := findWorker(link); err != nil || !sameFile(t, got, want) {
			t.Errorf("got %s, %v; expected %s", got, err, want)
		}
	}
	if got, err := findWorker(""); err != nil || !sameFile(t, got, filepath.Join(path, "worker")) {
		t.Errorf("without its own path: %s, %v", got, err)
	}
	if _, err := FindWorker(); err != nil { // beside the test binary there is none, on PATH there is
		t.Error(err)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	ai, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	bi, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(ai, bi)
}

func TestLogDirThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(1)
	f.LogDir = filepath.Join(file, "logs")
	_, err := Run(t.Context(), f.Config)
	if err == nil || !strings.Contains(err.Error(), f.LogDir) || ExitCode(err) != ExitFailure {
		t.Errorf("got %v", err)
	}
}

func TestNoTemporaryDirectory(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	f := newFixture(1, "env=TORCHELASTIC_ERROR_FILE", "exit=4")
	wantCode(t, f.run(t), 4)
	if got := f.out.String(); got != "[rank0]: TORCHELASTIC_ERROR_FILE=\n" {
		t.Errorf("got %q, expected an empty name", got)
	}
}

// Twenty launches at once: no port, directory or process of theirs collides.
func TestConcurrentLaunches(t *testing.T) {
	const launches = 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	ports := map[int]int{}
	for i := range launches {
		f := newFixture(2, "env=MASTER_PORT", fmt.Sprintf("1:exit=%d", i))
		f.KillAfter = testDeadline
		wg.Go(func() {
			r, err := Run(t.Context(), f.Config)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if r.ExitCode() != i {
				t.Errorf("launch %d: exit code %d", i, r.ExitCode())
			}
			_, digits, _ := strings.Cut(f.out.String(), "[rank1]: MASTER_PORT=")
			var port int
			if _, err := fmt.Sscan(digits, &port); err != nil {
				t.Errorf("launch %d: %v in %q", i, err, f.out.String())
			}
			ports[port]++
		})
	}
	wg.Wait()
	t.Logf("%d launches used %d ports", launches, len(ports)) // one that ended gives its port back
}
