package harness

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

//go:embed report.html
var reportTemplate string

// WriteHTML writes the report as one HTML file that needs no other: loss curves
// and time lines are drawn as SVG, and there is no script in it.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) },
		"join":    func(s []string) string { return strings.Join(s, " ") },
		"lines":   func(s []string) string { return strings.Join(s, "\n") },
		"chart":   lossChart,
		"line":    timeLine,
		"sum":     Summarise,
	}).Parse(reportTemplate)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// chart is a loss chart, in SVG's units.
type chart struct {
	Width, Height int
	Curves        []curve
	XTicks        []tick
	YTicks        []tick
}

type curve struct {
	Name   string
	Points string // of a polyline
	Dots   []dot
	Class  string
	LabelY int
}

type dot struct {
	X, Y, Title string
}

type tick struct {
	At   string
	Text string
}

// Sizes of drawings, in SVG's units.
const (
	chartWidth   = 720
	chartHeight  = 240
	chartLeft    = 60
	chartRight   = 170 // for the names
	chartTop     = 12
	chartBottom  = 30
	curveClasses = 6
	maxDots      = 100 // a curve of more points is drawn without dots
)

// lossChart lays the loss curves of a scenario's jobs over each other; nil if
// there is none.
func lossChart(jobs []JobResult) *chart {
	minX, maxX, minY, maxY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, j := range jobs {
		for _, p := range j.Loss {
			if finite(p) {
				minX, maxX = math.Min(minX, p.Step), math.Max(maxX, p.Step)
				minY, maxY = math.Min(minY, p.Loss), math.Max(maxY, p.Loss)
			}
		}
	}
	if math.IsInf(minX, 1) {
		return nil
	}
	minX, maxX = widen(minX, maxX)
	minY, maxY = widen(minY, maxY)
	c := &chart{Width: chartWidth, Height: chartHeight}
	x := func(v float64) string {
		return fmt.Sprintf("%.1f", chartLeft+(v-minX)/(maxX-minX)*(chartWidth-chartLeft-chartRight))
	}
	y := func(v float64) string {
		return fmt.Sprintf("%.1f", chartHeight-chartBottom-(v-minY)/(maxY-minY)*(chartHeight-chartTop-chartBottom))
	}
	for i := range 5 {
		f := float64(i) / 4
		c.XTicks = append(c.XTicks, tick{x(minX + f*(maxX-minX)), fmt.Sprintf("%.4g", minX+f*(maxX-minX))})
		c.YTicks = append(c.YTicks, tick{y(minY + f*(maxY-minY)), fmt.Sprintf("%.4g", minY+f*(maxY-minY))})
	}
	for _, j := range jobs {
		if len(j.Loss) > 0 {
			c.Curves = append(c.Curves, drawCurve(j, len(c.Curves), x, y))
		}
	}
	return c
}

func drawCurve(j JobResult, i int, x, y func(float64) string) curve {
	out := curve{Name: j.Name, Class: fmt.Sprintf("curve c%d", i%curveClasses), LabelY: chartTop + 14 + 18*i}
	var points []string
	for _, p := range j.Loss {
		if !finite(p) {
			continue
		}
		points = append(points, x(p.Step)+","+y(p.Loss))
		if len(j.Loss) <= maxDots {
			out.Dots = append(out.Dots, dot{x(p.Step), y(p.Loss), fmt.Sprintf("%s, step %g: loss %.6g", j.Name, p.Step, p.Loss)})
		}
	}
	out.Points = strings.Join(points, " ")
	return out
}

func finite(p LossPoint) bool { return !math.IsNaN(p.Loss) && !math.IsInf(p.Loss, 0) }

// widen makes a range that is no point.
func widen(lo, hi float64) (float64, float64) {
	if hi > lo {
		return lo, hi
	}
	return lo - 0.5, hi + 0.5
}

// timeline is the life of a job's ranks, in SVG's units.
type timeline struct {
	Width, Height int
	Bars          []bar
	Marks         []mark
}

type bar struct {
	Y, TextY       int
	X, Width, EndX string
	Name, Title    string
	Class          string
	End            string
}

type mark struct {
	X      string
	Y, End int
	Title  string
	Text   string
}

const rowHeight = 22

// timeLine draws a job's ranks from start to end, and what was done to them.
func timeLine(j JobResult) *timeline {
	total := max(j.Took, time.Millisecond).Seconds()
	x := func(d time.Duration) float64 {
		return chartLeft + math.Max(0, math.Min(1, d.Seconds()/total))*(chartWidth-chartLeft-chartRight)
	}
	t := &timeline{Width: chartWidth, Height: rowHeight * (len(j.Ranks) + 1)}
	row := map[int]int{-1: 0}
	t.Bars = append(t.Bars, drawBar("launcher", 0, x(0), x(j.Took), j.Code, fmt.Sprintf("exit code %d after %.2f s", j.Code, j.Took.Seconds())))
	for i, r := range j.Ranks {
		row[r.Rank] = i + 1
		end := r.End
		if end == 0 {
			end = j.Took
		}
		t.Bars = append(t.Bars, drawBar(fmt.Sprintf("rank %d", r.Rank), i+1, x(r.Start), x(end), r.Code, r.How))
	}
	for _, m := range j.Marks {
		at, ok := row[m.Rank]
		if ok {
			t.Marks = append(t.Marks, mark{fmt.Sprintf("%.1f", x(m.At)), at*rowHeight + 2, at*rowHeight + rowHeight - 2, fmt.Sprintf("%.2f s: %s", m.At.Seconds(), m.Text), m.Text})
		}
	}
	return t
}

func drawBar(name string, row int, from, to float64, code int, end string) bar {
	class := "ok"
	if code != 0 {
		class = "bad"
	}
	return bar{
		Y: row*rowHeight + 4, TextY: row*rowHeight + 15, Name: name, Class: class, End: end,
		X: fmt.Sprintf("%.1f", from), Width: fmt.Sprintf("%.1f", math.Max(2, to-from)), EndX: fmt.Sprintf("%.1f", to+6), Title: name + ": " + end,
	}
}
