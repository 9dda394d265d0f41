package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func lookup(env []string, key string) (string, bool) {
	for _, kv := range slices.Backward(env) { // the last one counts, as in os/exec
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v, true
		}
	}
	return "", false
}

func TestWorkerEnv(t *testing.T) {
	c := Config{NProc: 4, RunID: "job-1", Role: "trainer", MasterAddr: "10.0.0.1", RestartCount: 1, MaxRestarts: 3, Env: []string{"RANK=77", "EXTRA=a=b"}}
	env := workerEnv(c, []string{"PATH=/bin", "WORLD_SIZE=99", cookieKey + "=outer"}, rankEnv{rank: 2, masterPort: 4242, errorFile: "/tmp/e.json", cookie: "c00k1e", cpus: 8})
	want := map[string]string{
		"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
		"ROLE_NAME": "trainer", "ROLE_RANK": "2", "ROLE_WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4242",
		"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_RUN_ID": "job-1",
		"TORCHELASTIC_USE_AGENT_STORE": "False", "TORCHELASTIC_ERROR_FILE": "/tmp/e.json",
		"OMP_NUM_THREADS": "1", "GOMAXPROCS": "2", "EXTRA": "a=b", "PATH": "/bin", cookieKey: "c00k1e",
	}
	for key, value := range want {
		if got, ok := lookup(env, key); !ok || got != value {
			t.Errorf("%s=%q (set: %v), expected %q", key, got, ok, value)
		}
	}
}

func TestThreadsOfAWorker(t *testing.T) {
	tests := []struct {
		name          string
		nproc, cpus   int
		base, extra   []string
		omp, maxprocs string
	}{
		{"one worker", 1, 8, nil, nil, "", "8"},
		{"more workers than CPUs", 5, 2, nil, nil, "1", "1"},
		{"the user's choice", 2, 8, []string{"OMP_NUM_THREADS=6", "GOMAXPROCS=5"}, nil, "6", "5"},
		{"the caller's choice", 2, 8, nil, []string{"OMP_NUM_THREADS=3", "GOMAXPROCS=7"}, "3", "7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := workerEnv(Config{NProc: tt.nproc, Env: tt.extra}, tt.base, rankEnv{cpus: tt.cpus})
			omp, _ := lookup(env, "OMP_NUM_THREADS")
			maxprocs, _ := lookup(env, "GOMAXPROCS")
			if omp != tt.omp || maxprocs != tt.maxprocs {
				t.Errorf("OMP_NUM_THREADS=%q GOMAXPROCS=%q, expected %q and %q", omp, maxprocs, tt.omp, tt.maxprocs)
			}
		})
	}
}

func TestWorkersSeeTheirEnvironment(t *testing.T) {
	f := newFixture(2, "env=RANK,WORLD_SIZE,TORCHELASTIC_RUN_ID,MASTER_ADDR,ROLE_NAME", `errorfile={"message":"x"}`, "env=MASTER_PORT,TORCHELASTIC_ERROR_FILE")
	r := f.run(t)
	wantCode(t, r, 0)
	out := f.out.String()
	for _, want := range []string{
		"[rank1]: RANK=1\n", "[rank0]: WORLD_SIZE=2\n", "[rank1]: MASTER_ADDR=127.0.0.1\n", "[rank0]: ROLE_NAME=default\n",
		"[rank0]: TORCHELASTIC_RUN_ID=" + r.RunID + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if port := f.out.number(t, "MASTER_PORT="); port < 1 || port > 65535 {
		t.Errorf("MASTER_PORT=%d", port)
	}
	_, path, _ := strings.Cut(out, "TORCHELASTIC_ERROR_FILE=")
	path, _, _ = strings.Cut(path, "\n")
	if dir := filepath.Dir(path); !strings.Contains(path, filepath.Join("attempt_0", filepath.Base(dir), "error.json")) {
		t.Errorf("error file %s, expected …/attempt_0/RANK/error.json", path)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the temporary error file is still there: %v", err)
	}
}

func TestRunIDsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		a, err := New(Config{Program: os.Args[0], NProc: 1})
		if err != nil {
			t.Fatal(err)
		}
		if seen[a.RunID()] {
			t.Fatalf("run id %s twice", a.RunID())
		}
		seen[a.RunID()] = true
	}
}

func TestParseErrorFile(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"by torch's record", `{"message":{"message":"RuntimeError: x\n","extraInfo":{"py_callstack":"…","timestamp":"1700000000"},"errorCode":1}}`, "RuntimeError: x"},
		{"plain", `{"message":"it broke","timestamp":1700000000}`, "it broke"},
		{"cut", `{"message":{"mess`, ""},
		{"no object", `[1,2]`, ""},
		{"a number", `{"message":7}`, ""},
		{"other keys", `{"error":"x"}`, ""},
		{"empty", ``, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseErrorFile([]byte(tt.in)); got != tt.want {
				t.Errorf("got %q, expected %q", got, tt.want)
			}
		})
	}
	if got := errorMessage(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("a missing file gives %q", got)
	}
	if got := errorMessage(t.TempDir()); got != "" {
		t.Errorf("a directory gives %q", got)
	}
}

func FuzzParseErrorFile(f *testing.F) {
	f.Add([]byte(`{"message":{"message":"m"}}`))
	f.Add([]byte(`{"message":"m"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := parseErrorFile(data); got != strings.TrimSpace(got) {
			t.Errorf("%q is not trimmed", got)
		}
	})
}
