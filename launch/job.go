package launch

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// job is one run of an Agent: what it opened, started and must end.
type job struct {
	cfg    Config
	agent  *Agent
	cookie string
	began  time.Time
	m      *machine

	port   *reservation
	dir    runDir
	guard  *guardian
	before []oomCounter

	procs          []*process // those that started, by rank
	errorFiles     []string   // by rank
	stdout, stderr *sink
	exits          chan seenExit
	escaped        []int // found at the last scan
	scannedAt      time.Duration

	calls     chan func() // to OnStart and OnExit, in order
	callsDone chan struct{}
	allEnded  chan struct{} // closed to release the spawning thread
	spawner   chan struct{} // closed when it is released
}

// seenExit is a worker's end and when it was seen.
type seenExit struct {
	exit Exit
	at   time.Time
}

// newJob opens what a run needs; close gives it back.
func newJob(a *Agent) (*job, error) {
	cfg := a.cfg
	port, err := reservePort(cfg.MasterPort)
	if err != nil {
		return nil, err
	}
	dir, err := makeRunDir(cfg)
	if err != nil {
		port.close()
		return nil, err
	}
	j := &job{
		cfg: cfg, agent: a, cookie: randomHex(), port: port, dir: dir,
		began: time.Now(), m: newMachine(cfg.NProc, cfg.policy()),
		before:    oomCounters(os.DirFS("/")),
		exits:     make(chan seenExit, cfg.NProc),
		calls:     make(chan func(), 2*cfg.NProc),
		callsDone: make(chan struct{}),
		allEnded:  make(chan struct{}),
		spawner:   make(chan struct{}),
	}
	lock := new(sync.Mutex)
	j.stdout, j.stderr = &sink{lock: lock, w: cfg.Stdout}, &sink{lock: lock, w: cfg.Stderr}
	temp := ""
	if dir.temp {
		temp = dir.root
	}
	j.guard = startGuardian(j.cookie, temp)
	adoptOrphans()
	go j.makeCalls()
	return j, nil
}

// makeCalls calls the caller back, apart from the watching.
func (j *job) makeCalls() {
	defer close(j.callsDone)
	for call := range j.calls {
		call()
	}
}

func (j *job) close() {
	close(j.allEnded)
	<-j.spawner
	close(j.calls)
	<-j.callsDone
	releaseOrphans()
	j.guard.stop()
	j.port.close()
	j.dir.remove()
}

func (j *job) now() time.Duration { return time.Since(j.began) }

// spawn starts every worker, from a thread that stays until all have ended: the
// kernel sends PDEATHSIG when the thread that spawned ends, not the process.
func (j *job) spawn() error {
	result := make(chan error, 1)
	go func() {
		defer close(j.spawner)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result <- j.startAll()
		<-j.allEnded
	}()
	return <-result
}

// startAll starts the ranks in order. After an error the ranks that did not
// start count as gone.
func (j *job) startAll() error {
	cpus, base := availableCPUs(), os.Environ()
	for rank := range j.cfg.NProc {
		err := j.start(rank, rankEnv{
			rank: rank, masterPort: j.port.port, cookie: j.cookie, cpus: cpus,
		}, base)
		if err != nil {
			for ; rank < j.cfg.NProc; rank++ {
				j.m.slots[rank].stage = slotGone
			}
			return err
		}
	}
	return nil
}

func (j *job) start(rank int, env rankEnv, base []string) error {
	dir, err := j.dir.rank(j.cfg.RestartCount, rank)
	if err != nil {
		return err
	}
	if dir != "" {
		env.errorFile = filepath.Join(dir, "error.json")
	}
	p := &process{rank: rank, cmd: &exec.Cmd{
		Path: j.cfg.Program, Args: append([]string{j.cfg.Program}, j.cfg.Args...),
		Dir: j.cfg.Dir, Env: workerEnv(j.cfg, base, env),
	}}
	if err := j.connect(p, dir); err != nil {
		return err
	}
	pid := p.pid()
	j.procs = append(j.procs, p)
	j.errorFiles = append(j.errorFiles, env.errorFile)
	j.m.started(rank, pid)
	j.guard.add(pid)
	if j.cfg.OnStart != nil {
		j.calls <- func() { j.cfg.OnStart(rank, pid) }
	}
	go func() {
		exit, at := p.wait()
		j.exits <- seenExit{exit, at}
	}()
	return nil
}

// connect makes the worker's pipes, starts it and starts carrying its output.
func (j *job) connect(p *process, dir string) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return &StartError{p.rank, j.cfg.Program, err}
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		_ = outR.Close()
		return &StartError{p.rank, j.cfg.Program, err}
	}
	defer errW.Close()
	show, keep := j.cfg.Streams(p.rank)
	prefix := j.cfg.Prefix(p.rank)
	p.streams = []*stream{
		newStream(prefix, outR, j.stdout, show&StdoutOnly != 0),
		newStream(prefix, errR, j.stderr, show&StderrOnly != 0),
	}
	if err = openLogs(p.streams, dir, j.dir.temp, keep); err == nil {
		if err = p.start(outW, errW); err != nil {
			err = &StartError{p.rank, j.cfg.Program, lookPathCause(err)}
		}
	}
	if err != nil {
		for _, s := range p.streams {
			s.discard()
		}
		return err
	}
	for _, s := range p.streams {
		go s.run()
	}
	return nil
}

func newStream(prefix string, pipe *os.File, to *sink, show bool) *stream {
	if !show {
		to = nil
	}
	return &stream{
		pipe: pipe, sink: to, done: make(chan struct{}),
		split: splitter{prefix: []byte(prefix), max: maxLine},
	}
}

// openLogs opens the files of the streams to keep.
func openLogs(streams []*stream, dir string, temp bool, keep Streams) error {
	if temp || dir == "" {
		return nil
	}
	for i, name := range []string{"stdout.log", "stderr.log"} {
		if keep&(1<<i) == 0 {
			continue
		}
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return logDirError(dir, err)
		}
		streams[i].file = io.WriteCloser(f)
	}
	return nil
}
