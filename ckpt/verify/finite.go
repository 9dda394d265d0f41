package verify

import (
	"context"
	"fmt"
	"math"

	"rejoin/ckpt/source"
	"rejoin/tensor"
)

// finite looks for NaN and infinities in every floating-point tensor.
func (v *verifier) finite(ctx context.Context, s *source.Source) error {
	if !v.options.Finite {
		return nil
	}
	done, total, tensors, bad := int64(0), int64(0), 0, 0
	for _, p := range s.Parts {
		for _, l := range p.Leaves {
			if t := l.Tensor(); t != nil && !t.Meta {
				total += int64(t.NumElements() * t.DType.Size())
			}
		}
	}
	for _, p := range s.Parts {
		for _, l := range p.Leaves {
			t := l.Tensor()
			if raw, ok := l.Value.(*source.RawTensor); ok {
				v.unchecked("elements of %s in %s: dtype %s is not known here", l.Path(), p.Name, raw.DType)
			}
			if t == nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if t.Meta {
				v.unchecked("elements of %s in %s: it is on the meta device and has none", l.Path(), p.Name)
				continue
			}
			problem, err := nonFinite(t)
			if err != nil {
				v.fail(p.Path, fmt.Errorf("key %s: %w", l.Path(), err))
			} else if problem != "" {
				bad++
				v.add(Problem{Path: p.Path, Where: "key " + l.Path(), Problem: problem, Next: "go back to a checkpoint before the run diverged"})
			}
			tensors++
			if done += int64(t.NumElements() * t.DType.Size()); v.options.Progress != nil {
				v.options.Progress(done, total)
			}
		}
	}
	if bad == 0 {
		v.checked("every element of %d tensors is finite", tensors)
	}
	return nil
}

// nonFinite says how many elements are NaN or infinite, "" for none.
func nonFinite(t *tensor.Tensor) (string, error) {
	d := t.DType
	if part := d.ComplexPart(); part.Valid() {
		d = part
	}
	if !d.IsFloat() {
		return "", nil
	}
	raw, err := t.Bytes()
	if err != nil {
		return "", err
	}
	decode, _ := tensor.Float64Decoder(d)
	width, nan, infinite, first := d.Size(), 0, 0, -1
	for i := range len(raw) / width {
		x := decode(raw[i*width:])
		switch {
		case math.IsNaN(x):
			nan++
		case math.IsInf(x, 0):
			infinite++
		default:
			continue
		}
		if first < 0 {
			first = i * width / t.DType.Size()
		}
	}
	if first < 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %d elements are NaN and %d infinite, the first at index %v", nan, t.NumElements(), infinite, index(first, t.Shape)), nil
}

// index turns an element's number in C order into its index.
func index(n int, shape []int) []int {
	out := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n % shape[i]
		n /= shape[i]
	}
	return out
}
