package hf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// CPUStateSize is the size in bytes of torch's CPU generator state.
const CPUStateSize = 5056

// RandomState is one rank's random state: an rng_state file. Entries that are
// not known here, such as those of GPUs, are kept and written again. It holds
// no view of a file.
type RandomState struct {
	// Python is random.getstate(), a tuple; nil if the file has none.
	Python any
	// Numpy is np.random.get_state(), a tuple; nil if the file has none. Its
	// array remembers which numpy wrote it.
	Numpy any
	// CPU is torch.get_rng_state(): CPUStateSize bytes.
	CPU []byte

	found *pyobj.Dict // as read: the order, and what is not known
}

// NewRandomState is the state of a process that called random.seed(pythonSeed)
// and np.random.seed(numpySeed) and drew nothing, as transformers' set_seed
// leaves it, beside torch's state cpu.
func NewRandomState(cpu []byte, pythonSeed, numpySeed uint32) *RandomState {
	const version = 3
	words := make([]any, 0, mtSize+1)
	for _, w := range initByArray([]uint32{pythonSeed}) {
		words = append(words, int64(w))
	}
	words = append(words, int64(mtSize)) // the position: all words are used up
	array := &pyobj.NDArray{Shape: []int{mtSize}, Dtype: "u4", Module: "numpy._core.multiarray"}
	for _, w := range initGenrand(numpySeed) {
		array.Data = append(array.Data, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return &RandomState{
		Python: &pyobj.Tuple{Items: []any{int64(version), &pyobj.Tuple{Items: words}, nil}},
		Numpy:  &pyobj.Tuple{Items: []any{"MT19937", array, int64(mtSize), int64(0), 0.0}},
		CPU:    slices.Clone(cpu),
	}
}

// WithCPU is r with another torch state; the rest is shared.
func (r *RandomState) WithCPU(cpu []byte) *RandomState {
	changed := *r
	changed.CPU = slices.Clone(cpu)
	return &changed
}

// object is the dict that torch.save is given.
func (r *RandomState) object() *pyobj.Dict {
	cpu := &tensor.Tensor{
		DType: tensor.UInt8, Shape: []int{len(r.CPU)}, Stride: []int{1},
		Storage: &tensor.Storage{Data: r.CPU, Device: "cpu"},
	}
	d := pyobj.NewDict()
	if r.found == nil {
		d.Set("python", r.Python)
		d.Set("numpy", r.Numpy)
		d.Set("cpu", cpu)
		return d
	}
	known := map[any]any{"python": r.Python, "numpy": r.Numpy, "cpu": cpu}
	for _, entry := range r.found.Entries() {
		value := entry.Value
		if key, ok := entry.Key.(string); ok {
			if v, ok := known[key]; ok {
				value = v
			}
		}
		d.Set(entry.Key, value)
	}
	return d
}

// Marshal is the state as the bytes of an rng_state file, to send to another rank.
func (r *RandomState) Marshal() ([]byte, error) {
	if len(r.CPU) != CPUStateSize {
		return nil, fmt.Errorf("random state: torch's part has %d bytes, expected %d", len(r.CPU), CPUStateSize)
	}
	var out bytes.Buffer
	if err := torchfile.Write(&out, "rng_state", r.object()); err != nil {
		return nil, fmt.Errorf("random state: %w", err)
	}
	return out.Bytes(), nil
}

// UnmarshalRandomState reads the bytes of an rng_state file. The result keeps data.
func UnmarshalRandomState(data []byte) (*RandomState, error) {
	return decodeRandomState(data, "random state")
}

func decodeRandomState(data []byte, name string) (*RandomState, error) {
	f, err := torchfile.Read(data, name, torchfile.Options{MapLocation: tensor.CPU})
	if err != nil {
		return nil, err
	}
	d, err := pyobj.AsDict(f.Object())
	if err != nil {
		return nil, err
	}
	r := &RandomState{found: d}
	r.Python, _ = d.Get("python")
	r.Numpy, _ = d.Get("numpy")
	item, ok := d.Get("cpu")
	if !ok {
		return nil, fmt.Errorf("key %q is missing", "cpu")
	}
	t, err := pyobj.AsTensor(item)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", "cpu", err)
	}
	if t.DType != tensor.UInt8 || !t.SameShape([]int{CPUStateSize}) {
		return nil, fmt.Errorf("key %q: expected uint8[%d], found %v", "cpu", CPUStateSize, t)
	}
	raw, err := t.Bytes()
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", "cpu", err)
	}
	r.CPU = slices.Clone(raw)
	return r, nil
}

// RandomState reads the random state that rank had in a run of worldSize
// ranks. If it is not there the error is a *[MissingRandomStateError], a kind
// of [ErrNoRandomState].
func (c *Checkpoint) RandomState(rank, worldSize int) (*RandomState, error) {
	path := c.path(RandomStateFile(rank, worldSize))
	there, err := exists(path)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, &MissingRandomStateError{Path: path, Rank: rank, WorldSize: worldSize, Found: c.randomStates()}
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	info := FileInfo{Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	if err := c.checkContents([]string{filepath.Base(path)}, []FileInfo{info}); err != nil {
		return nil, err
	}
	r, err := decodeRandomState(data, path)
	if err != nil {
		return nil, fileError(path, err)
	}
	return r, nil
}

// randomStates lists the random states that are there, by name.
func (c *Checkpoint) randomStates() []string {
	paths, _ := filepath.Glob(filepath.Join(escapeGlob(c.dir), "rng_state*.pth"))
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
	}
	return names
}
