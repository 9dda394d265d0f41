package inspect

// Report is what a checkpoint holds. Its JSON keys are stable.
type Report struct {
	Path    string   `json:"path"`
	Kind    string   `json:"kind"` // "file", "shards" or "checkpoint"
	Notes   []string `json:"notes,omitempty"`
	Files   []File   `json:"files"`
	Tensors []Tensor `json:"tensors"`
	Others  []Other  `json:"others"`
	// DeviceTags are the tags of the storages, by first use; ForeignTags sums up
	// those that are not "cpu" in one line.
	DeviceTags  []string    `json:"device_tags"`
	ForeignTags string      `json:"foreign_tags,omitempty"`
	Optimizers  []Optimizer `json:"optimizers,omitempty"`
	Totals      Totals      `json:"totals"`
}

// File is one file of a checkpoint.
type File struct {
	Name      string            `json:"name"`
	Format    string            `json:"format,omitempty"` // "zip", "legacy", "tar", "safetensors" or "json"
	Bytes     int64             `json:"bytes"`
	ByteOrder string            `json:"byte_order,omitempty"`
	Writer    string            `json:"writer,omitempty"`   // what wrote it, as far as it shows
	Module    string            `json:"module,omitempty"`   // the class of a whole pickled module
	Metadata  map[string]string `json:"metadata,omitempty"` // of safetensors
	Warnings  []string          `json:"warnings,omitempty"`
	Error     string            `json:"error,omitempty"` // why it could not be read
}

// Tensor is one tensor, in the words of torch.
type Tensor struct {
	File   string `json:"file"`
	Key    string `json:"key"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Stride []int  `json:"stride"`
	Offset int    `json:"storage_offset"`
	// Device is the tag it was saved with; "meta" for a shape without elements.
	Device       string `json:"device"`
	RequiresGrad bool   `json:"requires_grad,omitempty"`
	// SHA256 is of the elements as C-contiguous little-endian bytes; "" for meta
	// tensors, and where it was not asked for.
	SHA256 string `json:"sha256,omitempty"`
	// Bytes are those of the elements, StoredBytes those of the whole storage,
	// which other tensors may share.
	Bytes       int64  `json:"bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	Storage     string `json:"storage,omitempty"` // its name in the file
	// TiedTo is an earlier key of exactly the same elements in the same storage;
	// SharesWith one that shares the storage otherwise.
	TiedTo     string `json:"tied_to,omitempty"`
	SharesWith string `json:"shares_with,omitempty"`

	keys []string // the key's parts
	at   int      // its place among all values
	raw  []byte   // of a dtype that is not known here
}

// Other is a value that is no tensor.
type Other struct {
	File  string `json:"file"`
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"` // as Python's repr writes it, shortened
	// Opaque marks an object of a class that is described and never run.
	Opaque bool `json:"opaque,omitempty"`

	keys []string
	at   int
}

// Optimizer sums up a torch optimizer's state_dict.
type Optimizer struct {
	File string `json:"file"`
	Key  string `json:"key,omitempty"` // where in the file it stands; "" at the top
	// Kind is guessed from the state: "Adam or AdamW", "SGD with momentum" …
	Kind    string   `json:"kind"`
	Groups  []Group  `json:"groups"`
	Params  int      `json:"params"` // parameters that have a state
	Moments []string `json:"moments"`
	// Steps are the different step counts, ascending.
	Steps []float64 `json:"steps"`
}

// Group is one param group: its options by name, as Python's repr writes them.
type Group struct {
	Params  int               `json:"params"`
	Options map[string]string `json:"options"`
}

// Totals add up the tensors. Stored bytes count each storage once.
type Totals struct {
	Tensors     int   `json:"tensors"`
	Elements    int64 `json:"elements"`
	Bytes       int64 `json:"bytes"`
	StoredBytes int64 `json:"stored_bytes"`
}

// Damaged reports whether a file could not be read.
func (r *Report) Damaged() bool {
	for _, f := range r.Files {
		if f.Error != "" {
			return true
		}
	}
	return false
}
