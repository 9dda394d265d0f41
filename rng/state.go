package rng

import (
	"encoding/binary"
	"fmt"
	"math"
)

// StateSize is the number of bytes of a state.
const StateSize = 5056

// Where each field of a state starts, in bytes, all little-endian.
// Source: CPUGeneratorImplState in aten/src/ATen/CPUGeneratorImpl.cpp, torch 2.14.
const (
	atSeed           = 0  // u64
	atLeft           = 8  // i32: words left in the block, plus one
	atSeeded         = 12 // i32: 1
	atNext           = 16 // u64: words drawn from the block
	atWords          = 24 // 624 × u64, each below 2³²
	atNormal         = 5024
	atHasNormal      = 5040 // i32
	atNormalFloat    = 5048
	atHasNormalFloat = 5052 // u8
)

// StateError says why a state was refused.
type StateError struct{ Problem string }

func (e *StateError) Error() string {
	return "torch generator state: " + e.Problem
}

func stateError(format string, args ...any) error {
	return &StateError{fmt.Sprintf(format, args...)}
}

// FromState returns a generator that goes on where the one that wrote blob
// stopped, as torch.set_rng_state does. It refuses with a [*StateError] what
// torch refuses, and also counters and words that no torch generator can reach:
// torch would read outside its buffer there, or draw zeros for ever.
// blob is copied.
func FromState(blob []byte) (*Generator, error) {
	if len(blob) != StateSize {
		return nil, stateError("it has %d bytes, expected %d: the file is cut, or holds another device's generator", len(blob), StateSize)
	}
	le := binary.LittleEndian
	g := &Generator{seed: le.Uint64(blob[atSeed:])}
	if err := g.setCounters(int32(le.Uint32(blob[atLeft:])), le.Uint32(blob[atSeeded:]), le.Uint64(blob[atNext:])); err != nil {
		return nil, err
	}
	if err := g.setWords(blob[atWords:atNormal]); err != nil {
		return nil, err
	}
	if le.Uint32(blob[atHasNormal:]) != 0 {
		g.hasNormal, g.normal = true, math.Float64frombits(le.Uint64(blob[atNormal:]))
	}
	if blob[atHasNormalFloat] != 0 {
		g.hasNormalFloat, g.normalFloat = true, math.Float32frombits(le.Uint32(blob[atNormalFloat:]))
	}
	return g, nil
}

func (g *Generator) setCounters(left int32, seeded uint32, next uint64) error {
	switch {
	case seeded == 0:
		return stateError("it was never seeded (the field is 0): the bytes are zeros, or not a generator's")
	case left == 1 && next == 0:
		g.fresh = true
	case next >= 1 && next <= words && int64(left)+int64(next) == words+1:
		g.next = int(next)
	default:
		return stateError("%d words left and %d drawn do not add up to a block of %d: the bytes are damaged", left, next, words)
	}
	return nil
}

func (g *Generator) setWords(raw []byte) error {
	var any uint32
	for i := range g.block {
		w := binary.LittleEndian.Uint64(raw[8*i:])
		if w > math.MaxUint32 {
			return stateError("word %d is %#x, over 32 bits: the bytes are damaged", i, w)
		}
		g.block[i] = uint32(w)
		any |= uint32(w)
	}
	if any == 0 {
		return stateError("all %d words are zero: it would draw zeros for ever", words)
	}
	return nil
}

// State returns the bytes that torch.get_rng_state would return here. A state
// that torch wrote comes back unchanged from FromState(blob).State().
func (g *Generator) State() []byte {
	le := binary.LittleEndian
	blob := make([]byte, StateSize)
	left := words + 1 - g.next
	if g.fresh {
		left = 1
	}
	le.PutUint64(blob[atSeed:], g.seed)
	le.PutUint32(blob[atLeft:], uint32(left))
	le.PutUint32(blob[atSeeded:], 1)
	le.PutUint64(blob[atNext:], uint64(g.next))
	for i, w := range g.block {
		le.PutUint64(blob[atWords+8*i:], uint64(w))
	}
	if g.hasNormal {
		le.PutUint64(blob[atNormal:], math.Float64bits(g.normal))
		le.PutUint32(blob[atHasNormal:], 1)
	}
	if g.hasNormalFloat {
		le.PutUint32(blob[atNormalFloat:], math.Float32bits(g.normalFloat))
		blob[atHasNormalFloat] = 1
	}
	return blob
}
