package harness

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"rejoin/pyobj"
	"rejoin/tensor"
)

// Difference is one thing in which two runs are not equal.
type Difference struct {
	Part  Part
	Where string // such as "checkpoint-4/optimizer.pt"
	What  string // such as "exp_avg of parameter 0"
	Found string
	// Expected is the other run's.
	Expected string
	// Means is what such a difference comes from, in a resumed run.
	Means string
}

func (d Difference) String() string {
	text := d.Where
	if d.What != "" {
		text += ": " + d.What
	}
	text += ": found " + d.Found + ", expected " + d.Expected
	if d.Means != "" {
		text += " (" + d.Means + ")"
	}
	return text
}

// What differences come from.
const (
	meansMoments   = "Adam's moments are not those of the run: not restored, or stepped otherwise"
	meansCounter   = "Adam's step counter: the optimizer's state was not restored, or a step was done twice or left out"
	meansRate      = "the learning-rate schedule is not where the run's is"
	meansSchedule  = "the schedule's counter is not where the run's is"
	meansWeights   = "the updates were not those of the run: gradients not averaged over all ranks, other rows, or another state"
	meansRandom    = "this rank's random state is not its own, or numbers were drawn from it that the run did not draw"
	meansRows      = "batches were repeated, left out, or given to another rank"
	meansLog       = "the log is not continued: an entry is lost, or averages other steps"
	meansPosition  = "the run does not stand where it should"
	meansGradients = "the gradient of an update is not the run's: other rows, ranks left out, or divided by another number"
)

// leaf is a value at the end of a key path in an object.
type leaf struct {
	path  string
	value any // *tensor.Tensor, a number, a string, a bool or nil
}

// flatten lists an object's leaves, with key paths such as "state.0.exp_avg".
func flatten(v any) []leaf {
	var out []leaf
	var walk func(path string, v any)
	join := func(path string, key any) string {
		if path == "" {
			return fmt.Sprint(key)
		}
		return path + "." + fmt.Sprint(key)
	}
	walk = func(path string, v any) {
		if d, err := pyobj.AsDict(v); err == nil {
			for _, e := range d.Entries() {
				walk(join(path, e.Key), e.Value)
			}
			return
		}
		if items, err := pyobj.AsItems(v); err == nil {
			for i, item := range items {
				walk(join(path, i), item)
			}
			return
		}
		if t, err := pyobj.AsTensor(v); err == nil {
			v = t
		}
		out = append(out, leaf{path, v})
	}
	walk("", v)
	return out
}

// compareLeaves compares the leaves of two objects that keep accepts.
func compareLeaves(found, expected any, tolerance float64, keep func(path string) bool) []Difference {
	var out []Difference
	mine := map[string]any{}
	for _, l := range flatten(found) {
		mine[l.path] = l.value
	}
	for _, l := range flatten(expected) {
		if !keep(l.path) {
			continue
		}
		v, ok := mine[l.path]
		delete(mine, l.path)
		if !ok {
			out = append(out, Difference{What: l.path, Found: "nothing", Expected: describe(l.value)})
			continue
		}
		if f, e, same := compareValues(v, l.value, tolerance); !same {
			out = append(out, Difference{What: l.path, Found: f, Expected: e})
		}
	}
	for path, v := range mine {
		if keep(path) {
			out = append(out, Difference{What: path, Found: describe(v), Expected: "nothing"})
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int { return strings.Compare(a.What, b.What) })
	return out
}

// compareValues compares two leaves and describes them where they differ.
func compareValues(found, expected any, tolerance float64) (f, e string, same bool) {
	a, ok1 := found.(*tensor.Tensor)
	b, ok2 := expected.(*tensor.Tensor)
	switch {
	case ok1 && ok2:
		return compareTensors(a, b, tolerance)
	case !ok1 && !ok2 && sameNumber(found, expected), reflect.DeepEqual(found, expected):
		return "", "", true
	}
	return describe(found), describe(expected), false
}

// sameNumber compares an int with a float of its value, as Python's == does.
func sameNumber(a, b any) bool {
	x, err1 := pyobj.AsFloat(a)
	y, err2 := pyobj.AsFloat(b)
	return err1 == nil && err2 == nil && x == y
}

func describe(v any) string {
	switch v := v.(type) {
	case *tensor.Tensor:
		if v.NumElements() == 1 && !v.Meta {
			one := make([]float32, 1)
			if v.ReadFloat32(one) == nil {
				return number(float64(one[0]))
			}
		}
		return v.String()
	case float64:
		return number(v)
	case string:
		return strconv.Quote(v)
	case nil:
		return "None"
	}
	return fmt.Sprint(v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }

// compareTensors compares elements: bit for bit if tolerance is 0, else within
// tolerance × the largest expected absolute value. It describes the first
// element that differs.
func compareTensors(found, expected *tensor.Tensor, tolerance float64) (f, e string, same bool) {
	if found.DType != expected.DType || !found.SameShape(expected.Shape) {
		return found.String(), expected.String(), false
	}
	if found.Meta || expected.Meta {
		return "a tensor without bytes", "a tensor with bytes", found.Meta == expected.Meta
	}
	x, err1 := found.Bytes()
	y, err2 := expected.Bytes()
	if err1 != nil || err2 != nil {
		return fmt.Sprint(err1), fmt.Sprint(err2), false
	}
	if slices.Equal(x, y) {
		return "", "", true
	}
	a, b := make([]float32, found.NumElements()), make([]float32, found.NumElements())
	if found.ReadFloat32(a) != nil || expected.ReadFloat32(b) != nil {
		return "other bytes", found.String(), false
	}
	at, apart := firstApart(a, b, tolerance)
	if at < 0 {
		return "", "", true
	}
	if len(a) == 1 {
		return number(float64(a[0])), number(float64(b[0])), false
	}
	return fmt.Sprintf("%s at [%d]", number(float64(a[at])), at),
		fmt.Sprintf("%s; %d of %d elements are apart, by up to %.2g of the largest", number(float64(b[at])), apart.count, len(a), apart.most), false
}

type spread struct {
	count int
	most  float64 // of the largest expected absolute value
}

// firstApart finds the first element that is further apart than allowed; -1: none.
func firstApart(found, expected []float32, tolerance float64) (at int, s spread) {
	at = -1
	scale := 0.0
	for _, v := range expected {
		if x := math.Abs(float64(v)); x > scale && !math.IsInf(x, 0) {
			scale = x
		}
	}
	for i := range found {
		if math.Float32bits(found[i]) == math.Float32bits(expected[i]) {
			continue
		}
		d := math.Abs(float64(found[i]) - float64(expected[i]))
		if tolerance > 0 && d <= tolerance*scale {
			continue
		}
		if at < 0 {
			at = i
		}
		s.count++
		if scale > 0 {
			d /= scale
		}
		s.most = math.Max(s.most, d)
	}
	return at, s
}
