package machine

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rejoin/harness"
)

// Description is a machine. Sizes are in bytes; 0 is unknown.
type Description struct {
	Rejoin   string `json:"rejoin"` // set by the caller, as are BLAS and Kernel
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	System   string `json:"system,omitempty"` // the distribution
	Release  string `json:"release,omitempty"`

	CPU      string   `json:"cpu,omitempty"`
	Features []string `json:"cpu_features,omitempty"` // those that kernels and BLAS libraries look for
	BLAS     string   `json:"blas"`
	Kernel   string   `json:"kernel"`
	// Cores are what this process may run on by affinity; CgroupCores, what its
	// cgroup's quota comes to, 0 without one.
	Cores       int     `json:"cores"`
	CgroupCores float64 `json:"cgroup_cores,omitempty"`

	Memory      uint64 `json:"memory,omitempty"`
	Available   uint64 `json:"memory_available,omitempty"`
	CgroupLimit uint64 `json:"cgroup_memory_limit,omitempty"`
	SharedSize  uint64 `json:"dev_shm,omitempty"`
	SharedFree  uint64 `json:"dev_shm_free,omitempty"`
	OpenFiles   uint64 `json:"open_file_limit,omitempty"`

	Host       string      `json:"host,omitempty"`
	Interfaces []Interface `json:"interfaces"`

	Python      *harness.Python   `json:"python"`
	Environment map[string]string `json:"environment,omitempty"` // variables that change how training goes

	Problems []string `json:"problems"` // a sentence each, with what to do
}

// Interface is a network interface that is up.
type Interface struct {
	Name      string   `json:"name"`
	MTU       int      `json:"mtu"`
	Addresses []string `json:"addresses"`
}

// lookupTimeout bounds the questions to the resolver.
const lookupTimeout = 3 * time.Second

// Describe describes this machine.
func Describe(ctx context.Context) *Description {
	d := &Description{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Problems: []string{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				d.Revision = s.Value
			}
		}
	}
	d.readFiles(os.DirFS("/"))
	d.limits()
	d.interfaces()
	d.environment(os.Environ())
	d.Host, _ = os.Hostname()
	d.Python = harness.FindPython(ctx)
	names, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	d.findProblems(resolver{
		host:  func(name string) ([]string, error) { return net.DefaultResolver.LookupHost(names, name) },
		local: localAddresses,
	})
	return d
}

// readFiles reads what Linux tells in files; root is "/".
func (d *Description) readFiles(root fs.FS) {
	read := func(path string) string {
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return ""
		}
		return string(text)
	}
	d.System = strings.Trim(field(read("etc/os-release"), "PRETTY_NAME", "="), `"`)
	d.Release = strings.TrimSpace(read("proc/sys/kernel/osrelease"))
	cpu := read("proc/cpuinfo")
	d.CPU = field(cpu, "model name", ":")
	flags := strings.Fields(field(cpu, "flags", ":") + " " + field(cpu, "Features", ":"))
	for _, f := range interesting {
		if slices.Contains(flags, f) {
			d.Features = append(d.Features, f)
		}
	}
	memory := read("proc/meminfo")
	d.Memory, d.Available = kilobytes(field(memory, "MemTotal", ":")), kilobytes(field(memory, "MemAvailable", ":"))
	g := cgroups{read: read, lines: read("proc/self/cgroup")}
	d.CgroupCores, d.CgroupLimit = g.cores(), g.memoryLimit()
	if d.CgroupLimit >= d.Memory && d.Memory > 0 {
		d.CgroupLimit = 0 // no limit at all
	}
}

// interesting are the CPU features that decide which kernels are used.
var interesting = []string{"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "asimdhp", "sve", "bf16", "i8mm"}

// field finds "name<separator>value" in lines.
func field(text, name, separator string) string {
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		key, value, ok := strings.Cut(in.Text(), separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kilobytes(text string) uint64 {
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 54)
	if err != nil {
		return 0
	}
	return n << 10
}

func (d *Description) limits() {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		d.OpenFiles = files.Cur
	}
	var disk unix.Statfs_t
	if unix.Statfs("/dev/shm", &disk) == nil {
		d.SharedSize, d.SharedFree = disk.Blocks*uint64(disk.Bsize), disk.Bavail*uint64(disk.Bsize)
	}
}

func (d *Description) interfaces() {
	all, err := net.Interfaces()
	if err != nil {
		d.Problems = append(d.Problems, "the network interfaces cannot be listed: "+err.Error())
		return
	}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		found := Interface{Name: i.Name, MTU: i.MTU, Addresses: []string{}}
		if addresses, err := i.Addrs(); err == nil {
			for _, a := range addresses {
				found.Addresses = append(found.Addresses, a.String())
			}
		}
		d.Interfaces = append(d.Interfaces, found)
	}
}

// prefixes of environment variables that change how training goes.
var prefixes = []string{"OMP_", "MKL_", "OPENBLAS_", "GOMAXPROCS", "GOMEMLIMIT", "GODEBUG", "REJOIN_", "PET_", "GLOO_", "NCCL_", "TORCH", "MASTER_", "WORLD_SIZE", "RANK", "LOCAL_RANK", "KMP_", "ATEN_"}

func (d *Description) environment(env []string) {
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			if d.Environment == nil {
				d.Environment = map[string]string{}
			}
			d.Environment[key] = value
		}
	}
}

// String is the description as text to paste.
func (d *Description) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(&b, "%-13s %s\n", name, text)
		}
	}
	line("rejoin", "%s %.12s", d.Rejoin, d.Revision)
	line("built with", "%s for %s", d.Go, d.Platform)
	line("system", "%s %s", d.System, d.Release)
	line("cpu", "%s", d.CPU)
	line("cpu features", "%s", strings.Join(d.Features, " "))
	line("blas", "%s", d.BLAS)
	line("kernels", "%s", d.Kernel)
	cores := fmt.Sprintf("%d by affinity", d.Cores)
	if d.CgroupCores > 0 {
		cores += fmt.Sprintf(", %.4g by the cgroup's quota", d.CgroupCores)
	}
	line("cores", "%s", cores)
	memory := size(d.Memory) + ", " + size(d.Available) + " available"
	if d.CgroupLimit > 0 {
		memory += ", the cgroup's limit is " + size(d.CgroupLimit)
	}
	line("memory", "%s", memory)
	if d.SharedSize > 0 {
		line("/dev/shm", "%s, %s free", size(d.SharedSize), size(d.SharedFree))
	}
	line("open files", "%d", d.OpenFiles)
	line("host", "%s", d.Host)
	for _, i := range d.Interfaces {
		line("interface", "%s, MTU %d: %s", i.Name, i.MTU, strings.Join(i.Addresses, " "))
	}
	d.python(line)
	for _, key := range slices.Sorted(mapKeys(d.Environment)) {
		line("environment", "%s=%s", key, d.Environment[key])
	}
	if len(d.Problems) == 0 {
		line("problems", "none seen")
	}
	for _, p := range d.Problems {
		line("problem", "%s", p)
	}
	return b.String()
}

func (d *Description) python(line func(string, string, ...any)) {
	if d.Python == nil || d.Python.Path == "" {
		if d.Python != nil {
			line("python", "none: %s", d.Python.Problem)
		}
		return
	}
	line("python", "%s (%s)", d.Python.Version, d.Python.Path)
	for _, name := range []string{"torch", "transformers", "accelerate", "safetensors", "numpy"} {
		m := d.Python.Modules[name]
		if m.Error != "" {
			m.Version = "not there: " + m.Error
		}
		line(name, "%s", m.Version)
	}
}

func mapKeys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func size(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
