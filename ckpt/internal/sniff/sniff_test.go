package sniff

import (
	"strings"
	"testing"
)

func TestBytes(t *testing.T) {
	tar := make([]byte, 512)
	copy(tar, "storages")
	ustar := make([]byte, 512)
	copy(ustar, "some/file")
	copy(ustar[257:], "ustar")
	tests := []struct {
		name, data string
		kind       Kind
		problem    string
	}{
		{"zip", "PK\x03\x04", TorchZip, ""},
		{"legacy", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", TorchLegacy, ""},
		{"legacy of another protocol", "\x80\x04\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", TorchLegacy, ""},
		{"tar of torch", string(tar), TorchTar, ""},
		{"tar", string(ustar), TorchTar, ""},
		{"safetensors", "\x10\x00\x00\x00\x00\x00\x00\x00{", Safetensors, ""},
		{"empty", "", Empty, "empty"},
		{"zeros", strings.Repeat("\x00", 9), Zeros, "9 bytes, all of them zero"},
		{"LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:00ff\nsize 12\n", LFSPointer, "12 bytes with sha256:00ff"},
		{"LFS without a size", "version https://git-lfs", LFSPointer, "Git-LFS"},
		{"web page", "  \r\n<HTML>", HTML, "web page"},
		{"web page with a mark", "\xef\xbb\xbf<!doctype HTML>", HTML, "web page"},
		{"JSON", "{}", JSON, "JSON"},
		{"gzip", "\x1f\x8b\x08", Compressed, "gzip"},
		{"bzip2", "BZh9", Compressed, "bzip2"},
		{"xz", "\xfd7zXZ\x00", Compressed, "xz"},
		{"zstd", "\x28\xb5\x2f\xfd", Compressed, "zstd"},
		{"pickle", "\x80\x03}.", PlainPickle, "plain Python pickle"},
		{"HDF5", "\x89HDF\r\n\x1a\n", Foreign, "HDF5"},
		{"GGUF", "GGUF\x03", Foreign, "GGUF"},
		{"empty zip", "PK\x05\x06", EmptyZip, "without any record"},
		{"other", "hello", Unknown, "begins with 68 65 6c 6c 6f"},
		{"one byte", "\x80", Unknown, "begins with 80"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Bytes([]byte(tt.data)); got != tt.kind {
				t.Errorf("kind %d, want %d", got, tt.kind)
			}
			problem, next := Problem([]byte(tt.data))
			if !strings.Contains(problem, tt.problem) || (problem == "") != (tt.problem == "") || (next == "") != (tt.problem == "") {
				t.Errorf("problem %q, next %q", problem, next)
			}
		})
	}
}
