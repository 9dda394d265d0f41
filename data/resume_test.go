package data_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"rejoin/data"
)

// kinds makes every kind of sampler for a rank, by what it does with a last round.
var kinds = map[string]func(rows, batch, world, rank int) sampler{
	"pad": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, EvenBatches: true, Seed: 5}
	},
	"drop": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, DropLast: true, EvenBatches: true, Seed: 5}
	},
	"short": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, Seed: 5}
	},
	"join": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, Join: true, Seed: 5}
	},
	"dispatch": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, DispatchBatches: true, EvenBatches: true, Seed: 5}
	},
	"split": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch * world, WorldSize: world, Rank: rank, SplitBatches: true, EvenBatches: true, Seed: 5}
	},
	"sequential": func(rows, batch, world, rank int) sampler {
		return data.Sampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, EvenBatches: true, Sequential: true}
	},
	"distributed": func(rows, batch, world, rank int) sampler {
		return data.DistributedSampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, Seed: 5}
	},
	"distributed drop": func(rows, batch, world, rank int) sampler {
		return data.DistributedSampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, DropLast: true, DropLastBatch: true, Seed: 5}
	},
	"distributed join": func(rows, batch, world, rank int) sampler {
		return data.DistributedSampler{Rows: rows, BatchSize: batch, WorldSize: world, Rank: rank, Join: true, Seed: 5}
	},
}

// eachSmall visits all small numbers of rows, batch sizes and worlds.
func eachSmall(visit func(rows, batch, world int)) {
	for rows := 1; rows <= 24; rows++ {
		for batch := 1; batch <= 4; batch++ {
			for world := 1; world <= 4; world++ {
				visit(rows, batch, world)
			}
		}
	}
}

// After whole rounds an epoch goes on as if it had not been left.
func TestEpochFromIsTheTail(t *testing.T) {
	for name, kind := range kinds {
		eachSmall(func(rows, batch, world int) {
			for rank := range world {
				s := kind(rows, batch, world, rank)
				if s.Validate() != nil {
					continue
				}
				whole := s.Epoch(1)
				for k := range len(whole) {
					consumed := k * batch * world
					if consumed > rows {
						break
					}
					got := s.EpochFrom(1, consumed)
					if want := whole[k:]; !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
						t.Fatalf("%s, %d rows, batch %d, rank %d of %d, from %d: %v, expected %v", name, rows, batch, rank, world, consumed, got, want)
					}
				}
				if got := s.EpochFrom(1, rows); len(got) != 0 || s.BatchesFrom(rows) != 0 {
					t.Fatalf("%s: an epoch that is over gives %v", name, got)
				}
			}
		})
	}
}

// From any row on, all ranks have as many batches as they say, and as BatchCounts
// and ValidateFrom say.
func TestBatchesFromIsTheLength(t *testing.T) {
	for name, kind := range kinds {
		eachSmall(func(rows, batch, world int) {
			if rows > 13 {
				return
			}
			for consumed := 0; consumed <= rows+1; consumed++ {
				var counts, filled []int
				for rank := range world {
					s := kind(rows, batch, world, rank)
					got := s.EpochFrom(0, consumed)
					if len(got) != s.BatchesFrom(consumed) {
						t.Fatalf("%s, %d rows, batch %d, rank %d of %d, from %d: BatchesFrom is %d for %v", name, rows, batch, rank, world, consumed, s.BatchesFrom(consumed), got)
					}
					counts = append(counts, len(got))
					filled = append(filled, len(slices.DeleteFunc(got, func(b []int) bool { return len(b) == 0 })))
				}
				s := kind(rows, batch, world, 0)
				if consumed == 0 && !slices.Equal(s.BatchCountsFrom(0), filled) {
					t.Fatalf("%s, %d rows, batch %d, world %d: BatchCountsFrom(0) %v, expected %v", name, rows, batch, world, s.BatchCountsFrom(0), filled)
				}
				if equal := slices.Min(counts) == slices.Max(counts); s.ValidateFrom(consumed) == nil && !equal {
					t.Fatalf("%s, %d rows, batch %d, world %d, from %d: valid with counts %v", name, rows, batch, world, consumed, counts)
				}
			}
		})
	}
}

// One epoch under changing world sizes: some rounds in each, the last to the end. Every
// row is seen once; what is seen twice is the padding of the last round, the epoch's
// first rows, and what is left out under drop_last is less than its round
// (D23, huggingface/transformers#22580).
func TestChangingWorldSizeCoversEachRowOnce(t *testing.T) {
	chains := [][]int{{2, 4, 1, 3}, {1, 2}, {4, 3, 2, 1}, {3, 3, 4}, {2, 1}}
	for name, kind := range kinds {
		for _, chain := range chains {
			for rows := 1; rows <= 60; rows++ {
				for batch := 1; batch <= 3; batch++ {
					if err := runChain(kind, name, chain, rows, batch); err != nil {
						t.Fatalf("%s, worlds %v, %d rows, batch %d: %v", name, chain, rows, batch, err)
					}
				}
			}
		}
	}
}

