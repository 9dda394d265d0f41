package jobflags

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"rejoin/launch"
)

func resolve(args []string, env map[string]string) (Job, error) {
	fs := pflag.NewFlagSet("launch", pflag.ContinueOnError)
	flags := Bind(fs)
	if err := fs.Parse(args); err != nil {
		return Job{}, err
	}
	return flags.Resolve(Host{
		Lookup:   func(key string) (string, bool) { v, ok := env[key]; return v, ok },
		CPUs:     6,
		Hostname: func() (string, error) { return "node7", nil },
	})
}

func TestDefaults(t *testing.T) {
	job, err := resolve(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if job.NProc != 1 || job.RunID != "" || job.Role != "default" || job.MasterAddr != "" || job.MasterPort != 0 ||
		job.MaxRestarts != 0 || job.Streams != nil || job.Prefix != nil || len(job.Sources) != 0 {
		t.Errorf("got %+v", job)
	}
}

func TestFlagsAndEnvironment(t *testing.T) {
	tests := []struct {
		name string
		args string
		env  map[string]string
		got  func(Job) any
		want any
	}{
		{"dashes", "--nproc-per-node 4", nil, func(j Job) any { return j.NProc }, 4},
		{"underscores", "--nproc_per_node=4", nil, func(j Job) any { return j.NProc }, 4},
		{"short form", "--nproc 4", nil, func(j Job) any { return j.NProc }, 4},
		{"auto", "--nproc auto", nil, func(j Job) any { return j.NProc }, 6},
		{"cpu", "--nproc cpu", nil, func(j Job) any { return j.NProc }, 6},
		{"from the environment", "", map[string]string{"PET_NPROC_PER_NODE": "3"}, func(j Job) any { return j.NProc }, 3},
		{"from the environment, older name", "", map[string]string{"PET_N_PROC_PER_NODE": "3"}, func(j Job) any { return j.NProc }, 3},
		{"both names agree", "", map[string]string{"PET_N_PROC_PER_NODE": "3", "PET_NPROC_PER_NODE": "3"}, func(j Job) any { return j.NProc }, 3},
		{"the command line wins", "--nproc 2", map[string]string{"PET_NPROC_PER_NODE": "3"}, func(j Job) any { return j.NProc }, 2},
		{"an empty variable", "", map[string]string{"PET_NPROC_PER_NODE": "", "PET_STANDALONE": ""}, func(j Job) any { return j.NProc }, 1},
		{"source, flag", "--nproc_per_node 2", nil, func(j Job) any { return j.Sources["nproc"] }, "--nproc"},
		{"source, variable", "", map[string]string{"PET_MASTER_PORT": "7"}, func(j Job) any { return j.Sources["master-port"] }, "PET_MASTER_PORT"},
		{"one node", "--nnodes 1", nil, func(j Job) any { return j.NProc }, 1},
		{"one node as a range", "--nnodes 1:1 --node_rank 0", nil, func(j Job) any { return j.NProc }, 1},
		{"master address", "--master_addr 10.0.0.1 --local-addr 10.0.0.2", nil, func(j Job) any { return j.MasterAddr }, "10.0.0.1"},
		{"local address", "--local-addr 10.0.0.2", nil, func(j Job) any { return j.MasterAddr }, "10.0.0.2"},
		{"master port", "--master-port 29500", nil, func(j Job) any { return j.MasterPort }, 29500},
		{"id", "--rdzv-id my-job", nil, func(j Job) any { return j.RunID }, "my-job"},
		{"the id none is no id", "--rdzv_id none", nil, func(j Job) any { return j.RunID }, ""},
		{"backend", "--rdzv-backend c10d", nil, func(j Job) any { return j.RdzvEndpoint }, ""},
		{"endpoint", "--rdzv-endpoint localhost:29400", nil, func(j Job) any { return j.RdzvEndpoint }, "localhost:29400"},
		{"endpoint without port", "--rdzv-endpoint localhost", nil, func(j Job) any { return j.RdzvEndpoint }, "localhost:0"},
		{"endpoint, IPv6", "--rdzv-endpoint [::1]", nil, func(j Job) any { return j.RdzvEndpoint }, "[::1]:0"},
		{"endpoint without host", "--rdzv-endpoint :29400", nil, func(j Job) any { return j.RdzvEndpoint }, "127.0.0.1:29400"},
		{"standalone over a variable", "--standalone", map[string]string{"PET_RDZV_ENDPOINT": "x:1"}, func(j Job) any { return j.RdzvEndpoint }, ""},
		{"standalone by a variable", "", map[string]string{"PET_STANDALONE": "true", "PET_RDZV_ENDPOINT": "x:1"}, func(j Job) any { return j.RdzvEndpoint }, ""},
		{"not standalone", "", map[string]string{"PET_STANDALONE": "0", "PET_RDZV_ENDPOINT": "x:1"}, func(j Job) any { return j.RdzvEndpoint }, "x:1"},
		{"join timeout", "--rdzv-conf join_timeout=1.5", nil, func(j Job) any { return j.JoinTimeout }, 1500 * time.Millisecond},
		{"restarts", "--max_restarts 3", nil, func(j Job) any { return j.MaxRestarts }, 3},
		{"monitor interval", "--monitor-interval 0.1", nil, func(j Job) any { return j.NProc }, 1},
		{"role", "--role trainer", nil, func(j Job) any { return j.Role }, "trainer"},
		{"shutdown timeout", "--shutdown-timeout 60", nil, func(j Job) any { return j.ShutdownTimeout }, time.Minute},
		{"shutdown timeout by torch's variable", "", map[string]string{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9"}, func(j Job) any { return j.ShutdownTimeout }, 9 * time.Second},
		{"prefix", "--log-line-prefix-template ${hostname}:${rank}/${local_rank}/${role_name}:", nil, func(j Job) any { return j.Prefix(12) }, "node7:12/12/default:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job, err := resolve(strings.Fields(tt.args), tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(job); got != tt.want {
				t.Errorf("got %v, expected %v", got, tt.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		env    map[string]string
		source string
		want   string
	}{
		{"two nodes", "--nnodes 2", nil, "--nnodes", "only one node is supported"},
		{"a range of nodes", "--nnodes 1:4", nil, "--nnodes", "only one node is supported"},
		{"no nodes", "--nnodes 0", nil, "--nnodes", "whole number from 1"},
		{"two nodes by a variable", "", map[string]string{"PET_NNODES": "2"}, "PET_NNODES", "only one node is supported"},
		{"node rank", "--node-rank 1", nil, "--node-rank", "whose rank is 0"},
		{"no workers", "--nproc 0", nil, "--nproc", "from 1 to 1024"},
		{"too many workers", "--nproc 100000", nil, "--nproc", "from 1 to 1024"},
		{"no number", "--nproc many", nil, "--nproc", "whole number"},
		{"gpu", "--nproc gpu", nil, "--nproc", "workers run on CPUs"},
		{"the environment contradicts itself", "", map[string]string{"PET_N_PROC_PER_NODE": "3", "PET_NPROC_PER_NODE": "4"}, "PET_N_PROC_PER_NODE", "PET_NPROC_PER_NODE=4 says otherwise"},
		{"etcd", "--rdzv-backend etcd", nil, "--rdzv-backend", "expected static or c10d"},
		{"endpoint", "--rdzv-endpoint a:b:c", nil, "--rdzv-endpoint", "expected host:port"},
		{"endpoint's port", "--rdzv-endpoint a:70000", nil, "--rdzv-endpoint", "expected host:port"},
		{"standalone and endpoint", "--standalone --rdzv-endpoint a:1", nil, "--rdzv-endpoint", "--standalone chooses"},
		{"standalone", "", map[string]string{"PET_STANDALONE": "maybe"}, "PET_STANDALONE", "0, 1, true or false"},
		{"unknown setting", "--rdzv-conf last_call=3", nil, "--rdzv-conf", `unknown key "last_call"`},
		{"setting without value", "--rdzv-conf timeout", nil, "--rdzv-conf", "not KEY=VALUE"},
		{"setting's value", "--rdzv-conf timeout=soon", nil, "--rdzv-conf", "positive number of seconds"},
		{"master address", "--master-addr a/b", nil, "--master-addr", "host name or an IP"},
		{"empty master address", "--master-addr=", nil, "--master-addr", "host name or an IP"},
		{"master port", "--master-port 65536", nil, "--master-port", "0 to 65535"},
		{"restarts", "--max-restarts -1", nil, "--max-restarts", "whole number"},
		{"monitor interval", "--monitor-interval NaN", nil, "--monitor-interval", "positive number"},
		{"shutdown timeout", "--shutdown-timeout 0", nil, "--shutdown-timeout", "positive number"},
		{"tee without directory", "-t 3", nil, "--tee", "needs --log-dir"},
		{"redirects without directory", "-r 0:1", nil, "--redirects", "needs --log-dir"},
		{"tee", "--tee 4 --log-dir d", nil, "--tee", "0 to 3"},
		{"redirects", "-r 0:1,2 --log-dir d", nil, "--redirects", "RANK:N"},
		{"ranks filter", "--local-ranks-filter 0,x", nil, "--local-ranks-filter", "whole number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := resolve(strings.Fields(tt.args), tt.env)
			var flagErr *Error
			if !errors.As(err, &flagErr) || flagErr.Source != tt.source || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, expected an Error of %s with %q", err, tt.source, tt.want)
			}
		})
	}
}

func TestStreams(t *testing.T) {
	type sk struct{ show, keep launch.Streams }
	all, none := launch.AllStreams, launch.NoStreams
	tests := []struct {
		args string
		want map[int]sk
	}{
		{"-t 3 --log-dir d", map[int]sk{0: {all, all}}},
		{"-r 3 --log-dir d", map[int]sk{0: {none, all}}},
		{"-r 1 -t 2 --log-dir d", map[int]sk{0: {launch.StderrOnly, all}}},
		{"-r 0:1,12:2 --log-dir d", map[int]sk{0: {launch.StderrOnly, launch.StdoutOnly}, 1: {all, none}, 12: {launch.StdoutOnly, launch.StderrOnly}}},
		{"--local-ranks-filter 0,2", map[int]sk{0: {all, none}, 1: {none, none}, 2: {all, none}}},
		{"--local-ranks-filter 1 --log-dir d", map[int]sk{0: {none, all}, 1: {all, all}}},
		{"-t 0", map[int]sk{0: {all, none}}},
	}
	for _, tt := range tests {
		job, err := resolve(strings.Fields(tt.args), nil)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		for rank, want := range tt.want {
			if show, keep := job.Streams(rank); show != want.show || keep != want.keep {
				t.Errorf("%s: rank %d shows %d, keeps %d; expected %d, %d", tt.args, rank, show, keep, want.show, want.keep)
			}
		}
	}
}

func TestApply(t *testing.T) {
	job, err := resolve(strings.Fields("--nproc 3 --rdzv-id j --role r --master-addr h --master-port 5 --max-restarts 2 --log-dir d --shutdown-timeout 7"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := launch.Config{Program: "p", KillAfter: time.Second}
	job.Apply(&c)
	if c.NProc != 3 || c.RunID != "j" || c.Role != "r" || c.MasterAddr != "h" || c.MasterPort != 5 || c.MaxRestarts != 2 ||
		c.LogDir != "d" || c.KillAfter != 7*time.Second || c.InterruptAfter != 7*time.Second || c.Program != "p" {
		t.Errorf("got %+v", c)
	}
}

func TestHostnameUnknown(t *testing.T) {
	fs := pflag.NewFlagSet("launch", pflag.ContinueOnError)
	flags := Bind(fs)
	if err := fs.Parse([]string{"--log-line-prefix-template", "${hostname}: "}); err != nil {
		t.Fatal(err)
	}
	_, err := flags.Resolve(Host{
		Lookup:   func(string) (string, bool) { return "", false },
		Hostname: func() (string, error) { return "", errors.New("no name") },
	})
	if err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("got %v", err)
	}
}

func ExampleBind() {
	fs := pflag.NewFlagSet("launch", pflag.ContinueOnError)
	flags := Bind(fs)
	if err := fs.Parse([]string{"--nproc_per_node", "2", "--master-port", "29500"}); err != nil {
		fmt.Println(err)
		return
	}
	env := map[string]string{"PET_NPROC_PER_NODE": "8", "PET_MAX_RESTARTS": "1"}
	job, err := flags.Resolve(Host{Lookup: func(key string) (string, bool) { v, ok := env[key]; return v, ok }})
	fmt.Println(job.NProc, job.MasterPort, job.MaxRestarts, err)
	// Output: 2 29500 1 <nil>
}

func FuzzResolve(f *testing.F) {
	f.Add("--nproc", "auto")
	f.Add("--rdzv-endpoint", "[::1]:1")
	f.Add("-r", "0:1,2:3")
	f.Add("--rdzv-conf", "timeout=1e300")
	f.Fuzz(func(t *testing.T, flag, text string) {
		job, err := resolve([]string{flag, text}, nil)
		if err == nil && (job.NProc < 1 || job.NProc > launch.MaxNProc || job.JoinTimeout < 0 || job.ShutdownTimeout < 0) {
			t.Errorf("%q %q gives %+v", flag, text, job)
		}
	})
}
