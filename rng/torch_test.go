package rng_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"rejoin/rng"
)

func load(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func bitsOf(values []float32) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(math.Float32bits(v))
	}
	return out
}

func sha(values any) string {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, values) // a hash never fails to write
	return hex.EncodeToString(h.Sum(nil))
}

func int64s(values []int) []int64 {
	out := make([]int64, len(values))
	for i, v := range values {
		out[i] = int64(v)
	}
	return out
}

func floats(g *rng.Generator, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = g.Float32()
	}
	return out
}

func TestWordsEqualTorch(t *testing.T) {
	var cases struct {
		Words []struct {
			Seed    string
			Modulus uint32
			Values  []uint32
		}
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Words {
		seed, err := strconv.ParseUint(c.Seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		g := rng.New(seed)
		if g.InitialSeed() != seed {
			t.Errorf("seed %d: InitialSeed is %d", seed, g.InitialSeed())
		}
		for i, want := range c.Values {
			if got := g.Uint32() % c.Modulus; got != want {
				t.Fatalf("seed %d, draw %d: %d, torch gives %d", seed, 13*i, got, want)
			}
			for range 12 {
				g.Uint32()
			}
		}
	}
}

func TestUint64IsUpperHalfFirst(t *testing.T) {
	a, b := rng.New(3), rng.New(3)
	for range 700 {
		hi, lo := a.Uint32(), a.Uint32()
		if got, want := b.Uint64(), uint64(hi)<<32|uint64(lo); got != want {
			t.Fatalf("%#x, expected %#x", got, want)
		}
	}
}

func TestPermEqualsTorch(t *testing.T) {
	var cases struct {
		Randperm []struct {
			Seed uint64
			N    int
			Head []int
			Sum  string `json:"sha256_int64"`
			Then []int
		}
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Randperm {
		g := rng.New(c.Seed)
		p := g.Perm(c.N)
		if head := p[:min(20, c.N)]; !slices.Equal(head, c.Head) {
			t.Errorf("seed %d, n %d: starts with %v, torch gives %v", c.Seed, c.N, head, c.Head)
		}
		if got := sha(int64s(p)); got != c.Sum {
			t.Errorf("seed %d, n %d: SHA-256 %s, torch gives %s", c.Seed, c.N, got, c.Sum)
		}
		if then := g.Perm(5); !slices.Equal(then, c.Then) {
			t.Errorf("seed %d, n %d: then %v, torch gives %v", c.Seed, c.N, then, c.Then)
		}
	}
}

// Both sides of the size from which torch draws 64 bits an element.
func TestWidePermEqualsTorch(t *testing.T) {
	if os.Getenv("REJOIN_BIG") == "" {
		t.Skip("needs 2 GB of memory and a minute: set REJOIN_BIG=1")
	}
	var cases struct {
		Wide []struct {
			Seed     uint64
			N        int
			Sum      string `json:"sha256_int32"`
			Counters []byteValue
		} `json:"randperm_wide"`
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Wide {
		g := rng.New(c.Seed)
		h := sha256.New()
		var buf []byte
		for _, v := range g.Perm(c.N) {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(v))
			if len(buf) == 1<<16 {
				h.Write(buf)
				buf = buf[:0]
			}
		}
		h.Write(buf)
		if got := hex.EncodeToString(h.Sum(nil)); got != c.Sum {
			t.Errorf("n %d: SHA-256 %s, torch gives %s", c.N, got, c.Sum)
		}
		if got := g.State()[8:24]; !slices.Equal(got, plainBytes(c.Counters)) {
			t.Errorf("n %d: counters %v, torch gives %v", c.N, got, c.Counters)
		}
	}
}

// byteValue is a byte that JSON writes as a number in a list.
type byteValue uint8

func plainBytes(values []byteValue) []byte {
	out := make([]byte, len(values))
	for i, v := range values {
		out[i] = byte(v)
	}
	return out
}

func TestUniformEqualsTorch(t *testing.T) {
	var cases struct {
		Uniform []struct {
			Seed      uint64
			Low, High float64
			Bits      []int32
		}
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Uniform {
		dst := make([]float32, len(c.Bits))
		rng.New(c.Seed).UniformFloat32(dst, float32(c.Low), float32(c.High))
		if got := bitsOf(dst); !slices.Equal(got, c.Bits) {
			t.Errorf("uniform(%g, %g): bits %v, torch gives %v", c.Low, c.High, got, c.Bits)
		}
	}
}

func TestBernoulliEqualsTorch(t *testing.T) {
	var cases struct {
		Bernoulli []struct {
			Seed             uint64
			P                float64
			Float64, Float32 []int
		}
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Bernoulli {
		g := rng.New(c.Seed)
		for i, want := range c.Float64 {
			if got := g.BernoulliFloat64(c.P); got != (want == 1) {
				t.Fatalf("p %g, draw %d: %v, torch gives %d", c.P, i, got, want)
			}
		}
		g = rng.New(c.Seed)
		for i, want := range c.Float32 {
			if got := g.BernoulliFloat32(float32(c.P)); got != (want == 1) {
				t.Fatalf("float32 p %g, draw %d: %v, torch gives %d", c.P, i, got, want)
			}
		}
	}
}

func TestFloat64EqualsTorch(t *testing.T) {
	var cases struct{ Rand64 []int64 }
	load(t, "torch.json", &cases)
	g := rng.New(9)
	for i, want := range cases.Rand64 {
		if got := int64(math.Float64bits(g.Float64())); got != want {
			t.Fatalf("draw %d: bits %#x, torch gives %#x", i, got, want)
		}
	}
}

func TestNormalEqualsTorch(t *testing.T) {
	var cases struct {
		Normal []struct {
			Seed      uint64
			Mean, Std float64
			N         int
			Sum       string `json:"sha256"`
			Second    string `json:"sha256_second"`
			Left      uint16
			Bits      []int32
		}
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Normal {
		g := rng.New(c.Seed)
		dst := make([]float32, c.N)
		g.NormalFloat32(dst, c.Mean, c.Std)
		if got := bitsOf(dst); c.Bits != nil && !slices.Equal(got, c.Bits) {
			t.Errorf("%d of normal(%g, %g): bits %v, torch gives %v", c.N, c.Mean, c.Std, got, c.Bits)
		}
		if got := sha(dst); got != c.Sum {
			t.Errorf("%d of normal(%g, %g): SHA-256 %s, torch gives %s", c.N, c.Mean, c.Std, got, c.Sum)
		}
		g.NormalFloat32(dst, c.Mean, c.Std)
		if got := sha(dst); got != c.Second {
			t.Errorf("%d of normal(%g, %g), again: SHA-256 %s, torch gives %s", c.N, c.Mean, c.Std, got, c.Second)
		}
		if got := binary.LittleEndian.Uint16(g.State()[8:]); got != c.Left {
			t.Errorf("%d of normal(%g, %g): %d words left, torch leaves %d", c.N, c.Mean, c.Std, got, c.Left)
		}
	}
}

// linear draws nn.Linear's parameters: weight, then bias, in ±1/√in.
func linear(g *rng.Generator, in, out int) (weight, bias []float32) {
	weight, bias = make([]float32, in*out), make([]float32, out)
	bound := float32(1 / math.Sqrt(float64(in)))
	g.UniformFloat32(weight, -bound, bound)
	g.UniformFloat32(bias, -bound, bound)
	return weight, bias
}

func TestLinearInitEqualsTorch(t *testing.T) {
	var cases struct {
		Linear []struct {
			Seed    uint64
			In, Out int
			Weight  string
			Bias    []int32
		} `json:"linear_init"`
	}
	load(t, "torch.json", &cases)
	for _, c := range cases.Linear {
		weight, bias := linear(rng.New(c.Seed), c.In, c.Out)
		if got := sha(weight); got != c.Weight {
			t.Errorf("Linear(%d, %d): weight's SHA-256 %s, torch gives %s", c.In, c.Out, got, c.Weight)
		}
		if got := bitsOf(bias); !slices.Equal(got, c.Bias) {
			t.Errorf("Linear(%d, %d): bias bits %v, torch gives %v", c.In, c.Out, got, c.Bias)
		}
	}
}

func TestManifest(t *testing.T) {
	var m struct {
		RNG struct {
			Seed     uint64
			Perm17   []int     `json:"randperm_17"`
			Perm1000 []int     `json:"then_randperm_1000_head"`
			Rand4    []float32 `json:"then_rand_4"`
		} `json:"_rng"`
		Init struct {
			Seed   uint64
			Weight [][]float32
			Bias   []float32
		} `json:"_init"`
	}
	load(t, "manifest.json", &m)
	g := rng.New(m.RNG.Seed)
	got := fmt.Sprint(g.Perm(17), g.Perm(1000)[:10], floats(g, 4))
	if want := fmt.Sprint(m.RNG.Perm17, m.RNG.Perm1000, m.RNG.Rand4); got != want {
		t.Errorf("%s, torch gives %s", got, want)
	}
	weight, bias := linear(rng.New(m.Init.Seed), 5, 4)
	if want := slices.Concat(m.Init.Weight...); !slices.Equal(weight, want) {
		t.Errorf("weight %v, torch gives %v", weight, want)
	}
	if !slices.Equal(bias, m.Init.Bias) {
		t.Errorf("bias %v, torch gives %v", bias, m.Init.Bias)
	}
}
