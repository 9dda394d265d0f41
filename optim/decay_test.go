package optim

import (
	"slices"
	"testing"
)

func TestDecayGroups(t *testing.T) {
	// The weight of an nn.LayerNorm called ln_1 is known by its class alone.
	norms := []string{"transformer.h.0.ln_1", "transformer.ln_f"}
	for _, tc := range []struct {
		name  string
		group int
	}{
		{"fc.weight", 0},
		{"fc.bias", 1},
		{"backbone.0.weight", 0},
		{"transformer.wte.weight", 0},
		{"transformer.h.0.ln_1.weight", 1},
		{"transformer.h.0.ln_1.bias", 1},
		{"transformer.h.0.ln_10.weight", 0},
		{"transformer.ln_f.weight", 1},
		{"transformer.h.0.attn.c_attn.weight", 0},
		{"bert.embeddings.LayerNorm.weight", 1},
		{"model.layers.0.input_layernorm.weight", 1},
		{"model.layers.0.self_attn.q_norm.weight", 1},
		{"model.norm.weight", 1},
		{"norm.weight", 1},
		{"encoder.norm", 1},
		{"model.RMSNorm.scale", 1},
		{"normal.weight", 0},
		{"model.normalizer.weight", 0},
		{"renorm.weight", 0},
		{"model.norm1.weight", 0},
		{"rel_attn.r_w_bias_table", 1},
		{"weight", 0},
		{"bias", 1},
	} {
		o := DefaultOptions()
		o.WeightDecay = 0.1
		groups := DecayGroups([]*Param{{Name: tc.name}}, o, norms...)
		if len(groups) != 2 || len(groups[tc.group].Params) != 1 {
			t.Errorf("%s is not in group %d: %v", tc.name, tc.group, groups)
		}
		if groups[0].WeightDecay != 0.1 || groups[1].WeightDecay != 0 {
			t.Errorf("weight decays are %v and %v", groups[0].WeightDecay, groups[1].WeightDecay)
		}
	}
}

func TestDecayGroupsKeepOrder(t *testing.T) {
	var params []*Param
	for _, name := range []string{"a.weight", "a.bias", "b.weight", "b.bias"} {
		params = append(params, &Param{Name: name})
	}
	groups := DecayGroups(params, DefaultOptions())
	if !slices.Equal(groups[0].Params, []*Param{params[0], params[2]}) || !slices.Equal(groups[1].Params, []*Param{params[1], params[3]}) {
		t.Errorf("groups are %v", groups)
	}
}
