package trainer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"rejoin/ckpt/hf"
)

// argumentFields maps an argument's name to its field in Arguments.
var argumentFields = func() map[string]int {
	fields := map[string]int{}
	t := reflect.TypeFor[Arguments]()
	for i := range t.NumField() {
		fields[t.Field(i).Tag.Get("arg")] = i
	}
	return fields
}()

// UnknownArgumentError names an argument that neither Rejoin nor the Trainer has.
type UnknownArgumentError struct {
	Name    string
	Nearest string // "" when nothing is near
}

func (e *UnknownArgumentError) Error() string {
	text := fmt.Sprintf("training argument %q is not known", e.Name)
	if e.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return text
}

// Set gives the argument called name a value: one decoded from YAML, JSON or a
// pickle. The value's type must fit; nothing is changed on error.
func (a *Arguments) Set(name string, value any) error {
	if name == "warmup_ratio" {
		return a.setWarmupRatio(value)
	}
	i, ok := argumentFields[name]
	if !ok {
		return a.refuseUnknown(name, value)
	}
	field := reflect.ValueOf(a).Elem().Field(i)
	if err := assign(field, value); err != nil {
		return &ArgumentError{Name: name, Found: fmt.Sprintf("%v", value), Expected: err.Error()}
	}
	return nil
}

// setWarmupRatio takes the older name of a warm-up that is a fraction of the run;
// as in the Trainer, warmup_steps wins.
func (a *Arguments) setWarmupRatio(value any) error {
	var ratio float64
	if value != nil {
		if err := assign(reflect.ValueOf(&ratio).Elem(), value); err != nil || ratio < 0 || ratio > 1 {
			return &ArgumentError{Name: "warmup_ratio", Found: fmt.Sprint(value), Expected: "a number from 0 to 1"}
		}
	}
	if ratio > 0 && a.WarmupSteps == 0 {
		a.WarmupSteps = ratio
	}
	return nil
}

// refuseUnknown accepts an argument that Rejoin lacks if the value leaves it off.
func (a *Arguments) refuseUnknown(name string, value any) error {
	off, ok := changing[name]
	switch {
	case ok:
	case inert(name):
		return nil
	default:
		return &UnknownArgumentError{Name: name, Nearest: nearestName(name)}
	}
	for _, v := range off {
		if fmt.Sprint(v) == fmt.Sprint(value) {
			return nil
		}
	}
	return &ArgumentError{
		Name: name, Found: fmt.Sprint(value),
		Expected: fmt.Sprintf("%v: Rejoin does not have this and will not train differently in silence", off[0]),
	}
}

// assign converts value to field's type, or says what it expected.
func assign(field reflect.Value, value any) error {
	if field.Kind() == reflect.Pointer {
		if value == nil {
			field.SetZero()
			return nil
		}
		p := reflect.New(field.Type().Elem())
		if err := assign(p.Elem(), value); err != nil {
			return err
		}
		field.Set(p)
		return nil
	}
	v := reflect.ValueOf(value)
	switch field.Kind() {
	case reflect.Int, reflect.Int64:
		switch {
		case value != nil && v.CanInt():
			field.SetInt(v.Int())
			return nil
		case value != nil && v.CanFloat() && v.Float() == float64(int64(v.Float())):
			field.SetInt(int64(v.Float()))
			return nil
		}
		return errors.New("a whole number")
	case reflect.Float64:
		switch {
		case value == nil:
			return errors.New("a number")
		case v.CanFloat():
			field.SetFloat(v.Float())
			return nil
		case v.CanInt():
			field.SetFloat(float64(v.Int()))
			return nil
		}
		return errors.New("a number")
	case reflect.Bool:
		if b, ok := value.(bool); ok {
			field.SetBool(b)
			return nil
		}
		return errors.New("true or false")
	case reflect.String:
		if s, ok := value.(string); ok {
			field.SetString(s)
			return nil
		}
		return errors.New("a word")
	case reflect.Map:
		m, ok := value.(map[string]any)
		if !ok && value != nil {
			return errors.New("a mapping")
		}
		field.Set(reflect.ValueOf(keywordArguments(m)))
		return nil
	default:
		return fmt.Errorf("a %v", field.Kind())
	}
}

// SetText sets one argument from "name=value", the value in YAML's notation.
func (a *Arguments) SetText(assignment string) error {
	name, text, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("%q is not name=value", assignment)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("argument %s: %q is not a value: %w", name, text, err)
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil { // YAML takes 1e-3 for a word
		if _, isWord := value.(string); isWord {
			value = f
		}
	}
	if text == "None" {
		value = nil
	}
	name = strings.ReplaceAll(name, "-", "_")
	if nested, ok := value.(map[string]any); ok && name == "accelerator_config" {
		return a.SetNested(name, nested)
	}
	return a.Set(name, value)
}

// NamesInYAML lists the arguments that a train.yaml sets, sorted; nil if it cannot be read.
func NamesInYAML(text []byte) []string {
	var values map[string]yaml.Node
	if yaml.Unmarshal(text, &values) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(values))
}

