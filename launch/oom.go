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
		n, ok := readCount(root, file, "oom_kill ")
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

// readCount reads the number on the line of file that begins with key; with "",
// on its first line.
func readCount(root fs.FS, file, key string) (uint64, bool) {
	f, err := root.Open(file)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // read only
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key); ok {
			value = strings.TrimSpace(strings.TrimSuffix(value, "kB")) // in /proc/meminfo
			n, err := strconv.ParseUint(value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// killedHint explains the end of a worker that got a SIGKILL which the launcher
// did not send: the counts before the job and after its end tell whether the
// kernel killed for want of memory. It ends with what memory there was.
func killedHint(root fs.FS, before, after []oomCounter, e Exit) string {
	cause, wantOfMemory := killer(before, after)
	lines := []string{"the launcher did not send this SIGKILL: " + cause}
	if levels := memoryLevels(root, e.PeakMemory); levels != "" {
		lines = append(lines, "memory: "+levels)
	}
	if wantOfMemory {
		lines = append(lines, "use fewer workers, a smaller batch or more memory")
	}
	return strings.Join(lines, "\n")
}

// killer names who likely sent a SIGKILL.
func killer(before, after []oomCounter) (text string, wantOfMemory bool) {
	if len(after) == 0 {
		return "likely out of memory; the kernel's counters are not readable here, see dmesg", true
	}
	if was, is, risen := risenCounter(before, after); risen {
		return fmt.Sprintf("likely out of memory, for want of which the kernel killed %d process(es) meanwhile (oom_kill %d → %d in %s)",
			is.count-was.count, was.count, is.count, is.file), true
	}
	return fmt.Sprintf("a person or a program did, such as a job manager or systemd-oomd; the kernel killed nothing for want of memory (oom_kill is %d in %s, as before)",
		after[0].count, after[0].file), false
}

// risenCounter finds the narrowest count that has risen.
func risenCounter(before, after []oomCounter) (was, is oomCounter, ok bool) {
	for _, is := range after {
		for _, was := range before {
			if was.file == is.file && is.count > was.count {
				return was, is, true
			}
		}
	}
	return oomCounter{}, oomCounter{}, false
}

// frozenHint tells of memory where a silent worker may only have waited for it:
// where its cgroup was at its limit.
func frozenHint(root fs.FS, e Exit) string {
	if _, full := cgroupMemory(root); !full {
		return ""
	}
	return "it may have waited for memory: " + memoryLevels(root, e.PeakMemory)
}

// memoryLevels says what memory a killed worker had, and what there is; "" if
// nothing is known. peak is [Exit.PeakMemory].
func memoryLevels(root fs.FS, peak int64) string {
	var parts []string
	if peak > 0 {
		parts = append(parts, "this worker held up to "+megabytes(uint64(peak)))
	}
	groups, _ := cgroupMemory(root)
	parts = append(parts, groups...)
	if kb, ok := readCount(root, "proc/meminfo", "MemTotal:"); ok {
		text := "the machine has " + megabytes(kb<<10)
		if free, ok := readCount(root, "proc/meminfo", "MemAvailable:"); ok {
			text += ", of which " + megabytes(free<<10) + " are free now"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// cgroupMemory says for each hierarchy with memory what its limit is, and how
// much was used at most: of the process's own group, or the nearest one above
// that has a limit. full tells that one was all but reached, if only by cached files.
func cgroupMemory(root fs.FS) (parts []string, full bool) {
	const unlimited = 1 << 60 // version 1 says so with a number near 2^63
	for _, files := range cgroupFiles(root) {
		limitFile, peakFile := "memory.max", "memory.peak"
		if path.Base(files[0]) == "memory.oom_control" {
			limitFile, peakFile = "memory.limit_in_bytes", "memory.max_usage_in_bytes"
		}
		dir := path.Dir(files[0])
		if !strings.HasPrefix(dir, "sys/fs/cgroup") { // in a container that sees only its own part
			dir = "sys/fs/cgroup"
		}
		for ; strings.HasPrefix(dir, "sys/fs/cgroup"); dir = path.Dir(dir) {
			limit, ok := readCount(root, path.Join(dir, limitFile), "")
			if !ok || limit >= unlimited {
				continue
			}
			text := "its cgroup's limit is " + megabytes(limit)
			if used, ok := readCount(root, path.Join(dir, peakFile), ""); ok {
				text += ", of which " + megabytes(used) + " were used at most"
				full = full || used >= limit-limit/20
			}
			parts = append(parts, text+" (/"+dir+")")
			break
		}
	}
	return parts, full
}

// megabytes spells a size in 1e6 bytes.
func megabytes(n uint64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