func runChain(kind func(rows, batch, world, rank int) sampler, name string, chain []int, rows, batch int) error {
	times := make([]int, rows)
	consumed, padding, dropped := 0, 0, 0
	for link, world := range chain {
		rounds := 2 // before the next world takes over
		if link == len(chain)-1 {
			rounds = rows
		}
		round := batch * world
		if rounds*round > rows-consumed && link < len(chain)-1 {
			rounds = (rows - consumed) / round
		}
		seen := 0
		for rank := range world {
			batches := kind(rows, batch, world, rank).EpochFrom(3, consumed)
			for _, b := range batches[:min(rounds, len(batches))] {
				for _, row := range b {
					times[row]++
				}
				seen += len(b)
			}
		}
		if left := rows - consumed; seen > left {
			padding = seen - left
		} else if link == len(chain)-1 {
			dropped = left - seen
		}
		consumed += min(seen, rows-consumed)
	}
	last := chain[len(chain)-1] * batch
	first := kind(rows, 1, 1, 0).EpochFrom(3, 0)
	switch {
	case padding >= last, dropped >= last:
		return fmt.Errorf("%d rows of padding, %d dropped in a round of %d", padding, dropped, last)
	case dropped > 0 && name != "drop" && name != "distributed drop":
		return fmt.Errorf("%d rows dropped", dropped)
	case padding > 0 && (name == "short" || name == "join" || name == "distributed join"):
		return fmt.Errorf("%d rows of padding", padding)
	}
	for i := range padding { // wraps to the epoch's own first rows
		times[first[i%len(first)][0]]--
	}
	missing := 0
	for row, n := range times {
		if n == 0 {
			missing++
		} else if n != 1 {
			return fmt.Errorf("row %d was seen %d times, padding aside", row, n)
		}
	}
	if missing != dropped {
		return fmt.Errorf("%d rows were not seen, %d are declared as dropped", missing, dropped)
	}
	return nil
}

// Under join, a rank that gets no row of the last round has an empty batch there.
func TestJoinGivesEmptyBatches(t *testing.T) {
	for rank, want := range [][][]int{{{0, 1}, {6, 7}}, {{2, 3}, {8}}, {{4, 5}, {}}} {
		s := data.Sampler{Rows: 9, BatchSize: 2, WorldSize: 3, Rank: rank, Join: true, Sequential: true}
		if got := s.Epoch(0); !reflect.DeepEqual(got, want) || s.Validate() != nil {
			t.Errorf("rank %d: %v, expected %v", rank, got, want)
		}
		if got := s.BatchCountsFrom(0); !slices.Equal(got, []int{2, 2, 1}) {
			t.Errorf("BatchCountsFrom(0) %v", got)
		}
	}
	// 2 ranks and a single row: a rank without data takes part.
	s := data.DistributedSampler{Rows: 1, BatchSize: 2, WorldSize: 2, Rank: 1, Join: true, Sequential: true}
	if got := s.Epoch(0); len(got) != 1 || len(got[0]) != 0 || !slices.Equal(s.BatchCountsFrom(0), []int{1, 0}) {
		t.Errorf("a rank without data has %v of %v", got, s.BatchCountsFrom(0))
	}
}

func TestValidateFromRefusesUnequalRests(t *testing.T) {
	s := data.Sampler{Rows: 16, BatchSize: 4, WorldSize: 2}
	if err := s.ValidateFrom(8); err != nil {
		t.Error(err)
	}
	for _, consumed := range []int{4, -1} { // 12 rows are left: 4 for one rank only in the last round
		if err := s.ValidateFrom(consumed); err == nil {
			t.Errorf("from %d: no error", consumed)
		}
	}
}

func ExampleSampler_EpochFrom() {
	two := data.Sampler{Rows: 10, BatchSize: 2, WorldSize: 2, EvenBatches: true, Seed: 42}
	fmt.Println("rank 0 of 2:", two.Epoch(0)[:1])
	for rank := range 3 { // 4 rows are done: three ranks share the other 6
		three := data.Sampler{Rows: 10, BatchSize: 1, WorldSize: 3, Rank: rank, EvenBatches: true, Seed: 42}
		fmt.Println("rank", rank, "of 3:", three.EpochFrom(0, 4))
	}
	// Output:
	// rank 0 of 2: [[2 6]]
	// rank 0 of 3: [[4] [9]]
	// rank 1 of 3: [[5] [3]]
	// rank 2 of 3: [[0] [7]]
}
