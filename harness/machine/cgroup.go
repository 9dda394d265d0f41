package machine

import (
	"path"
	"strconv"
	"strings"
)

// cgroups reads the limits of this process' control groups, of version 2 and 1.
type cgroups struct {
	read  func(path string) string // "" if it cannot be read
	lines string                   // of /proc/self/cgroup
}

// files gives what a controller says under name, the process' own group first,
// then its parents' and the root's: the tightest limit counts.
func (g cgroups) files(controller, name2, name1 string) []string {
	var out []string
	for line := range strings.Lines(g.lines) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, name := "sys/fs/cgroup", name2
		if parts[0] != "0" || parts[1] != "" {
			if !hasController(parts[1], controller) {
				continue
			}
			base, name = path.Join("sys/fs/cgroup", controller), name1
		}
		for dir := path.Join("/", parts[2]); ; dir = path.Dir(dir) {
			if text := strings.TrimSpace(g.read(path.Join(base, dir, name))); text != "" {
				out = append(out, text)
			}
			if dir == "/" {
				break
			}
		}
	}
	return out
}

func hasController(list, controller string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == controller {
			return true
		}
	}
	return false
}

// cores is the tightest CPU quota, in cores; 0: none.
func (g cgroups) cores() float64 {
	least := 0.0
	take := func(quota, period string) {
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 && (least == 0 || q/p < least) {
			least = q / p
		}
	}
	quotas := g.files("cpu", "cpu.max", "cpu.cfs_quota_us")
	periods := g.files("cpu", "", "cpu.cfs_period_us")
	for i, text := range quotas {
		if quota, period, ok := strings.Cut(text, " "); ok {
			take(quota, period)
		} else if i < len(periods) {
			take(text, periods[i])
		}
	}
	return least
}

// memoryLimit is the tightest memory limit in bytes; 0: none.
func (g cgroups) memoryLimit() uint64 {
	least := uint64(0)
	for _, text := range g.files("memory", "memory.max", "memory.limit_in_bytes") {
		n, err := strconv.ParseUint(text, 10, 64)
		if err == nil && n < 1<<60 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
