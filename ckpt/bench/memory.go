package bench

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// memory is what a process held before an operation.
type memory struct {
	known         bool
	own, resident int64
}

// startMemory gives back what is free, and forgets the highest level so far.
func startMemory() memory {
	debug.FreeOSMemory()
	reset := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) // see proc(5): resets VmHWM
	s, ok := status()
	return memory{ok && reset == nil, s["RssAnon"], s["VmRSS"]}
}

// grown is by how much memory has grown since: its own now, and the highest
// resident level meanwhile. Both are nil where the system does not tell.
func (m memory) grown() (own, resident *int64) {
	s, ok := status()
	if !ok || !m.known {
		return nil, nil
	}
	a, r := max(s["RssAnon"]-m.own, 0), max(s["VmHWM"]-m.resident, 0)
	return &a, &r
}

// status reads Linux' levels of memory, in bytes.
func status() (map[string]int64, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, false
	}
	levels := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && unit == "kB" {
			levels[name] = n << 10
		}
	}
	_, ok := levels["RssAnon"]
	return levels, ok
}
