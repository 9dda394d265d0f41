package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// need is one thing that a scenario asks of the machine.
type need struct {
	module  string
	op      string // "", "<=", ">=" or "=="
	version string
}

var needRule = regexp.MustCompile(`^(torch|transformers|accelerate)(?:(<=|>=|==)([0-9.]+))?$`)

func parseNeed(text string) (need, error) {
	m := needRule.FindStringSubmatch(text)
	if m == nil {
		return need{}, fmt.Errorf("needs: found %q, expected torch, transformers or accelerate, as in transformers<=5.17.0", text)
	}
	return need{m[1], m[2], m[3]}, nil
}

// unmet says why the need is not met; "" if it is.
func (n need) unmet(p *Python) string {
	m, ok := p.Modules[n.module]
	switch {
	case p.Path == "":
		return fmt.Sprintf("no Python: %s (set REJOIN_PYTHON to an interpreter that has %s)", p.Problem, n.module)
	case !ok || m.Error != "":
		return fmt.Sprintf("%s cannot import %s: %s (set REJOIN_PYTHON to an interpreter that has it)", p.Path, n.module, m.Error)
	case n.op == "":
		return ""
	}
	c := compareVersions(m.Version, n.version)
	if n.op == "<=" && c <= 0 || n.op == ">=" && c >= 0 || n.op == "==" && c == 0 {
		return ""
	}
	return fmt.Sprintf("needs %s%s%s, found %s", n.module, n.op, n.version, m.Version)
}

// compareVersions compares the numbers of two versions; what follows a "+" or a
// letter is left out.
func compareVersions(a, b string) int {
	x, y := versionNumbers(a), versionNumbers(b)
	for i := range max(len(x), len(y)) {
		var p, q int
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return p - q
		}
	}
	return 0
}

func versionNumbers(v string) []int {
	var out []int
	for part := range strings.SplitSeq(v, ".") {
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(part)
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		out = append(out, n)
		if end < len(part) {
			break
		}
	}
	return out
}

// Python is an interpreter and what it can import.
type Python struct {
	Path    string            `json:"path,omitempty"`
	Version string            `json:"version,omitempty"`
	Problem string            `json:"problem,omitempty"`
	Modules map[string]Module `json:"modules,omitempty"`
}

// Module is a Python module that could be imported, or why not.
type Module struct {
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

const pythonProbe = `
import json, platform, sys
found = {}
for name in ("torch", "transformers", "accelerate", "safetensors", "numpy"):
    try:
        found[name] = {"version": str(__import__(name).__version__)}
    except BaseException as e:
        found[name] = {"error": type(e).__name__ + ": " + str(e).splitlines()[0] if str(e) else type(e).__name__}
sys.__stdout__.write("\nPROBE" + json.dumps({"version": platform.python_version(), "modules": found}) + "\n")
`

// probeTimeout bounds the imports; torch and transformers take seconds.
const probeTimeout = 2 * time.Minute

// FindPython looks for REJOIN_PYTHON, or python3, and what it can import.
func FindPython(ctx context.Context) *Python {
	name := os.Getenv("REJOIN_PYTHON")
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return &Python{Problem: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", pythonProbe)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	_, text, ok := strings.Cut(string(out), "\nPROBE")
	p := &Python{Path: path}
	if !ok {
		if err == nil {
			err = errors.New("it printed nothing")
		}
		return &Python{Problem: fmt.Sprintf("%s does not run: %v", path, err)}
	}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return &Python{Problem: fmt.Sprintf("%s: %v", path, err)}
	}
	return p
}
