package harness

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is a run of the harness.
type Report struct {
	Rejoin  string        `json:"rejoin"` // the program's version
	Machine string        `json:"machine"`
	Took    time.Duration `json:"took_ns"`
	Python  *Python       `json:"python,omitempty"`
	Results []*Result     `json:"results"`
}

// Report puts the results of a run together.
func (r *Runner) Report(results []*Result, version, machine string, took time.Duration) *Report {
	return &Report{Rejoin: version, Machine: machine, Took: took, Python: r.python, Results: results}
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, in the form that CI systems read.
func (r *Report) WriteJUnit(w io.Writer) error {
	sum := Summarise(r.Results)
	suite := junitSuite{
		Name: "launch harness", Tests: len(r.Results), Failures: sum.Failed, Skipped: sum.Skipped, Time: seconds(r.Took),
	}
	for _, result := range r.Results {
		c := junitCase{Name: result.Name, Class: "harness", Time: seconds(result.Took)}
		switch result.Outcome {
		case Passed:
		case Failed:
			c.Failure = &junitMessage{xmlText(result.Failures[0]), xmlText(strings.Join(result.Failures, "\n") + "\nalone: " + result.Rerun)}
			c.Output = xmlText(tails(result))
		case Skipped:
			c.Skipped = &junitMessage{Message: xmlText(result.Reason)}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func tails(r *Result) string {
	var b strings.Builder
	for _, j := range r.Jobs {
		fmt.Fprintf(&b, "job %s: %s\nexit code %d\n", j.Name, strings.Join(j.Command, " "), j.Code)
		for _, line := range j.Tail {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// xmlText drops the control characters that XML cannot hold, such as a
// terminal's escape sequences.
func xmlText(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0xFFFE || c == 0xFFFF {
			return -1
		}
		return c
	}, s)
}
