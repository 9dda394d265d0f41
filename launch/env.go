package launch

import (
	"crypto/rand"
	"encoding/hex"
	"runtime"
	"strconv"
	"strings"
)

// cookieKey names the environment variable that marks every descendant of a
// launch, so that children that left their worker's session are found too.
const cookieKey = "REJOIN_LAUNCH_ID"

// rankEnv is what the environment of one worker depends on besides Config.
type rankEnv struct {
	rank       int
	masterPort int
	errorFile  string // "": none could be made
	cookie     string
	cpus       int // what the launcher may use
}

// workerEnv gives a worker's whole environment: base, then c.Env, then the
// variables that torchrun sets (torch.distributed.elastic's LocalElasticAgent,
// torch 2.14), which nothing overrides. OMP_NUM_THREADS and GOMAXPROCS are set
// only where base and c.Env do not: with several workers, one OpenMP thread
// each, as torchrun does, and an equal share of the CPUs for Go.
func workerEnv(c Config, base []string, r rankEnv) []string {
	env := make([]string, 0, len(base)+len(c.Env)+24)
	env = append(env, cookieKey+"="+r.cookie) // first, so that a scan finds it early
	for _, kv := range base {
		if !strings.HasPrefix(kv, cookieKey+"=") {
			env = append(env, kv)
		}
	}
	env = append(env, c.Env...)
	if c.NProc > 1 && !hasKey(env, "OMP_NUM_THREADS") {
		env = append(env, "OMP_NUM_THREADS=1")
	}
	if !hasKey(env, "GOMAXPROCS") {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(max(1, r.cpus/c.NProc)))
	}
	rank, size := strconv.Itoa(r.rank), strconv.Itoa(c.NProc)
	return append(env,
		"RANK="+rank,
		"LOCAL_RANK="+rank,
		"WORLD_SIZE="+size,
		"LOCAL_WORLD_SIZE="+size,
		"GROUP_RANK=0",
		"GROUP_WORLD_SIZE=1",
		"ROLE_NAME="+c.Role,
		"ROLE_RANK="+rank,
		"ROLE_WORLD_SIZE="+size,
		"MASTER_ADDR="+c.MasterAddr,
		"MASTER_PORT="+strconv.Itoa(r.masterPort),
		"TORCHELASTIC_RESTART_COUNT="+strconv.Itoa(c.RestartCount),
		"TORCHELASTIC_MAX_RESTARTS="+strconv.Itoa(c.MaxRestarts),
		"TORCHELASTIC_RUN_ID="+c.RunID,
		// False: no agent serves a TCPStore on MASTER_PORT, so rank 0 does.
		"TORCHELASTIC_USE_AGENT_STORE=False",
		"TORCHELASTIC_ERROR_FILE="+r.errorFile,
	)
}

func hasKey(env []string, key string) bool {
	for _, kv := range env {
		if k, _, _ := strings.Cut(kv, "="); k == key {
			return true
		}
	}
	return false
}

// availableCPUs counts the CPUs that this process may use: its affinity mask
// and, on Linux, its cgroup's quota.
func availableCPUs() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

func newRunID() string { return "rejoin-" + randomHex() }

// randomHex gives 128 random bits as hexadecimal digits.
func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return hex.EncodeToString(b[:])
}
