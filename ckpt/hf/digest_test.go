package hf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDigest(t *testing.T) {
	dir := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
	c := open(t, dir)
	digest := func() string {
		d, err := c.Digest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := digest()
	if again := digest(); again != before || len(before) != 64 {
		t.Fatalf("digests %s and %s", before, again)
	}
	if err := os.Remove(filepath.Join(dir, "rng_state_1.pth")); err != nil {
		t.Fatal(err)
	}
	writeBytes(t, filepath.Join(dir, "notes.txt"), []byte("x"))
	if digest() != before {
		t.Error("a file that ranks do not share changed the digest")
	}
	for _, name := range []string{SafeWeightsFile, OptimizerFile, SchedulerFile, StateFile, TrainingArgsFile} {
		path := filepath.Join(dir, name)
		data := readBytes(t, path)
		changed := bytes.Clone(data)
		changed[len(changed)/2] ^= 1
		writeBytes(t, path, changed)
		if digest() == before {
			t.Errorf("one bit of %s did not change the digest", name)
		}
		writeBytes(t, path, data)
	}
	if err := os.Remove(filepath.Join(dir, OptimizerFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Digest(t.Context()); err == nil || !strings.Contains(err.Error(), OptimizerFile+" is missing") {
		t.Errorf("Digest without the optimizer: %v", err)
	}
}

func TestDigestOfShards(t *testing.T) {
	dir := copyOf(t, "testdata/regression-w2/checkpoint-2", "checkpoint-2")
	if err := os.Remove(filepath.Join(dir, SafeWeightsFile)); err != nil {
		t.Fatal(err)
	}
	writeShards(t, dir, SafeWeightsIndexFile, true)
	c := open(t, dir)
	before, err := c.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "model-00002-of-00002.safetensors")
	writeBytes(t, shard, append(readBytes(t, shard), 0))
	if after, err := c.Digest(t.Context()); err != nil || after == before {
		t.Errorf("a changed shard: %v", err)
	}
}

func TestVerifyNamesEachBrokenFile(t *testing.T) {
	dir := filepath.Join(saved(t, 4, 1), "checkpoint-4")
	c := open(t, dir)
	flipped := readBytes(t, filepath.Join(dir, OptimizerFile))
	flipped[len(flipped)/2] ^= 1
	writeBytes(t, filepath.Join(dir, OptimizerFile), flipped)
	if err := os.Remove(filepath.Join(dir, "rng_state_1.pth")); err != nil {
		t.Fatal(err)
	}
	err := c.Verify(t.Context())
	if err == nil || !strings.Contains(err.Error(), OptimizerFile+" does not match") || !strings.Contains(err.Error(), "rng_state_1.pth is missing") {
		t.Errorf("Verify = %v", err)
	}
	if err := Complete(dir); err == nil || !strings.Contains(err.Error(), "rng_state_1.pth is missing") {
		t.Errorf("Complete = %v", err)
	}
}
