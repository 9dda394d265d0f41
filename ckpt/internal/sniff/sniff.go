// Package sniff tells what kind of file some leading bytes begin, by content
// and never by name, with a plain sentence for each kind that is no checkpoint.
package sniff

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
)

// Kind is what a file seems to be.
type Kind uint8

// The kinds told apart. Those after Safetensors are no checkpoints.
const (
	Unknown     Kind = iota
	TorchZip         // a zip archive, as torch.save has written since 1.6
	TorchLegacy      // a run of pickles, as torch.save wrote before
	TorchTar         // a tar archive, as torch.save wrote before 0.1.10
	Safetensors
	Empty
	Zeros
	LFSPointer
	HTML
	JSON
	Compressed
	PlainPickle
	Foreign // another well-known format
	EmptyZip
)

// legacyMagic is the first pickle of a legacy file: LONG1 of the magic number.
// Source: torch.serialization.MAGIC_NUMBER.
var legacyMagic = []byte("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")

const lfsPrefix = "version https://git-lfs"

var foreign = []struct{ prefix, name string }{
	{"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras or another library)"},
	{"GGUF", "a GGUF file (llama.cpp)"},
	{"\x93NUMPY", "a numpy .npy file"},
	{"\x7fELF", "an ELF program or library"},
	{"%PDF-", "a PDF document"},
	{"\x89PNG", "a PNG image"},
}

var compressed = []struct{ prefix, name string }{
	{"\x1f\x8b", "gzip"}, {"BZh", "bzip2"}, {"\xfd7zXZ\x00", "xz"}, {"\x28\xb5\x2f\xfd", "zstd"},
}

// Bytes decides by the whole content of a file, of which it looks at the
// beginning; it reads everything only while all of it is zeros.
func Bytes(data []byte) Kind {
	switch {
	case len(data) == 0:
		return Empty
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return TorchZip
	case bytes.HasPrefix(data, []byte("PK\x05\x06")):
		return EmptyZip
	case isLegacy(data):
		return TorchLegacy
	case isTar(data):
		return TorchTar
	case bytes.HasPrefix(data, []byte(lfsPrefix)):
		return LFSPointer
	case isSafetensors(data):
		return Safetensors
	case compressedName(data) != "":
		return Compressed
	case data[0] == 0x80 && len(data) > 1 && data[1] <= 5:
		return PlainPickle
	case foreignName(data) != "":
		return Foreign
	case allZero(data):
		return Zeros
	}
	return text(data)
}

func isLegacy(data []byte) bool {
	return len(data) > 2 && data[0] == 0x80 && bytes.HasPrefix(data[2:], legacyMagic)
}

// isTar looks for a tar header whose first member is one of torch's three, or
// for the ustar mark.
func isTar(data []byte) bool {
	if len(data) < 512 {
		return false
	}
	name, _, _ := bytes.Cut(data[:100], []byte{0})
	switch string(name) {
	case "storages", "tensors", "pickle":
		return true
	}
	return bytes.Equal(data[257:262], []byte("ustar"))
}

func isSafetensors(data []byte) bool {
	if len(data) < 9 || data[8] != '{' {
		return false
	}
	return binary.LittleEndian.Uint64(data) < 1<<40
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

func text(data []byte) Kind {
	head := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 512)], " \t\r\n\xef\xbb\xbf"))
	for _, tag := range []string{"<!doctype html", "<html", "<head", "<?xml"} {
		if bytes.HasPrefix(head, []byte(tag)) {
			return HTML
		}
	}
	if bytes.HasPrefix(head, []byte("{")) || bytes.HasPrefix(head, []byte("[")) {
		return JSON
	}
	return Unknown
}

func compressedName(data []byte) string {
	for _, c := range compressed {
		if bytes.HasPrefix(data, []byte(c.prefix)) {
			return c.name
		}
	}
	return ""
}

func foreignName(data []byte) string {
	for _, f := range foreign {
		if bytes.HasPrefix(data, []byte(f.prefix)) {
			return f.name
		}
	}
	return ""
}

// Problem says in plain words what the file is instead of a checkpoint, and
// what to do next. Both are empty for a kind that is one.
func Problem(data []byte) (problem, next string) {
	const again = "download or copy it again"
	switch Bytes(data) {
	case Empty:
		return "the file is empty (0 bytes)", "it was never written to the end: use another checkpoint"
	case Zeros:
		return fmt.Sprintf("the file holds %d bytes, all of them zero", len(data)),
			"it was reserved but never written, as after a crash or a full disk: use another checkpoint"
	case LFSPointer:
		return lfs(data), "fetch the real file with: git lfs pull"
	case HTML:
		return "the file is a web page (HTML), not a checkpoint", "the download failed: " + again
	case JSON:
		return "the file is JSON text, not a checkpoint", "name the weights file beside it"
	case Compressed:
		return fmt.Sprintf("the file is compressed with %s", compressedName(data)), "decompress it first"
	case PlainPickle:
		return "the file is a plain Python pickle, not written by torch.save", "write it again with torch.save"
	case Foreign:
		return fmt.Sprintf("the file is %s", foreignName(data)), "name a file that torch.save or safetensors wrote"
	case EmptyZip:
		return "the file is a zip archive without any record", "use another checkpoint"
	case Unknown:
		return fmt.Sprintf("the file begins with % x, which no checkpoint format does", data[:min(len(data), 8)]),
			"name a file that torch.save or safetensors wrote"
	case TorchZip, TorchLegacy, TorchTar, Safetensors:
	}
	return "", ""
}

var (
	lfsSize = regexp.MustCompile(`(?m)^size ([0-9]+)$`)
	lfsHash = regexp.MustCompile(`(?m)^oid ([a-z0-9]+:[0-9a-f]+)$`)
)

// lfs describes a Git-LFS pointer: the real file's size and hash.
func lfs(data []byte) string {
	head := data[:min(len(data), 1024)]
	msg := "the file is a Git-LFS pointer, a stub that stands for the real file"
	if m := lfsSize.FindSubmatch(head); m != nil {
		msg += fmt.Sprintf(" of %s bytes", m[1])
	}
	if m := lfsHash.FindSubmatch(head); m != nil {
		msg += fmt.Sprintf(" with %s", m[1])
	}
	return msg
}
