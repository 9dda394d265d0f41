package jobflags

import (
	"net"
	"strconv"
	"strings"
	"time"

	"rejoin/launch"
)

// Job is what the job flags ask for.
type Job struct {
	NProc      int
	RunID      string // "": a unique one
	Role       string
	MasterAddr string // "": the launcher's default
	MasterPort int    // 0: a free one

	RdzvEndpoint string        // host:port for the rendezvous to listen on; "": a free port on loopback
	JoinTimeout  time.Duration // for all workers to join; 0: the rendezvous' default

	MaxRestarts     int           // the caller restarts
	ShutdownTimeout time.Duration // 0: the launcher's defaults

	LogDir  string
	Streams func(rank int) (show, keep launch.Streams) // nil: the launcher's default
	Prefix  func(rank int) string                      // nil: the launcher's default

	// Sources tells where each value that is no default came from: canonical
	// flag name to "--flag" or "PET_FLAG".
	Sources map[string]string
}

// Apply sets the fields of c that the job flags speak of.
func (j Job) Apply(c *launch.Config) {
	c.NProc, c.RunID, c.Role = j.NProc, j.RunID, j.Role
	c.MasterAddr, c.MasterPort, c.MaxRestarts = j.MasterAddr, j.MasterPort, j.MaxRestarts
	c.LogDir, c.Streams, c.Prefix = j.LogDir, j.Streams, j.Prefix
	if j.ShutdownTimeout > 0 {
		c.KillAfter, c.InterruptAfter = j.ShutdownTimeout, j.ShutdownTimeout
	}
}

// Host is what the flags' meaning depends on besides themselves.
type Host struct {
	Lookup   func(key string) (string, bool) // os.LookupEnv
	CPUs     int                             // for --nproc auto and cpu
	Hostname func() (string, error)          // os.Hostname
}

// resolver reads one flag after another and keeps the first error.
type resolver struct {
	flags *Flags
	host  Host
	job   Job
	err   error
}

// Resolve gives the job that the parsed flags and the environment ask for. Its
// errors are of type *Error.
func (f *Flags) Resolve(host Host) (Job, error) {
	r := &resolver{flags: f, host: host, job: Job{Sources: map[string]string{}}}
	r.nodes()
	r.rendezvous()
	r.master()
	r.limits()
	r.output()
	return r.job, r.err
}

// get reads a flag; after an error it gives an unset value.
func (r *resolver) get(name string) value {
	v, err := r.flags.get(name, r.host.Lookup)
	r.fail(err)
	if r.err != nil {
		return value{}
	}
	if v.set() {
		r.job.Sources[name] = v.source
	}
	return v
}

func (r *resolver) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *resolver) nodes() {
	if v := r.get(nnodes); v.set() {
		lo, hi, isRange := strings.Cut(v.text, ":")
		if !isRange {
			hi = lo
		}
		if n := r.integer(value{lo, v.source}, 1, 1<<20); n > 1 || r.integer(value{hi, v.source}, 1, 1<<20) > 1 {
			r.fail(v.fail("only one node is supported; start it without --nnodes, or with --nnodes 1"))
		}
	}
	if v := r.get(nodeRank); v.set() && r.integer(v, 0, 1<<20) > 0 {
		r.fail(v.fail("only one node is supported, whose rank is 0"))
	}
	switch v := r.get(nproc); v.text {
	case "auto", "cpu":
		r.job.NProc = min(max(1, r.host.CPUs), launch.MaxNProc)
	case "gpu", "xpu", "cuda":
		r.fail(v.fail("workers run on CPUs; give a number, or cpu for one worker per CPU"))
	default:
		r.job.NProc = r.integer(v, 1, launch.MaxNProc)
	}
}

func (r *resolver) rendezvous() {
	switch v := r.get(rdzvBackend); v.text {
	case "", "static", "c10d":
	default:
		r.fail(v.fail("expected static or c10d; no other backend is supported with one node"))
	}
	endpoint, alone := r.get(rdzvEndpoint), r.boolean(r.get(standalone))
	switch {
	case alone && strings.HasPrefix(endpoint.source, "--"):
		r.fail(endpoint.fail("--standalone chooses the endpoint itself; give one of the two"))
	case alone || !endpoint.set():
		delete(r.job.Sources, rdzvEndpoint)
	default:
		r.job.RdzvEndpoint = r.hostPort(endpoint)
	}
	if v := r.get(rdzvID); v.text != "none" {
		r.job.RunID = v.text
	}
	r.conf(r.get(rdzvConf))
}

// hostPort completes an endpoint: a missing host is the loopback's, a missing port a free one.
func (r *resolver) hostPort(v value) string {
	text := v.text
	if !strings.Contains(text, ":") || strings.HasSuffix(text, "]") {
		text += ":0"
	}
	host, port, err := net.SplitHostPort(text)
	if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || n < 0 || n > 65535 {
		r.fail(v.fail("expected host:port, as in localhost:29400 or [::1]:29400"))
		return ""
	}
	if host == "" {
		host = launch.DefaultMasterAddr
	}
	return net.JoinHostPort(host, port)
}

// conf reads --rdzv-conf.
func (r *resolver) conf(v value) {
	if !v.set() {
		return
	}
	for pair := range strings.SplitSeq(v.text, ",") {
		key, text, ok := strings.Cut(pair, "=")
		switch key = strings.TrimSpace(key); {
		case !ok:
			r.fail(v.fail("%q is not KEY=VALUE", pair))
		case key == "join_timeout" || key == "timeout":
			r.job.JoinTimeout = r.seconds(value{strings.TrimSpace(text), v.source})
		default:
			r.fail(v.fail("unknown key %q; known are join_timeout and timeout, in seconds", key))
		}
	}
}

func (r *resolver) master() {
	local, addr := r.get(localAddr), r.get(masterAddr)
	for _, v := range []value{addr, local} {
		if !v.set() {
			continue
		}
		if v.text == "" || strings.ContainsAny(v.text, " \t\n/") {
			r.fail(v.fail("expected a host name or an IP address"))
		}
		r.job.MasterAddr = v.text
		break
	}
	if v := r.get(masterPort); v.set() {
		r.job.MasterPort = r.integer(v, 0, 65535)
	}
	r.job.Role = r.get(role).text
}

func (r *resolver) limits() {
	r.job.MaxRestarts = r.integer(r.get(maxRestarts), 0, 1<<30)
	if v := r.get(monitorInterval); v.set() {
		r.seconds(v)
	}
	if v := r.get(shutdownTimeout); v.set() {
		r.job.ShutdownTimeout = r.seconds(v)
	}
}

func (r *resolver) integer(v value, lo, hi int) int {
	if r.err != nil {
		return 0
	}
	n, err := strconv.Atoi(v.text)
	if err != nil || n < lo || n > hi {
		r.fail(v.fail("expected a whole number from %d to %d", lo, hi))
		return 0
	}
	return n
}

// seconds reads a positive time in seconds, at most ten years.
func (r *resolver) seconds(v value) time.Duration {
	if r.err != nil {
		return 0
	}
	s, err := strconv.ParseFloat(v.text, 64)
	if err != nil || !(s > 0 && s < 3.2e8) {
		r.fail(v.fail("expected a positive number of seconds"))
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

func (r *resolver) boolean(v value) bool {
	if r.err != nil || v.text == "" {
		return false
	}
	b, err := strconv.ParseBool(strings.ToLower(v.text))
	if err != nil {
		r.fail(v.fail("expected 0, 1, true or false"))
	}
	return b
}
