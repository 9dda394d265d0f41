package tensor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// LocationRules say what becomes of a location that is not plain "cpu".
type LocationRules uint8

// The rules.
const (
	Lenient    LocationRules = iota // whatever is asked for or saved loads on the CPU
	TorchRules                      // torch's own, on a host without accelerators
)

// ParseLocationRules reads "lenient" or "torch"; "" is lenient.
func ParseLocationRules(text string) (LocationRules, error) {
	switch text {
	case "", "lenient":
		return Lenient, nil
	case "torch":
		return TorchRules, nil
	}
	return Lenient, fmt.Errorf("location rules: found %q, expected lenient (any tag loads on the CPU) or torch (torch's own rules)", text)
}

// LocationSyntaxError is a map_location that cannot be read from text.
type LocationSyntaxError struct{ Text, Problem string }

func (e *LocationSyntaxError) Error() string {
	return fmt.Sprintf("map location %q: %s; expected cpu, device, none, a torch device such as cuda:1, or TAG=LOCATION pairs such as cuda:0=cpu,cuda:1=cpu", e.Text, e.Problem)
}

// plausibleLocation is what a device is written like, known to torch or not.
var plausibleLocation = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:[A-Za-z0-9_]+)?$`)

// ParseMapLocation reads a map_location as a person writes one:
//
//	cpu, cuda:1 …          torch's string, or device: every storage goes there
//	device                 the device that the program gives a rank, as transformers does
//	none                   torch's None: each storage goes where its tag says
//	cuda:0=cpu,cuda:1=cpu  torch's dict: each tag it names is replaced, others stay
//
// device stands for the word "device". Under [TorchRules] a location is what
// torch makes of it, its refusals included, and any text is a location; under
// [Lenient] it must look like one and is then plain host memory, except for
// "meta", which keeps shapes and no elements.
func ParseMapLocation(text string, rules LocationRules, device string) (MapLocation, error) {
	if strings.Contains(text, "=") {
		return parseLocationDict(text, rules, device)
	}
	switch {
	case text == "none" && rules == TorchRules:
		return TorchSaved, nil
	case text == "none":
		return CPU, nil
	case text == "device":
		text = device
	}
	if rules == TorchRules {
		return TorchLocation(text), nil
	}
	if text == "" {
		return CPU, nil
	}
	if !plausibleLocation.MatchString(text) {
		return nil, &LocationSyntaxError{text, "is not written like a device"}
	}
	return func(string) (string, error) { return lenient(text), nil }, nil
}

func parseLocationDict(text string, rules LocationRules, device string) (MapLocation, error) {
	locations := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		tag, to, ok := strings.Cut(pair, "=")
		tag, to = strings.TrimSpace(tag), strings.TrimSpace(to)
		switch {
		case !ok || tag == "":
			return nil, &LocationSyntaxError{text, fmt.Sprintf("%q is not TAG=LOCATION", pair)}
		case to == "device":
			to = device
		}
		if before, twice := locations[tag]; twice && before != to {
			return nil, &LocationSyntaxError{text, fmt.Sprintf("the tag %s is given twice", tag)}
		}
		if rules == Lenient && !plausibleLocation.MatchString(to) {
			return nil, &LocationSyntaxError{text, fmt.Sprintf("%q is not written like a device", to)}
		}
		locations[tag] = to
	}
	if rules == TorchRules {
		return TorchDict(locations), nil
	}
	return func(tag string) (string, error) { return lenient(locations[tag]), nil }, nil
}

// lenient is where a location is on a host that has a CPU and nothing else.
func lenient(location string) string {
	if location == "meta" {
		return location
	}
	return "cpu"
}

// TorchCallable is torch's rule for a function as map_location: a location that
// it returns is taken as it is, and "" (torch's None) means that the saved tag
// is restored. torch gives the function the storage too; here it gets the tag.
func TorchCallable(f func(tag string) string) MapLocation {
	return func(tag string) (string, error) {
		if to := f(tag); to != "" {
			return restoreLocation(to)
		}
		return restoreLocation(tag)
	}
}

// ForeignTags says in one line how many storages have a tag other than "cpu",
// given the number of storages by tag; "" for none.
func ForeignTags(tags map[string]int) string {
	total, foreign, parts := 0, 0, []string{}
	for _, tag := range sortedTags(tags) {
		total += tags[tag]
		if tag == "cpu" {
			continue
		}
		foreign += tags[tag]
		shown := tag
		if tag == "" {
			shown = `""`
		}
		parts = append(parts, fmt.Sprintf("%s × %d", shown, tags[tag]))
	}
	if foreign == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d storages were saved on other devices (%s)", foreign, total, strings.Join(parts, ", "))
}

func sortedTags(tags map[string]int) []string { return slices.Sorted(maps.Keys(tags)) }
