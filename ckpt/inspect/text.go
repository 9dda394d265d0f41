package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"rejoin/ckpt/internal/bytesize"
)

// Style decorates text for a terminal; the zero Style leaves it plain.
type Style struct {
	Heading func(string) string
	Warning func(string) string
}

func apply(f func(string) string, s string) string {
	if f == nil {
		return s
	}
	return f(s)
}

// WriteText writes the report for people: each file with its tree of keys, the
// optimizers, and what the whole takes.
func (r *Report) WriteText(w io.Writer, style Style) error {
	out := &printer{w: w, style: style}
	for _, n := range r.Notes {
		out.line("%s", n)
	}
	for _, f := range r.Files {
		out.file(r, f)
	}
	t := r.Totals
	out.line("%s in %d tensors, %d elements; %s stored", bytesize.Format(t.Bytes), t.Tensors, t.Elements, bytesize.Format(t.StoredBytes))
	if r.ForeignTags != "" {
		out.line("%s", apply(style.Warning, r.ForeignTags+"; they load on the CPU"))
	}
	return out.err
}

type printer struct {
	w     io.Writer
	style Style
	err   error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) file(r *Report, f File) {
	details := []string{}
	for _, s := range []string{f.Format, f.Writer} {
		if s != "" {
			details = append(details, s)
		}
	}
	if f.ByteOrder == "big" {
		details = append(details, "big-endian")
	}
	p.line("%s", apply(p.style.Heading, fmt.Sprintf("%s: %s", f.Name, strings.Join(append(details, bytesize.Format(f.Bytes)), ", "))))
	if f.Error != "" {
		p.line("  %s", apply(p.style.Warning, f.Error))
	}
	for _, warning := range f.Warnings {
		p.line("  %s", apply(p.style.Warning, "warning: "+warning))
	}
	if f.Module != "" {
		p.line("  a whole module of class %s, taken apart and not run", f.Module)
	}
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		p.line("  metadata %s: %s", key, f.Metadata[key])
	}
	p.tree(r, f.Name)
	for _, o := range r.Optimizers {
		if o.File == f.Name {
			p.optimizer(o)
		}
	}
}

// row is one line of the tree.
type row struct {
	keys []string
	text string // its columns, divided by tabs
	at   int
}

// tree writes a file's keys, those of a container below its name.
func (p *printer) tree(r *Report, file string) {
	var rows []row
	for _, t := range r.Tensors {
		if t.File == file {
			rows = append(rows, row{t.keys, t.columns(), t.at})
		}
	}
	groups := r.paramGroups(file)
	tensors := len(rows)
	for _, o := range r.Others {
		if o.File == file && !slices.ContainsFunc(groups, func(at string) bool { return strings.HasPrefix(o.Key, at) }) {
			rows = append(rows, row{o.keys, o.columns(), o.at})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return a.at - b.at })
	if tensors == 0 && len(rows) > maxDescriptions {
		rows = append(rows[:maxDescriptions:maxDescriptions], row{[]string{fmt.Sprintf("… %d more values", len(rows)-maxDescriptions)}, "", 0})
	}
	tab := tabwriter.NewWriter(p.w, 0, 8, 2, ' ', 0)
	var above []string
	for _, item := range rows {
		if len(item.keys) == 0 {
			item.keys = []string{"(the object itself)"}
		}
		container := item.keys[:len(item.keys)-1]
		for i := range container {
			if i >= len(above) || above[i] != container[i] {
				above = append(above[:min(i, len(above)):min(i, len(above))], container[i])
				fmt.Fprintf(tab, "%s%s\n", indent(i+1), container[i])
			}
		}
		above = above[:len(container)]
		fmt.Fprintf(tab, "%s%s\t%s\n", indent(len(item.keys)), item.keys[len(item.keys)-1], item.text)
	}
	if err := tab.Flush(); p.err == nil {
		p.err = err
	}
}

// paramGroups is where a file's optimizers keep their groups, which are summed
// up below the tree.
func (r *Report) paramGroups(file string) []string {
	var at []string
	for _, o := range r.Optimizers {
		if o.File == file && o.Key == "" {
			at = append(at, "param_groups.")
		} else if o.File == file {
			at = append(at, o.Key+".param_groups.")
		}
	}
	return at
}

// maxDescriptions bounds the lines of a file that holds no tensors, such as a
// trainer_state.json with its log.
const maxDescriptions = 200

func indent(depth int) string { return strings.Repeat("  ", depth) }

// columns are dtype, shape, bytes viewed (of stored), device, and sharing.
func (t Tensor) columns() string {
	size := bytesize.Format(t.Bytes)
	if t.StoredBytes != t.Bytes && t.Device != "meta" {
		size += " of " + bytesize.Format(t.StoredBytes)
	}
	if t.Device == "meta" {
		size = "no elements"
	}
	note := ""
	switch {
	case t.TiedTo != "":
		note = "tied to " + t.TiedTo
	case t.SharesWith != "":
		note = "shares storage with " + t.SharesWith
	}
	if t.SHA256 != "" {
		note = strings.TrimSpace(t.SHA256[:16] + "… " + note)
	}
	text := fmt.Sprintf("%s\t%v\t%s\t%s", t.DType, t.Shape, size, t.Device)
	if note != "" {
		text += "\t" + note
	}
	return text
}

func (o Other) columns() string {
	note := ""
	if o.Opaque {
		note = "\tdescribed, not run"
	}
	return fmt.Sprintf("%s\t%s%s", o.Type, o.Value, note)
}

func (p *printer) optimizer(o Optimizer) {
	name := "optimizer"
	if o.Key != "" {
		name = "optimizer " + o.Key
	}
	steps := make([]string, len(o.Steps))
	for i, s := range o.Steps {
		steps[i] = fmt.Sprint(s)
	}
	p.line("  %s: %s; %d parameters with %s; step %s", name, o.Kind, o.Params, strings.Join(o.Moments, ", "), strings.Join(steps, ", "))
	for i, g := range o.Groups {
		var options []string
		for _, key := range []string{"lr", "initial_lr", "weight_decay", "betas", "momentum", "eps"} {
			if v, ok := g.Options[key]; ok {
				options = append(options, key+" "+v)
			}
		}
		p.line("    group %d: %d parameters, %s", i, g.Params, strings.Join(options, ", "))
	}
}
