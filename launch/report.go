package launch

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Report tells how a job ended.
type Report struct {
	RunID       string
	NProc       int
	Elapsed     time.Duration
	Exits       []Exit         // one per rank, by time of end
	First       *Failure       // the rank that failed first; nil: none did
	Interrupted syscall.Signal // the signal that ended a job in which nothing had failed; 0: none
	Orderly     bool           // every worker finished or exited with StoppedCode
	Left        []int          // process ids that SIGKILL did not end
	LogDir      string         // where logs were kept; "": nowhere
	OutputErr   error          // why output was lost; nil: none was
	code        int
	peerCodes   []int // Config.PeerFailedCodes
}

// Failure is the end of the rank that failed first, with what explains it.
type Failure struct {
	Exit
	Frozen  bool     // it was declared failed and had not ended by itself
	Message string   // what it wrote to its error file
	Tail    []string // last lines of its stderr, or of its stdout if that is empty
	Stream  string   // "stderr" or "stdout"
	Hint    string   // why it ended, in lines
}

// ExitCode is the launcher's exit code; see the package comment.
func (r *Report) ExitCode() int { return r.code }

func (j *job) report(outputErr error) *Report {
	root := os.DirFS("/")
	after := oomCounters(root)
	_, _, outOfMemory := risenCounter(j.before, after)
	v := judge(j.m, outOfMemory)
	r := &Report{
		RunID: j.cfg.RunID, NProc: j.cfg.NProc, Elapsed: j.now(),
		Exits: v.exits, Interrupted: j.m.interrupted, OutputErr: outputErr,
		peerCodes: j.cfg.PeerFailedCodes,
	}
	r.code = v.exitCode(j.m.policy, j.m.interrupted)
	_, r.Orderly = v.orderly(j.m.policy)
	if !j.dir.temp {
		r.LogDir = j.dir.root
	}
	for _, s := range j.m.slots[:j.m.nproc()] {
		if s.stage == slotLeft {
			r.Left = append(r.Left, s.pid)
		}
	}
	r.Left = append(r.Left, j.escaped...)
	if v.first >= 0 {
		r.First = j.failure(v, root, after)
	}
	return r
}

// failure explains the first failure; after are the counts of root at the job's end.
func (j *job) failure(v verdict, root fs.FS, after []oomCounter) *Failure {
	e := v.exits[v.first]
	f := &Failure{Exit: e, Frozen: v.frozen, Message: errorMessage(j.errorFiles[e.Rank]), Stream: "stderr"}
	out, err := j.procs[e.Rank].streams[0], j.procs[e.Rank].streams[1]
	if f.Tail = err.last(); len(f.Tail) == 0 {
		f.Tail, f.Stream = out.last(), "stdout"
	}
	switch {
	case v.frozen:
		f.Hint = frozenHint(root, e)
	case e.Signal == syscall.SIGKILL:
		f.Hint = killedHint(root, j.before, after, e)
	case e.Signal == syscall.SIGTERM, e.Signal == syscall.SIGINT, e.Signal == syscall.SIGHUP:
		f.Hint = "someone sent " + signalName(e.Signal) + " to this worker; the launcher did not"
	case e.Signal == 0 && slices.Contains(j.cfg.PeerFailedCodes, e.Code):
		f.Hint = "it says that another rank failed, but none had"
	}
	return f
}

// WriteTo writes the report as a short text for people. It writes nothing when
// all went well.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	switch {
	case r.First != nil:
		r.writeFirst(&b)
		r.writeOthers(&b)
	case r.Orderly && r.code != 0:
		fmt.Fprintf(&b, "launch: stopped as asked after %s; the run can be resumed\n", seconds(r.Elapsed))
	case r.Orderly:
	case r.Interrupted != 0:
		fmt.Fprintf(&b, "launch: ended by %s after %s\n", signalName(r.Interrupted), seconds(r.Elapsed))
		r.writeOthers(&b)
	}
	if len(r.Left) > 0 {
		fmt.Fprintf(&b, "launch: these processes could not be ended: pid %s\n", joinInts(r.Left))
	}
	if r.OutputErr != nil {
		fmt.Fprintf(&b, "launch: output was lost: %s\n", strings.ReplaceAll(r.OutputErr.Error(), "\n", "; "))
	}
	if b.Len() > 0 && r.LogDir != "" {
		fmt.Fprintf(&b, "  logs: %s\n", r.LogDir)
	}
	if r.code != 0 && (r.First == nil || r.First.Frozen || r.First.Code != r.code) {
		fmt.Fprintf(&b, "  exit code %d\n", r.code)
	}
	return b.WriteTo(w)
}

func (r *Report) writeFirst(b *bytes.Buffer) {
	f := r.First
	if f.Frozen {
		fmt.Fprintf(b, "launch: rank %d (pid %d) failed first: %s\n", f.Rank, f.PID, f.Declared)
	} else {
		fmt.Fprintf(b, "launch: rank %d (pid %d) failed first, after %s: %s\n", f.Rank, f.PID, seconds(f.After), f.How())
	}
	if f.Hint != "" {
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(f.Hint, "\n", "\n  "))
	}
	if f.Message != "" {
		fmt.Fprintf(b, "  its error: %s\n", strings.ReplaceAll(f.Message, "\n", "\n    "))
	}
	if len(f.Tail) > 0 {
		fmt.Fprintf(b, "  its last lines on %s:\n", f.Stream)
		for _, line := range f.Tail {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
}

// writeOthers lists what happened to the other ranks, equal ends together.
func (r *Report) writeOthers(b *bytes.Buffer) {
	var order []string
	ranks := map[string][]int{}
	for _, e := range r.Exits {
		if r.First != nil && e.Rank == r.First.Rank {
			continue
		}
		how := e.fate()
		if r.First != nil && e.Signal == 0 && slices.Contains(r.peerCodes, e.Code) {
			how = "stopped because of it"
		}
		if ranks[how] == nil {
			order = append(order, how)
		}
		ranks[how] = append(ranks[how], e.Rank)
	}
	if len(order) > 0 && r.First != nil {
		b.WriteString("  the others:\n")
	}
	for _, how := range order {
		noun := "rank"
		if len(ranks[how]) > 1 {
			noun = "ranks"
		}
		slices.Sort(ranks[how])
		fmt.Fprintf(b, "    %s %s: %s\n", noun, joinInts(ranks[how]), how)
	}
}

// fate says how a rank that is not the first failure ended, and why.
func (e Exit) fate() string {
	switch {
	case e.Left:
		return e.How()
	case e.Sent != 0 && e.Signal == e.Sent:
		return "ended by the launcher with " + signalName(e.Sent)
	case e.Sent != 0:
		return e.How() + " after the launcher sent " + signalName(e.Sent)
	case e.Code == 0:
		return "had finished"
	case e.Collateral:
		return e.How() + ", by itself"
	}
	return e.How()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func joinInts(ns []int) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ", ")
}
