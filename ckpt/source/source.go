package source

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"rejoin/ckpt"
	"rejoin/ckpt/hf"
	"rejoin/ckpt/hf/pyjson"
	"rejoin/ckpt/tree"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Kind is what a path turned out to be.
type Kind string

// The kinds.
const (
	File      Kind = "file"
	Shards    Kind = "shards"     // an index and its shards
	Directory Kind = "checkpoint" // a checkpoint directory
)

// Role is what a part is in a checkpoint.
type Role uint8

// The roles.
const (
	Other Role = iota // one file by itself, of any content
	Weights
	Optimizer
	Schedule
	RandomState
	Arguments
	Text // JSON that describes the run or the model
)

// Part is one file.
type Part struct {
	Name string // the file's base name
	Path string
	Role Role
	// Checkpoint is the open file; nil for JSON, and where Err is set.
	Checkpoint *ckpt.Checkpoint
	// Leaves are all its values; of a whole pickled module, its state dict.
	Leaves []tree.Leaf
	// Module is the class of a whole pickled module; "" for anything else.
	Module string
	Err    error
}

// Source is what was opened. Its tensors are valid until Close.
type Source struct {
	Path  string // as given, or the checkpoint chosen from a directory of them
	Kind  Kind
	Parts []*Part
	// Notes say what was decided, such as which checkpoint was taken.
	Notes []string

	index     map[string]string // of shards
	indexFile string
}

// Open opens path. An error of one part of several is the part's; an error of
// the only one is Open's.
func Open(path string, o ckpt.Options) (*Source, error) {
	o.Describe = true
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; check the path", path)
	case err != nil:
		return nil, err
	case info.IsDir():
		return openDirectory(path, o)
	case strings.HasSuffix(path, ".index.json"):
		return openShards(path, o)
	}
	p := openPart(path, Other, o)
	if p.Err != nil {
		return nil, p.Err
	}
	return &Source{Path: path, Kind: File, Parts: []*Part{p}}, nil
}

// Close closes all files.
func (s *Source) Close() error {
	var errs []error
	for _, p := range s.Parts {
		if p.Checkpoint != nil {
			errs = append(errs, p.Checkpoint.Close())
		}
	}
	return errors.Join(errs...)
}

// openPart opens one file and lists its leaves.
func openPart(path string, role Role, o ckpt.Options) *Part {
	p := &Part{Name: filepath.Base(path), Path: path, Role: role}
	if role == Text {
		p.Leaves, p.Err = readJSON(path)
		return p
	}
	if p.Checkpoint, p.Err = ckpt.Open(path, o); p.Err != nil {
		p.Checkpoint = nil
		return p
	}
	p.Leaves, p.Err = p.list()
	if p.Err != nil {
		p.Err = fmt.Errorf("%s: %w", path, p.Err)
	}
	return p
}

func (p *Part) list() ([]tree.Leaf, error) {
	object := p.Checkpoint.Object()
	if o, ok := object.(*pyobj.Object); ok {
		if _, isModule := o.Attr("_parameters"); isModule {
			p.Module = o.Class.String()
		}
	}
	if p.Checkpoint.Safetensors() == nil && p.Module == "" {
		return tree.Walk(object)
	}
	sd, _, err := p.Checkpoint.StateDict()
	if err != nil {
		return nil, err
	}
	var leaves []tree.Leaf
	for _, name := range sd.Names() {
		t, _ := sd.Get(name)
		leaves = append(leaves, tree.Leaf{Keys: []string{name}, Value: t})
	}
	if safe := p.Checkpoint.Safetensors(); safe != nil {
		for _, e := range safe.Unsupported() {
			raw := &RawTensor{DType: e.DType, Shape: e.Shape, Data: safe.Raw(e)}
			leaves = append(leaves, tree.Leaf{Keys: []string{e.Name}, Value: raw})
		}
	}
	return leaves, nil
}

// RawTensor is a safetensors tensor of a dtype that package tensor lacks: its
// bytes can be hashed and compared, its elements not read.
type RawTensor struct {
	DType string // the format's name, such as "F4"
	Shape []int
	Data  []byte
}

func (r *RawTensor) String() string { return fmt.Sprintf("%s%v", r.DType, r.Shape) }

// maxJSON bounds a JSON file that is read whole, in bytes.
const maxJSON = 256 << 20

func readJSON(path string) ([]tree.Leaf, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxJSON) {
		err = fmt.Errorf("%s is no JSON file of at most %d bytes", path, maxJSON)
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := pyjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tree.Walk(v)
}

// Model is the model's state dict: of a file, wherever in it it stands; of
// shards or a directory, of all weights. wrapper is the key it was found under,
// and ties are the names that files left out as tied (see
// [rejoin/ckpt/names.RecordedTies]).
func (s *Source) Model() (sd *tensor.StateDict, wrapper string, err error) {
	if s.Kind == File {
		return s.Parts[0].Checkpoint.StateDict()
	}
	sd = tensor.NewStateDict()
	for _, p := range s.Parts {
		if p.Role != Weights {
			continue
		}
		if p.Err != nil {
			return nil, "", p.Err
		}
		part, _, err := p.Checkpoint.StateDict()
		if err != nil {
			return nil, "", err
		}
		for _, name := range part.Names() {
			t, _ := part.Get(name)
			sd.Set(name, t)
		}
	}
	if sd.Len() == 0 {
		return nil, "", &hf.FileError{Path: filepath.Join(s.Path, hf.SafeWeightsFile), Problem: hf.Missing, Next: "name the file that holds the model's weights"}
	}
	return sd, "", s.checkIndex()
}

// Metadata is the metadata of all safetensors files of weights.
func (s *Source) Metadata() map[string]string {
	all := map[string]string{}
	for _, p := range s.Parts {
		if p.Checkpoint == nil || s.Kind != File && p.Role != Weights {
			continue
		}
		maps.Copy(all, p.Checkpoint.Metadata())
	}
	return all
}

// Tags counts the storages of all files by the device they were saved on.
func (s *Source) Tags() map[string]int {
	all := map[string]int{}
	for _, p := range s.Parts {
		if p.Checkpoint == nil {
			continue
		}
		for tag, n := range p.Checkpoint.Tags() {
			all[tag] += n
		}
	}
	return all
}
