package tensor

import (
	"fmt"
	"regexp"
	"strings"
)

// MapLocation decides where a storage that was saved with a device tag is put,
// as torch.load's map_location does. It returns the device to use ("cpu" here,
// or "meta"), or an error that refuses the file.
type MapLocation func(tag string) (device string, err error)

// CPU is the default: whatever the tag says, the storage is put in plain host memory.
func CPU(string) (string, error) { return "cpu", nil }

// LocationError is torch's refusal of a location; Error is torch's text.
type LocationError struct {
	Location string // the location that was asked for, or the saved tag
	text     string
}

func (e *LocationError) Error() string { return e.text }

// TorchLocation gives torch's own rules on a host without accelerators, for a
// map_location that is a string or a device (torch applies str() to one):
// every tag is replaced by location, then restored.
// Source: torch.serialization, _get_restore_location and
// default_restore_location, torch 2.14.
func TorchLocation(location string) MapLocation {
	return func(string) (string, error) { return restoreLocation(location) }
}

// TorchSaved is torch's rule for map_location=None: the saved tag is restored.
func TorchSaved(tag string) (string, error) { return restoreLocation(tag) }

// TorchDict is torch's rule for a dict: a tag it holds is replaced, another stays.
func TorchDict(locations map[string]string) MapLocation {
	return func(tag string) (string, error) {
		if to, ok := locations[tag]; ok {
			tag = to
		}
		return restoreLocation(tag)
	}
}

// A backend that torch.serialization registers besides cpu, mps and meta, in
// the order in which it asks them.
type backend struct {
	name  string
	claim *regexp.Regexp // the locations it takes as its own
	built bool           // torch has a module for it, though no device
}

func newBackend(name string, built bool) backend {
	return backend{name, regexp.MustCompile(`^` + name + `($|:|[0-9])`), built}
}

var (
	backends = []backend{
		newBackend("cuda", true), newBackend("privateuseone", false), newBackend("hpu", false),
		newBackend("xpu", true), newBackend("mtia", true),
	}
	deviceString = regexp.MustCompile(`^[a-z]+(:(0|[1-9][0-9]*))?$`)
)

const plainCPUAdvice = "If you are running on a CPU-only machine, please use torch.load with " +
	"map_location=torch.device('cpu') to map your storages to the CPU."

// restoreLocation is default_restore_location on a host whose only device is the CPU.
func restoreLocation(location string) (string, error) {
	if location == "cpu" || location == "meta" {
		return location, nil
	}
	return "", &LocationError{Location: location, text: refusal(location)}
}

// refusal is the text with which torch refuses location.
func refusal(location string) string {
	for _, b := range backends {
		if !b.claim.MatchString(location) {
			continue
		}
		switch {
		case !b.built:
			return fmt.Sprintf("The %s device module is not registered. %s", strings.ToUpper(b.name), plainCPUAdvice)
		case !deviceString.MatchString(location):
			return fmt.Sprintf("Invalid device string: '%s'", location)
		default:
			return fmt.Sprintf("Attempting to deserialize object on a %s device but torch.%s.is_available() is False. %s",
				strings.ToUpper(b.name), b.name, plainCPUAdvice)
		}
	}
	if strings.HasPrefix(location, "mps") {
		return "torch.UntypedStorage(): Storage device not recognized: mps"
	}
	return fmt.Sprintf("don't know how to restore data location of torch.storage.UntypedStorage (tagged with %s)", location)
}
