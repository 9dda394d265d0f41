package jobflags

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Flags are the job flags bound to a flag set; read them with Resolve after parsing.
type Flags struct {
	fs *pflag.FlagSet
}

const (
	nnodes          = "nnodes"
	nproc           = "nproc"
	nodeRank        = "node-rank"
	rdzvBackend     = "rdzv-backend"
	rdzvEndpoint    = "rdzv-endpoint"
	rdzvID          = "rdzv-id"
	rdzvConf        = "rdzv-conf"
	standalone      = "standalone"
	maxRestarts     = "max-restarts"
	monitorInterval = "monitor-interval"
	role            = "role"
	masterAddr      = "master-addr"
	masterPort      = "master-port"
	localAddr       = "local-addr"
	logDir          = "log-dir"
	redirects       = "redirects"
	tee             = "tee"
	prefixTemplate  = "log-line-prefix-template"
	ranksFilter     = "local-ranks-filter"
	shutdownTimeout = "shutdown-timeout"
)

// aliases are other names of a flag, after dashes are made of underscores.
var aliases = map[string]string{
	"nproc-per-node":  nproc,
	"n-proc-per-node": nproc,
}

// Normalize gives a flag's canonical name: dashes for underscores, and
// --nproc for torchrun's --nproc-per-node. It is a pflag normalisation function, which
// cobra takes with SetGlobalNormalizationFunc.
func Normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if canonical, ok := aliases[name]; ok {
		name = canonical
	}
	return pflag.NormalizedName(name)
}

// Bind adds the job flags to fs, and Normalize to its names.
func Bind(fs *pflag.FlagSet) *Flags {
	fs.SetNormalizeFunc(Normalize)
	for _, d := range []struct{ name, short, value, usage string }{
		{nnodes, "", "1", "`number` of nodes, or MIN:MAX; only one node is supported"},
		{nproc, "", "1", "worker processes: a `number`, or auto or cpu for one per CPU (torchrun's --nproc-per-node)"},
		{nodeRank, "", "0", "`rank` of this node; 0 with one node"},
		{rdzvBackend, "", "", "rendezvous `backend`: static or c10d, both meaning the launcher's own"},
		{rdzvEndpoint, "", "", "`host:port` where the launcher serves the rendezvous (default: a free port on 127.0.0.1)"},
		{rdzvID, "", "", "the job's `id` (default: a unique one)"},
		{rdzvConf, "", "", "rendezvous settings, `KEY=VALUE,...`: join_timeout or timeout, in seconds"},
		{maxRestarts, "", "0", "`times` the workers may be restarted; only 0 is supported"},
		{monitorInterval, "", "", "accepted for torchrun's sake, in `seconds`: workers are watched without polling"},
		{role, "", "default", "ROLE_NAME of the workers, a `name`"},
		{masterAddr, "", "", "MASTER_ADDR for the workers, an `address` (default 127.0.0.1)"},
		{masterPort, "", "", "MASTER_PORT for the workers, a `port` (default: a free one)"},
		{localAddr, "", "", "`address` of this node, used as MASTER_ADDR unless that is given"},
		{logDir, "", "", "`directory` to keep the workers' output in, by run, attempt and rank"},
		{redirects, "r", "", "`streams` kept in files and not shown: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,..."},
		{tee, "t", "", "`streams` kept in files and shown; as --redirects"},
		{prefixTemplate, "", "", "`template` of the prefix of each line, with ${role_name}, ${local_rank}, ${rank}, ${hostname}"},
		{ranksFilter, "", "", "show the output of these `ranks` only, as in 0,2"},
		{shutdownTimeout, "", "", "`seconds` that workers may take to end before SIGKILL (default 5; after Ctrl-C 0.7)"},
	} {
		fs.StringP(d.name, d.short, d.value, d.usage)
	}
	fs.Bool(standalone, false, "one node with a rendezvous of its own: the default")
	return &Flags{fs: fs}
}

// Error says which flag or environment variable is wrong, and how.
type Error struct {
	Source  string // "--nnodes" or "PET_NNODES"
	Value   string
	Problem string // what was expected, and what to do
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s=%s: %s", e.Source, e.Value, e.Problem)
}

// value is a flag's value and where it comes from.
type value struct {
	text   string
	source string // "--name", "PET_NAME", or "" for the default
}

func (v value) set() bool { return v.source != "" }

func (v value) fail(format string, args ...any) error {
	return &Error{Source: v.source, Value: v.text, Problem: fmt.Sprintf(format, args...)}
}

// get finds a flag's value: the command line's, the environment's, the default.
func (f *Flags) get(name string, lookup func(string) (string, bool)) (value, error) {
	flag := f.fs.Lookup(name)
	if flag.Changed {
		return value{flag.Value.String(), "--" + name}, nil
	}
	var found value
	for _, key := range envNames(name) {
		text, ok := lookup(key)
		text = strings.TrimSpace(text)
		switch {
		case !ok || text == "":
		case found.set() && found.text != text:
			return value{}, value{text, key}.fail("%s=%s says otherwise; unset one of the two", found.source, found.text)
		default:
			found = value{text, key}
		}
	}
	if found.set() {
		return found, nil
	}
	return value{text: flag.DefValue}, nil
}

// envNames gives the environment variables of a flag.
func envNames(name string) []string {
	names := []string{"PET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
	switch name {
	case nproc: // the Kubeflow Trainer's two versions differ
		names = []string{"PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"}
	case shutdownTimeout:
		names = append(names, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
	}
	return names
}
