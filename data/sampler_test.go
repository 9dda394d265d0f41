package data_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rejoin/data"
)

type sampler interface {
	Validate() error
	BatchesPerEpoch() int
	BatchesFrom(consumedRows int) int
	BatchCountsFrom(consumedRows int) []int
	Epoch(epoch int) [][]int
	EpochFrom(epoch, consumedRows int) [][]int
	ValidateFrom(consumedRows int) error
}

func traces(t testing.TB) map[string][][][]int {
	t.Helper()
	raw, err := os.ReadFile("testdata/traces.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][][][]int
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The runs' arguments, as the Trainer was given them.
func TestSamplerReproducesTraces(t *testing.T) {
	accelerate := func(s data.Sampler) func(int) sampler {
		s.EvenBatches = true
		return func(rank int) sampler { s.Rank = rank; return s }
	}
	cases := map[string]func(rank int) sampler{
		"regression-w2":   accelerate(data.Sampler{Rows: 40, BatchSize: 4, WorldSize: 2, Seed: 42}),
		"digits-mlp-w2":   accelerate(data.Sampler{Rows: 300, BatchSize: 8, WorldSize: 2, Seed: 11}),
		"digits-epoch-w2": accelerate(data.Sampler{Rows: 300, BatchSize: 16, WorldSize: 2, DropLast: true}),
		"digits-w1":       accelerate(data.Sampler{Rows: 300, BatchSize: 10, WorldSize: 1, Seed: 8}),
		"gpt2-sums-w2":    accelerate(data.Sampler{Rows: 75, BatchSize: 4, WorldSize: 2, Seed: 42}),
		"raw-ddp-w2": func(rank int) sampler {
			return data.DistributedSampler{Rows: 300, BatchSize: 16, WorldSize: 2, Rank: rank}
		},
	}
	all := traces(t)
	if len(all) != len(cases) {
		t.Fatalf("%d traces, %d cases", len(all), len(cases))
	}
	for name, ranks := range all {
		for rank, want := range ranks {
			s := cases[name](rank)
			if err := s.Validate(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var got [][]int
			for epoch := 0; len(got) < len(want); epoch++ {
				got = append(got, s.Epoch(epoch)...)
			}
			if got = got[:len(want)]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s, rank %d: %v, the Trainer fetched %v", name, rank, got, want)
			}
		}
	}
}

// A line of testdata/samplers.txt.gz.
type samplerCase struct {
	kind, text string
	values     map[string]int
	ranks      []string // LEN/batches
}

func eachSamplerCase(t *testing.T, visit func(c samplerCase)) {
	t.Helper()
	f, err := os.Open("testdata/samplers.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		head, tail, _ := strings.Cut(lines.Text(), " : ")
		words := strings.Fields(head)
		c := samplerCase{kind: words[0], text: head, values: map[string]int{}, ranks: strings.Split(tail, " | ")}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			if c.values[key], err = strconv.Atoi(value); err != nil {
				t.Fatalf("%s: %v", head, err)
			}
		}
		visit(c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func (c samplerCase) on(key string) bool { return c.values[key] == 1 }

func (c samplerCase) sampler(rank int) sampler {
	v := c.values
	if c.kind == "distributed" {
		return data.DistributedSampler{
			Rows: v["rows"], BatchSize: v["batch"], WorldSize: v["world"], Rank: rank,
			DropLast: c.on("drop"), DropLastBatch: c.on("dropbatch"), Sequential: !c.on("shuffle"), Seed: int64(v["seed"]),
		}
	}
	return data.Sampler{
		Rows: v["rows"], BatchSize: v["batch"], WorldSize: v["world"], Rank: rank,
		DropLast: c.on("drop"), EvenBatches: c.on("even"), SplitBatches: c.on("split"), DispatchBatches: c.kind == "dispatch",
		Sequential: !c.on("shuffle"), Seed: int64(v["seed"]),
	}
}

func batchesText(batches [][]int) string {
	words := make([]string, len(batches))
	for i, b := range batches {
		words[i] = strings.ReplaceAll(strings.Trim(fmt.Sprint(b), "[]"), " ", ".")
	}
	return strings.Join(words, " ")
}

func TestSamplersEqualAccelerateAndTorch(t *testing.T) {
	var seen, refused int
	eachSamplerCase(t, func(c samplerCase) {
		seen++
		counts, longest := make([]int, len(c.ranks)), 0
		for rank, want := range c.ranks {
			s := c.sampler(rank)
			length, rows, _ := strings.Cut(want, "/")
			got := s.Epoch(c.values["epoch"])
			if text := batchesText(got); text != rows {
				t.Fatalf("%s, rank %d: %s, expected %s", c.text, rank, text, rows)
			}
			counts[rank] = len(got)
			if n := s.BatchesPerEpoch(); n != len(got) {
				t.Fatalf("%s, rank %d: BatchesPerEpoch is %d, Epoch has %d", c.text, rank, n, len(got))
			}
			// accelerate counts a short split batch for ranks that get none of it.
			longest = max(longest, len(got))
			phantom := c.kind == "accelerate" && c.on("split") && !c.on("even") && c.values["world"] > 1 && len(got) < longest
			if want := strconv.Itoa(len(got)); length != want && !phantom {
				t.Fatalf("%s, rank %d: %s batches, len(dataloader) is %s", c.text, rank, want, length)
			}
		}
		if got := c.sampler(0).BatchCountsFrom(0); !slices.Equal(got, counts) {
			t.Fatalf("%s: BatchCounts %v, expected %v", c.text, got, counts)
		}
		// Valid means: batches, and equally many for all ranks.
		ok := slices.Min(counts) > 0 && slices.Min(counts) == slices.Max(counts)
		if err := c.sampler(0).Validate(); (err == nil) != ok {
			t.Fatalf("%s: Validate says %v, ranks have %v batches", c.text, err, counts)
		} else if err != nil {
			refused++
		}
	})
	if seen != 8310 || refused == 0 || refused == seen {
		t.Errorf("%d cases, %d refused", seen, refused)
	}
}

func TestSamplerValidate(t *testing.T) {
	cases := []struct {
		sampler sampler
		problem string
	}{
		{data.Sampler{BatchSize: 1, WorldSize: 1}, "there are 0 rows"},
		{data.Sampler{Rows: 1, WorldSize: 1}, "batch size is 0"},
		{data.Sampler{Rows: 1, BatchSize: 1}, "world size is 0"},
		{data.Sampler{Rows: 1, BatchSize: 1, WorldSize: 2, Rank: 2}, "rank 2 is not in a world of 2"},
		{data.Sampler{Rows: 1, BatchSize: 1, WorldSize: 2, Rank: -1}, "rank -1"},
		{data.Sampler{Rows: 1, BatchSize: math.MaxInt, WorldSize: 2}, "overflows"},
		{data.Sampler{Rows: 9, BatchSize: 3, WorldSize: 2, SplitBatches: true, EvenBatches: true}, "multiple of the world size"},
		{data.Sampler{Rows: 7, BatchSize: 4, WorldSize: 2, DropLast: true}, "7 rows are fewer than one round of 8 (2 ranks × 4)"},
		{data.Sampler{Rows: 10, BatchSize: 4, WorldSize: 2}, "the last 2 rows make a batch for only 1 of 2 ranks"},
		{data.Sampler{Rows: 10, BatchSize: 4, WorldSize: 2, Join: true, EvenBatches: true}, "set one"},
		{data.Sampler{Rows: 10, BatchSize: 4, WorldSize: 2, Join: true, DispatchBatches: true}, "set one"},
		{data.Sampler{Rows: 3, BatchSize: 4, WorldSize: 4, DispatchBatches: true}, "cannot divide 3 rows among 4 ranks"},
		{data.DistributedSampler{Rows: 9, BatchSize: 4, WorldSize: 4, Join: true, DropLast: true}, "set one"},
		{data.DistributedSampler{Rows: 0, BatchSize: 1, WorldSize: 1}, "there are 0 rows"},
		{data.DistributedSampler{Rows: 3, BatchSize: 1, WorldSize: 4, DropLast: true}, "each of 4 ranks gets 0 of 3 rows"},
		{data.DistributedSampler{Rows: 9, BatchSize: 4, WorldSize: 4, DropLastBatch: true}, "each of 4 ranks gets 3 of 9 rows"},
	}
	for _, c := range cases {
		err := c.sampler.Validate()
		if _, ok := errors.AsType[*data.SamplerError](err); !ok {
			t.Errorf("%+v: %v, expected a SamplerError", c.sampler, err)
		} else if !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%+v: %q does not say %q", c.sampler, err, c.problem)
		}
	}
}

// Together the ranks see every row once, and only the fill twice.
func TestSamplerCoversAllRows(t *testing.T) {
	const rows, world = 1003, 3
	times := make([]int, rows)
	for rank := range world {
		s := data.Sampler{Rows: rows, BatchSize: 5, WorldSize: world, Rank: rank, EvenBatches: true, Seed: 9}
		for _, batch := range s.Epoch(2) {
			for _, row := range batch {
				times[row]++
			}
		}
	}
	if slices.Min(times) != 1 || slices.Max(times) != 2 {
		t.Errorf("rows are seen %d to %d times", slices.Min(times), slices.Max(times))
	}
}

// A caller may append to a batch without writing into the next one.
func TestBatchesDoNotOverlap(t *testing.T) {
	for _, s := range []sampler{
		data.Sampler{Rows: 10, BatchSize: 3, WorldSize: 1},
		data.DistributedSampler{Rows: 10, BatchSize: 3, WorldSize: 1},
	} {
		batches := s.Epoch(0)
		want := batches[1][0]
		_ = append(batches[0], -1)
		if batches[1][0] != want {
			t.Errorf("%T: appending to a batch changed the next", s)
		}
	}
}

func ExampleSampler() {
	for rank := range 2 {
		s := data.Sampler{Rows: 10, BatchSize: 2, WorldSize: 2, Rank: rank, EvenBatches: true, Seed: 42}
		if err := s.Validate(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("rank", rank, "sees", s.Epoch(0))
	}
	// Output:
	// rank 0 sees [[2 6] [4 5] [3 7]]
	// rank 1 sees [[1 8] [0 9] [2 6]]
}

func BenchmarkSamplerEpoch(b *testing.B) {
	s := data.Sampler{Rows: 100_000, BatchSize: 32, WorldSize: 4, EvenBatches: true, Seed: 42}
	for b.Loop() {
		s.Epoch(0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Rows), "ns/row")
}
