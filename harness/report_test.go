package harness

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"
	"time"
)

func sampleReport() *Report {
	return &Report{
		Rejoin: "0.1.0", Machine: "linux/amd64", Took: 3 * time.Second,
		Results: []*Result{
			{
				Name: "good", About: "All <well> & done", Outcome: Passed, Took: time.Second, Rerun: "launch harness --only good",
				Jobs: []JobResult{
					{
						Name: "first", Command: []string{"launch", "train"}, Took: time.Second,
						Loss:  []LossPoint{{1, 5}, {2, 4}, {3, math.NaN()}, {4, 2}},
						Ranks: []Rank{{Rank: 0, PID: 1, Start: 0, End: time.Second}},
					},
					{Name: "second", Loss: []LossPoint{{2, 4}, {4, 2}}, Took: time.Second},
				},
			},
			{
				Name: "bad", About: "Breaks", Outcome: Failed, Failures: []string{"job j: exit code 1, expected 0 \x1b[31m", "more"}, Rerun: "launch harness --only bad",
				Jobs: []JobResult{{
					Name: "j", Code: 1, Took: time.Second, Failures: []string{"exit code 1, expected 0"},
					Ranks: []Rank{{Rank: 1, Code: 137, How: "killed by SIGKILL", End: time.Second / 2}},
					Marks: []Mark{{At: time.Second / 2, Rank: 1, Text: "kill rank 1"}},
					Tail:  []string{"RuntimeError: <script>alert(1)</script>"},
				}},
			},
			{Name: "torch", About: "Needs it", Outcome: Skipped, Reason: "no Python"},
		},
	}
}

func TestJSONReport(t *testing.T) {
	r := sampleReport() // with a loss of NaN
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Results[1].Failures[1] != "more" || back.Results[2].Outcome != Skipped || back.Results[0].Jobs[0].Loss[1].Loss != 4 {
		t.Errorf("%s", out.String())
	}
}

func TestJUnitReport(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal(out.Bytes(), &suite); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if suite.Tests != 3 || suite.Failures != 1 || suite.Skipped != 1 || len(suite.Cases) != 3 {
		t.Errorf("%+v", suite)
	}
	bad := suite.Cases[1]
	if bad.Failure == nil || !strings.Contains(bad.Failure.Message, "exit code 1, expected 0") || !strings.Contains(bad.Failure.Text, "alone: launch harness --only bad") || !strings.Contains(bad.Output, "RuntimeError") {
		t.Errorf("%+v", bad)
	}
	if suite.Cases[2].Skipped == nil || suite.Cases[2].Skipped.Message != "no Python" || suite.Cases[0].Failure != nil {
		t.Errorf("%+v", suite.Cases)
	}
}

func TestHTMLReportNeedsNothingElse(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, part := range []string{
		"1 passed, 1 failed, 1 skipped", "All &lt;well&gt; &amp; done", "killed by SIGKILL", "kill rank 1",
		"&lt;script&gt;alert(1)", `<polyline class="curve c0"`, `<polyline class="curve c1"`, `id="bad"`, "no Python",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	for _, never := range []string{"<script", "http://", "https://", "src=", "NaN", "@import", "ZgotmplZ"} {
		if strings.Contains(text, never) {
			t.Errorf("the page holds %s", never)
		}
	}
}

func TestLossChart(t *testing.T) {
	if lossChart([]JobResult{{Name: "silent"}, {Loss: []LossPoint{{1, math.NaN()}}}}) != nil {
		t.Error("a chart of nothing")
	}
	c := lossChart([]JobResult{{Name: "point", Loss: []LossPoint{{3, 7}}}})
	if c == nil || strings.Contains(c.Curves[0].Points, "NaN") || c.Curves[0].Points == "" {
		t.Errorf("a chart of one point: %+v", c)
	}
	c = lossChart([]JobResult{{Loss: []LossPoint{{0, 1}, {10, 0}}}})
	if c.Curves[0].Points != "60.0,12.0 550.0,210.0" {
		t.Errorf("points %s", c.Curves[0].Points)
	}
}

func TestTable(t *testing.T) {
	scenarios := []*Scenario{{Name: "good"}, {Name: "bad"}, {Name: "torch"}}
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		table := NewTable(&out, scenarios, terminal)
		for i, r := range sampleReport().Results {
			if r.Outcome != Skipped {
				table.Started(scenarios[i])
			}
			table.Ended(r)
		}
		table.Finish(sampleReport().Results, 2*time.Second)
		text := out.String()
		for _, part := range []string{"passed  good ", "failed  bad ", "skipped torch", "no Python", "job j: exit code 1", "| RuntimeError", "alone: launch harness --only bad", "1 passed, 1 failed, 1 skipped in 2.0 s"} {
			if !strings.Contains(text, part) {
				t.Errorf("the table lacks %q:\n%s", part, text)
			}
		}
		if strings.Contains(text, "\r") != terminal {
			t.Errorf("terminal %v: %q", terminal, text)
		}
	}
}
