package optim

import (
	"regexp"
	"slices"
	"strings"
)

// noDecay are the names that Hugging Face's Trainer exempts from weight decay
// (Trainer.get_decay_parameter_names, transformers 5.12).
var noDecay = regexp.MustCompile(`bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)`)

// DecayGroups divides params, in the order of named_parameters(), into the two
// groups that Hugging Face's Trainer makes: group 0 with options' weight decay,
// group 1 without, for biases and normalisation layers. Both are there even if
// one is empty.
//
// A parameter is exempt by its lower-cased name, or because its module, the
// name without the last part, is one of layerNorms: the modules that are an
// nn.LayerNorm, such as GPT-2's "transformer.h.0.ln_1".
func DecayGroups(params []*Param, options Options, layerNorms ...string) []Group {
	without := options
	without.WeightDecay = 0
	groups := []Group{
		{Options: options, OwnKeys: []string{"weight_decay"}},
		{Options: without, OwnKeys: []string{"weight_decay"}},
	}
	for _, p := range params {
		to := 0
		module := p.Name[:max(0, strings.LastIndexByte(p.Name, '.'))]
		if noDecay.MatchString(strings.ToLower(p.Name)) || slices.Contains(layerNorms, module) {
			to = 1
		}
		groups[to].Params = append(groups[to].Params, p)
	}
	return groups
}
