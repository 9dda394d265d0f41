package torchfile_test

import (
	"bytes"
	"fmt"
	"log"
	"maps"
	"slices"

	"rejoin/ckpt/torchfile"
	"rejoin/pyobj"
	"rejoin/tensor"
)

// Open a checkpoint and list its tensors.
func ExampleOpen() {
	f, err := torchfile.Open("testdata/zoo/state_dict.pt", torchfile.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	state, _ := pyobj.AsDict(f.Object())
	for _, e := range state.Entries() {
		fmt.Println(e.Key, e.Value)
	}
	// Output:
	// 0.weight float32[7 9]
	// 0.bias float32[7]
	// 1.weight float32[7]
	// 1.bias float32[7]
	// 1.running_mean float32[7]
	// 1.running_var float32[7]
	// 1.num_batches_tracked int64[]
	// 2.weight float32[2 7]
	// 2.bias float32[2]
}

// What was saved on a GPU loads on a host without one; the tags are still known.
func ExampleFile_Tags() {
	f, err := torchfile.Open("testdata/zoo/tag_mixed.pt", torchfile.Options{MapLocation: tensor.CPU})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, tag := range slices.Sorted(maps.Keys(f.Tags())) {
		fmt.Println(tag, f.Tags()[tag])
	}
	// Output:
	// cpu 1
	// cuda:0 1
	// cuda:1 1
	// cuda:3 1
}

// Write a state_dict that torch.load reads.
func ExampleWrite() {
	state := &pyobj.Dict{Kind: pyobj.OrderedDict}
	state.Set("fc.weight", tensor.FromFloat32([]float32{1, 2, 3}, 1, 3))
	var file bytes.Buffer
	if err := torchfile.Write(&file, "model", state); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Len(), "bytes")
	// Output: 1563 bytes
}
