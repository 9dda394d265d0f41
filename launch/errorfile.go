package launch

import (
	"encoding/json"
	"io"
	"os"
	"strings"
)

// maxErrorFile bounds what is read of a worker's error file.
const maxErrorFile = 1 << 20

// errorMessage reads what a worker wrote to TORCHELASTIC_ERROR_FILE in either of
// torch's forms, {"message": {"message": …}} or {"message": "…"}
// (torch.distributed.elastic.multiprocessing.errors). Anything else gives "".
func errorMessage(path string) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxErrorFile))
	if err != nil {
		return ""
	}
	return parseErrorFile(data)
}

func parseErrorFile(data []byte) string {
	var outer struct {
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(data, &outer) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(outer.Message, &text) == nil {
		return strings.TrimSpace(text)
	}
	var inner struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(outer.Message, &inner) != nil {
		return ""
	}
	return strings.TrimSpace(inner.Message)
}
