package trainer

import (
	"rejoin/ckpt/names"
	"rejoin/rng"
	"rejoin/tensor"
)

// loadWeights gives the file's tensors to the model's parameters, and says what
// was not plain: a prefix taken off, ties, keys left out. Parameters that --skip
// or --allow-missing leave without a tensor keep the values that the seed draws.
// Its error is a [*names.MismatchError] if names or shapes do not fit.
func (r *run) loadWeights(path string, weights *tensor.StateDict, ties map[string]string) error {
	var params []names.Param
	for _, p := range r.model.Params() {
		params = append(params, names.Param{Name: p.Name, Shape: p.Shape})
	}
	match, err := names.Find(weights, params, names.Options{Skip: r.job.Skip, AllowMissing: r.job.AllowMissing, Ties: ties})
	if err != nil {
		return err
	}
	for _, note := range match.Notes() {
		r.sayf("%s: %s", path, note)
	}
	selected := match.Select(weights, params)
	if len(match.Kept) > 0 {
		r.model.Init(rng.New(uint64(r.args.Seed)))
		drawn := r.model.StateDict()
		for _, name := range match.Kept {
			t, _ := drawn.Get(name)
			selected.Set(name, t)
		}
	}
	return r.model.Load(selected)
}

// sayTags says in one line which devices a file's storages were saved on.
func (r *run) sayTags(path string, tags map[string]int) {
	if line := tensor.ForeignTags(tags); line != "" {
		r.sayf("%s: %s; they are loaded on the CPU", path, line)
	}
}
