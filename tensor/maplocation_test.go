package tensor

import (
	"errors"
	"strings"
	"testing"
)

const cudaText = "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. " +
	"If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') " +
	"to map your storages to the CPU."

func unknownLocation(tag string) string {
	return "don't know how to restore data location of torch.storage.UntypedStorage (tagged with " + tag + ")"
}

// What torch 2.14.1 does with each location on a host without accelerators.
var torchRefusals = map[string]string{
	"cpu:0": unknownLocation("cpu:0"), "cpu:1": unknownLocation("cpu:1"), "CPU": unknownLocation("CPU"),
	"": unknownLocation(""), "meta:0": unknownLocation("meta:0"), "xla:0": unknownLocation("xla:0"),
	"npu:0": unknownLocation("npu:0"), "cudafoo": unknownLocation("cudafoo"),
	"cuda": cudaText, "cuda:0": cudaText, "cuda:7": cudaText,
	"xpu":    strings.NewReplacer("CUDA", "XPU", "cuda", "xpu").Replace(strings.SplitAfter(cudaText, "False.")[0]) + strings.SplitAfter(cudaText, "False.")[1],
	"mtia:0": strings.NewReplacer("CUDA", "MTIA", "cuda", "mtia").Replace(strings.SplitAfter(cudaText, "False.")[0]) + strings.SplitAfter(cudaText, "False.")[1],
	"cuda0":  "Invalid device string: 'cuda0'", "cuda:x": "Invalid device string: 'cuda:x'",
	"hpu": "The HPU device module is not registered." + strings.SplitAfter(cudaText, "False.")[1],
	"mps": "torch.UntypedStorage(): Storage device not recognized: mps",
}

func TestTorchRulesRefuseWithTorchsText(t *testing.T) {
	for location, text := range torchRefusals {
		for form, locate := range map[string]MapLocation{
			"string": TorchLocation(location), "saved": func(string) (string, error) { return TorchSaved(location) },
			"dict": TorchDict(map[string]string{"cuda:9": location}),
		} {
			_, err := locate("cuda:9")
			var refused *LocationError
			if !errors.As(err, &refused) || err.Error() != text || refused.Location != location {
				t.Errorf("%s %q: %v\nwant %s", form, location, err, text)
			}
		}
	}
}

func TestLocationsThatLoad(t *testing.T) {
	for _, tc := range []struct {
		name, tag, want string
		locate          MapLocation
	}{
		{"the default takes any tag", "cuda:3", "cpu", CPU},
		{"the default takes a wild tag", "foo:7", "cpu", CPU},
		{"torch: plain cpu", "cuda:3", "cpu", TorchLocation("cpu")},
		{"torch: meta", "cuda:3", "meta", TorchLocation("meta")},
		{"torch: the saved tag", "cpu", "cpu", TorchSaved},
		{"torch: dict", "cuda:1", "cpu", TorchDict(map[string]string{"cuda:1": "cpu"})},
		{"torch: a tag the dict lacks", "cpu", "cpu", TorchDict(map[string]string{"cuda:1": "cuda:0"})},
	} {
		if got, err := tc.locate(tc.tag); got != tc.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}
