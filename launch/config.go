package launch

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Defaults of a [Config].
const (
	DefaultGrace          = time.Second
	DefaultKillAfter      = 5 * time.Second
	DefaultInterruptAfter = 700 * time.Millisecond
	DefaultMasterAddr     = "127.0.0.1"
	DefaultRole           = "default"
)

// MaxNProc bounds the workers of one node, so that a slip of the keyboard does
// not fill the process table.
const MaxNProc = 1024

// Config describes one attempt to run a job's workers on this node.
type Config struct {
	Program string   // path, or a name to find on PATH
	Args    []string // arguments after the program's name
	Dir     string   // working directory; "": the launcher's
	Env     []string // KEY=VALUE for every worker, over the launcher's own environment
	NProc   int      // number of workers, 1 to MaxNProc

	RunID string // TORCHELASTIC_RUN_ID; "": a unique one
	Role  string // ROLE_NAME; "": DefaultRole

	// MasterAddr and MasterPort are for a torch script's rank 0 to listen on.
	// "" means DefaultMasterAddr. Port 0 means a free one, which on Linux stays
	// reserved until the workers have ended (see reservePort); another is checked first.
	MasterAddr string
	MasterPort int

	RestartCount int // TORCHELASTIC_RESTART_COUNT of this attempt
	MaxRestarts  int // TORCHELASTIC_MAX_RESTARTS

	// Stdout and Stderr receive the workers' output in whole prefixed lines;
	// nil discards it. Writes to the two never overlap in time.
	Stdout, Stderr io.Writer
	Prefix         func(rank int) string // before each line; nil: "[rankN]: "

	// Streams selects which of a rank's streams reach Stdout and Stderr and which
	// are kept in files; nil: all are shown, and all are kept if LogDir is set.
	Streams func(rank int) (show, keep Streams)
	// LogDir is where kept streams go, in torchrun's layout:
	// LogDir/RUNID_random/attempt_N/RANK/{stdout,stderr}.log, beside error.json.
	// "": no logs; error.json lives in a temporary directory that Run removes.
	LogDir string

	// Grace is the time from the first failure until the survivors are sent
	// SIGTERM. Workers that learn of the failure from each other end on their own
	// in it, naming the rank that failed. 0: DefaultGrace; negative: none, which is
	// right for programs that do not know of each other.
	Grace time.Duration
	// KillAfter is the time from SIGTERM (also SIGHUP, SIGQUIT) to SIGKILL, and
	// the time that children outliving their worker get. 0: DefaultKillAfter.
	KillAfter time.Duration
	// InterruptAfter is KillAfter for SIGINT. 0: DefaultInterruptAfter.
	InterruptAfter time.Duration

	// PeerFailedCodes are exit codes by which a worker says "another rank
	// failed, not I". Such an exit is named as the first failure only when nothing else failed.
	PeerFailedCodes []int
	// StoppedCode is the exit code by which a worker says "I was asked to stop, and
	// have saved my state". It is no failure; when all workers that did not finish
	// end with it, it is the job's. Workers that finish although a signal asked
	// them to stop then count as finished. 0: there is no such code.
	StoppedCode int

	// Signals are the signals sent to the launcher (see Notify). SIGUSR1 and
	// SIGUSR2 are passed on; any other ends the job: it is passed on to every
	// worker's process group, a second one kills at once. nil: only the context ends the job, as SIGTERM.
	Signals <-chan os.Signal

	// OnStart and OnExit, if set, are told of each worker's start and end, one
	// call at a time, in order. They must return promptly: Run returns after the
	// last call. OnExit is not told of a worker that SIGKILL did not end (Report.Left).
	OnStart func(rank, pid int)
	OnExit  func(Exit)
}

// Streams is a set of a worker's output streams, numbered as torchrun's --tee is.
type Streams int

// The streams of a worker.
const (
	NoStreams  Streams = 0
	StdoutOnly Streams = 1
	StderrOnly Streams = 2
	AllStreams Streams = StdoutOnly | StderrOnly
)

// ConfigError says which field of a Config is wrong, and how.
type ConfigError struct {
	Field   string
	Problem string // what was found and what was expected
}

func (e *ConfigError) Error() string { return "launch: " + e.Field + ": " + e.Problem }

// withDefaults checks c and fills what it leaves open.
func (c Config) withDefaults() (Config, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	setDefault(&c.RunID, newRunID)
	setDefault(&c.Role, func() string { return DefaultRole })
	setDefault(&c.MasterAddr, func() string { return DefaultMasterAddr })
	setDefault(&c.Stdout, func() io.Writer { return io.Discard })
	setDefault(&c.Stderr, func() io.Writer { return io.Discard })
	setDefault(&c.Grace, func() time.Duration { return DefaultGrace })
	setDefault(&c.KillAfter, func() time.Duration { return DefaultKillAfter })
	setDefault(&c.InterruptAfter, func() time.Duration { return DefaultInterruptAfter })
	if c.Prefix == nil {
		c.Prefix = func(rank int) string { return fmt.Sprintf("[rank%d]: ", rank) }
	}
	if c.Streams == nil {
		keep := NoStreams
		if c.LogDir != "" {
			keep = AllStreams
		}
		c.Streams = func(int) (Streams, Streams) { return AllStreams, keep }
	}
	return c, nil
}

// policy gives the machine's times.
func (c Config) policy() policy {
	return policy{
		grace: c.Grace, killAfter: c.KillAfter, interruptAfter: c.InterruptAfter,
		abandonAfter: 2 * time.Second, repeatAfter: 200 * time.Millisecond,
		peerFailed: c.PeerFailedCodes, stoppedCode: c.StoppedCode,
	}
}

func setDefault[T comparable](field *T, value func() T) {
	var zero T
	if *field == zero {
		*field = value()
	}
}

func (c Config) validate() error {
	switch {
	case c.Program == "":
		return &ConfigError{"Program", "no program to run was given"}
	case c.NProc < 1 || c.NProc > MaxNProc:
		return &ConfigError{"NProc", fmt.Sprintf("%d workers asked for, expected 1 to %d", c.NProc, MaxNProc)}
	case c.MasterPort < 0 || c.MasterPort > 65535:
		return &ConfigError{"MasterPort", fmt.Sprintf("port %d, expected 1 to 65535, or 0 for a free one", c.MasterPort)}
	case c.RestartCount < 0 || c.MaxRestarts < 0:
		return &ConfigError{"MaxRestarts", fmt.Sprintf("restart %d of %d, expected no negative number", c.RestartCount, c.MaxRestarts)}
	case c.KillAfter < 0 || c.InterruptAfter < 0:
		return &ConfigError{"KillAfter", "a negative time, expected how long workers may take to end"}
	}
	for _, kv := range c.Env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" || strings.ContainsRune(kv, 0) {
			return &ConfigError{"Env", fmt.Sprintf("%q, expected KEY=VALUE without NUL bytes", kv)}
		}
	}
	return nil
}
