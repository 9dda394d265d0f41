package optim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"rejoin/pyobj"
)

// Where the sets of parameters differ, both layouts are printed and nothing is loaded
// (D12, facebookresearch/suncet#36).
func TestLayoutErrorPrintsBoth(t *testing.T) {
	params, a := mlp(t, nil)
	train(params, a, 0, 1)
	saved := a.StateDict()

	grown := []*Param{testParam("backbone.0.weight", 6, 5), testParam("backbone.0.bias", 6), testParam("backbone.2.weight", 4, 6), testParam("backbone.2.bias", 4)}
	other, err := NewAdamW(DecayGroups(grown, DefaultOptions()))
	if err != nil {
		t.Fatal(err)
	}
	err = other.LoadStateDict(saved)
	if _, ok := errors.AsType[*LayoutError](err); !ok {
		t.Fatalf("error is %v (%T), want a *LayoutError", err, err)
	}
	const want = `optimizer state does not fit the model: parameter 1 of group 0 has shape [3 6] in the file, [4 6] in the model (backbone.2.weight)
  group 0
    file:  0 [6 5], 1 [3 6]
    model: backbone.0.weight [6 5], backbone.2.weight [4 6]
  group 1
    file:  2 [6], 3 [3]
    model: backbone.0.bias [6], backbone.2.bias [4]
resume with the model and the parameter groups (weight decay, frozen parameters) that the checkpoint was trained with, or without the optimizer's state`
	if err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%v", err, want)
	}
	if other.StepCount("backbone.0.weight") != 0 {
		t.Error("the optimizer changed")
	}
}

func TestLayoutErrorOnGroups(t *testing.T) {
	params, a := mlp(t, nil)
	one, err := NewAdamW([]Group{{Options: DefaultOptions(), Params: params}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		from, to *Adam
		want     []string
	}{
		{"fewer", a, one, []string{"the file has 2 parameter groups, the model has 1", "file:  0 (no state), 1 (no state)", "model: absent"}},
		{"more", one, a, []string{"the file has 1 parameter groups, the model has 2", "file:  absent"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.to.LoadStateDict(tc.from.StateDict())
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want %q in it", err, want)
				}
			}
		})
	}
	empty := pyobj.NewDict("state", pyobj.NewDict(), "param_groups", &pyobj.List{Items: []any{oldGroup()}})
	err = smallAdam(t, 1).LoadStateDict(empty)
	if err == nil || !strings.Contains(err.Error(), "group 0 has 0 parameters in the file, 1 in the model") || !strings.Contains(err.Error(), "file:  no parameters") {
		t.Errorf("error is %v", err)
	}
}

// A model of many parameters gives an error that shows the one that differs.
func TestLayoutErrorIsShort(t *testing.T) {
	many := func(odd int) Layout {
		slots := make([]Slot, 1000)
		for i := range slots {
			slots[i] = Slot{Name: fmt.Sprintf("layer.%d", i), Shape: []int{8, 8}}
		}
		slots[odd].Shape = []int{9, 9}
		return Layout{slots}
	}
	err := &LayoutError{File: many(700), Model: many(701)}
	text := err.Error()
	if len(text) > 2500 {
		t.Errorf("the error has %d bytes", len(text))
	}
	for _, want := range []string{"parameter 700 of group 0 has shape [9 9] in the file, [8 8] in the model (layer.700)", "layer.700 [9 9]", "… 688 before", "… 288 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if text := (&LayoutError{}).Error(); !strings.Contains(text, "no difference") {
		t.Errorf("the error of equal layouts is %s", text)
	}
}
