package convert

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Format is what to write.
type Format string

// The formats.
const (
	Torch       Format = "torch" // torch.save's zip
	Safetensors Format = "safetensors"
)

// FormatOf tells the format by a file's extension, "" if that says nothing.
func FormatOf(path string) Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors":
		return Safetensors
	case ".pt", ".pth", ".bin", ".ckpt":
		return Torch
	}
	return ""
}

// where a file name tells of the machine that trained: devices, and how many ranks.
var (
	deviceToken   = regexp.MustCompile(`^(cuda|gpu|mps|xpu|npu|rocm|hip|tpu|cpu)[0-9]*$`)
	parallelToken = regexp.MustCompile(`^(dp|ddp|fsdp|tp|rank|world|ws|nproc|n)[0-9]*$`)
)

// SuggestName is a name for the deployment copy of path, beside it: without what
// names the training machine, and with the device it is for.
// model_dp2_cuda.pth becomes model_cpu.safetensors.
func SuggestName(path string, to Format) string {
	path = filepath.Clean(path)
	dir, base := filepath.Split(path)
	stem := strings.TrimSuffix(base, ".index.json")
	if ext := filepath.Ext(stem); FormatOf(stem) != "" || strings.EqualFold(ext, ".tar") {
		stem = strings.TrimSuffix(stem, ext)
	}
	var kept []string
	for token := range strings.FieldsFuncSeq(stem, func(r rune) bool { return r == '_' }) {
		lower := strings.ToLower(token)
		if !deviceToken.MatchString(lower) && !parallelToken.MatchString(lower) {
			kept = append(kept, token)
		}
	}
	if len(kept) == 0 {
		kept = []string{"model"}
	}
	ext := ".safetensors"
	if to == Torch {
		ext = ".pth"
	}
	return filepath.Join(dir, strings.Join(append(kept, "cpu"), "_")+ext)
}