// SetYAML sets the arguments in a train.yaml: a mapping of names to values.
func (a *Arguments) SetYAML(text []byte) error {
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("not a mapping of argument names to values: %w", err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		node := values[name]
		if err := a.setNode(name, &node); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", node.Line, err))
		}
	}
	return errors.Join(errs...)
}

func (a *Arguments) setNode(name string, node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && node.Tag != "!!str" {
		return a.SetText(name + "=" + node.Value)
	}
	if node.Kind == yaml.ScalarNode && node.Style == 0 { // an unquoted word may be 1e-3
		return a.SetText(name + "=" + node.Value)
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return err
	}
	if nested, ok := value.(map[string]any); ok && name == "accelerator_config" {
		return a.SetNested(name, nested)
	}
	return a.Set(name, value)
}

// SetNested sets the arguments inside a nested one, such as accelerator_config.
func (a *Arguments) SetNested(name string, values map[string]any) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		errs = append(errs, a.Set(name+"."+key, values[key]))
	}
	return errors.Join(errs...)
}

// SetKnown takes what it can from another program's arguments, such as
// training_args.bin: names unknown here are passed over, since most of the
// Trainer's 110 fields change nothing that Rejoin computes; one that would
// change the numbers is refused.
func (a *Arguments) SetKnown(values map[string]any) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		var err error
		if nested, ok := value.(map[string]any); ok && name == "accelerator_config" {
			err = a.SetKnown(prefixed(name, nested))
		} else if value != nil || !needsNumber(name) { // None there means the default
			err = a.Set(name, value)
		}
		if unknown := (*UnknownArgumentError)(nil); !errors.As(err, &unknown) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// needsNumber tells the arguments whose value cannot be None.
func needsNumber(name string) bool {
	i, ok := argumentFields[name]
	if !ok {
		return false
	}
	kind := reflect.TypeFor[Arguments]().Field(i).Type.Kind()
	return kind == reflect.Float64 || kind == reflect.Int || kind == reflect.Int64
}

func prefixed(name string, values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for key, v := range values {
		out[name+"."+key] = v
	}
	return out
}

// Map gives every argument by name, as JSON and pickles hold it: an int is an
// int64, and None is nil.
func (a *Arguments) Map() map[string]any {
	out := make(map[string]any, len(argumentFields))
	v := reflect.ValueOf(a).Elem()
	for name, i := range argumentFields {
		out[name] = plain(v.Field(i))
	}
	return out
}

func plain(field reflect.Value) any {
	switch {
	case field.Kind() == reflect.Pointer && field.IsNil(), field.Kind() == reflect.Map && field.Len() == 0:
		return nil
	case field.Kind() == reflect.Pointer:
		return plain(field.Elem())
	case field.CanInt():
		return field.Int()
	case field.Kind() == reflect.Map:
		return map[string]any(field.Interface().(KeywordArguments))
	}
	return field.Interface()
}

// trainingArgs are the arguments as training_args.bin holds them: with the
// Trainer's other fields at their defaults.
func (a *Arguments) trainingArgs(worldSize int) hf.Arguments {
	out := hf.DefaultArguments()
	out["do_eval"] = a.EvalStrategy != "no"
	for name, value := range a.Map() {
		if f, ok := value.(float64); ok && (strings.HasSuffix(name, "_steps") || name == "eval_delay") && f == math.Trunc(f) {
			value = int64(f) // a number of steps; a fraction of them stays a float
		}
		group, key, nested := strings.Cut(name, ".")
		if !nested {
			if _, known := out[name]; known { // our own and a callback's are not among them
				out[name] = value
			}
		} else if inner, ok := out[group].(map[string]any); ok {
			inner[key] = value
		}
	}
	out.SetWorldSize(worldSize)
	return out
}

// Changes lists, sorted, where b differs from a: "name: old → new".
func (a *Arguments) Changes(b *Arguments) []string {
	was, is := a.Map(), b.Map()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if !reflect.DeepEqual(was[name], is[name]) {
			out = append(out, fmt.Sprintf("%s: %s → %s", name, python(was[name]), python(is[name])))
		}
	}
	return out
}

// python spells a value as Python would, where Go's spelling would surprise.
func python(v any) string {
	switch v {
	case nil:
		return "None"
	case true:
		return "True"
	case false:
		return "False"
	}
	return fmt.Sprint(v)
}

// nearestName is the known name within two edits of name, or the first that has
// it as a part; "" if there is none.
func nearestName(name string) string {
	best, bestDistance := "", 3
	for _, known := range slices.Sorted(maps.Keys(argumentFields)) {
		if d := editDistance(name, known); d < bestDistance {
			best, bestDistance = known, d
		}
	}
	if best != "" || len(name) < 4 {
		return best
	}
	for _, known := range slices.Sorted(maps.Keys(argumentFields)) {
		// Of a pair such as per_device_train_… and per_device_eval_… the first is meant.
		if strings.Contains(known, name) && (best == "" || strings.Contains(best, "eval")) {
			best = known
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			previous, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, previous+cost)
		}
	}
	return row[len(b)]
}
