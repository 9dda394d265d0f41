package harness

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"rejoin/testdata"
)

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

//go:embed python/*.py
var pythonFiles embed.FS

// Shipped are the scenarios that the program brings along, by name.
func Shipped() ([]*Scenario, error) {
	names, err := fs.Glob(scenarioFiles, "scenarios/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []*Scenario
	for _, name := range names {
		text, err := scenarioFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := Parse(text, path.Base(name))
		if err != nil {
			return nil, err
		}
		if want := s.Name + ".yaml"; path.Base(name) != want {
			return nil, &ScenarioError{path.Base(name), "expected to be called " + want}
		}
		out = append(out, s)
	}
	return out, nil
}

// Load reads a scenario file. Its fixtures may also lie beside it.
func Load(file string) (*Scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := Parse(text, file)
	if err != nil {
		return nil, err
	}
	s.file = file
	return s, nil
}

// Select picks scenarios by name; none means all.
func Select(all []*Scenario, names []string) ([]*Scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []*Scenario
	for _, name := range names {
		i := slices.IndexFunc(all, func(s *Scenario) bool { return s.Name == name })
		if i < 0 {
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// lay puts the scenario's fixtures, and the scripts if it uses Python, into dir.
func (s *Scenario) lay(dir string) error {
	for _, name := range s.Fixtures {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("fixture %q leads out of its directory", name)
		}
		name = filepath.Clean(name)
		err := copyTree(filepath.Join(dir, name), testdata.Fixtures, filepath.ToSlash(name))
		if errors.Is(err, fs.ErrNotExist) && s.file != "" {
			err = copyTree(filepath.Join(dir, name), os.DirFS(filepath.Dir(s.file)), name)
		}
		if err != nil {
			return fmt.Errorf("fixture %s: %w", name, err)
		}
	}
	if len(s.Needs) == 0 {
		return nil
	}
	return copyTree(filepath.Join(dir, scriptsDir), pythonFiles, "python")
}

// scriptsDir is where a scenario finds the harness' Python scripts.
const scriptsDir = "scripts"
