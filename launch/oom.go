package launch

import (
	"bufio"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// oomCounter is one of the kernel's counts of processes killed for want of memory.
type oomCounter struct {
	file  string
	count uint64
}

// oomCounters reads the counts that cover this process, the narrowest first:
// its cgroup's (memory.events of version 2, memory.oom_control of version 1)
// and the machine's (/proc/vmstat). root is the file system's root. What cannot
// be read is left out.
func oomCounters(root fs.FS) []oomCounter {
	var counters []oomCounter
	add := func(file string) bool {
		n, ok := readCount(root, file, "oom_kill")
		if ok {
			counters = append(counters, oomCounter{"/" + file, n})
		}
		return ok
	}
	for _, files := range cgroupFiles(root) {
		for _, file := range files {
			if add(file) {
				break
			}
		}
	}
	add("proc/vmstat")
	return counters
}

// cgroupFiles gives, for each hierarchy with memory, the files that may hold the
// count: at the process's path, then, in a container that sees only its own
// part, at the mount's root.
func cgroupFiles(root fs.FS) [][]string {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var all [][]string
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[1] == "":
			all = append(all, []string{
				path.Join("sys/fs/cgroup", parts[2], "memory.events"), "sys/fs/cgroup/memory.events",
				path.Join("sys/fs/cgroup/unified", parts[2], "memory.events"),
			})
		case parts[1] == "memory":
			all = append(all, []string{
				path.Join("sys/fs/cgroup/memory", parts[2], "memory.oom_control"), "sys/fs/cgroup/memory/memory.oom_control",
			})
		}
	}
	return all
}

func readCount(root fs.FS, file, key string) (uint64, bool) {
	f, err := root.Open(file)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // read only
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key+" "); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// oomHint explains a SIGKILL that the launcher did not send, from the counts
// before the job and after its end.
func oomHint(before, after []oomCounter) string {
	if len(after) == 0 {
		return "someone sent SIGKILL: likely the kernel, out of memory (its counters are not readable here; see dmesg)"
	}
	for _, now := range after {
		for _, then := range before {
			if then.file == now.file && now.count > then.count {
				return fmt.Sprintf("likely out of memory: the kernel killed %d process(es) for it meanwhile (oom_kill in %s); use fewer workers, a smaller batch or more memory",
					now.count-then.count, now.file)
			}
		}
	}
	return "someone sent it SIGKILL; it was not the kernel for want of memory"
}
