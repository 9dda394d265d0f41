package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rejoin/harness"
	"rejoin/trainer"
)

// harnessRequest is what a person asked of launch harness.
type harnessRequest struct {
	only              []string
	list, keep        bool
	dir               string
	parallel          int
	json, junit, html string
}

func newHarness(stdout io.Writer) *cobra.Command {
	r := &harnessRequest{}
	cmd := &cobra.Command{
		Use:   "harness [SCENARIO.yaml…]",
		Short: "Check that two workers really resume, in every way that is known to break",
		Long: `Run scenarios: jobs of several workers that train, are hurt, and are resumed,
with all that must come of it. Without arguments the scenarios that the program
brings along are run; those that need torch or transformers use the interpreter
that REJOIN_PYTHON names, or python3, and are skipped without it.

The exit code is 0 if nothing failed, 1 if something did.`,
		Example: `  launch harness
  launch harness --only bug --only killed-rank --keep
  launch harness --junit report.xml --html report.html
  REJOIN_PYTHON=venv/bin/python launch harness my-trainer.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHarness(cmd.Context(), r, args, stdout)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&r.only, "only", nil, "the `NAME` of a scenario to run, and no other (repeatable)")
	f.BoolVar(&r.list, "list", false, "list the scenarios and run none")
	f.BoolVar(&r.keep, "keep", false, "leave each scenario's directory, and say where it is")
	f.StringVar(&r.dir, "dir", "", "make the scenarios' directories in `DIR` (default: the system's for temporary files)")
	f.IntVar(&r.parallel, "parallel", 0, "run `N` scenarios at a time (default: one for each CPU)")
	f.StringVar(&r.json, "json", "", "write the results as JSON to `FILE`")
	f.StringVar(&r.junit, "junit", "", "write the results as JUnit XML to `FILE`")
	f.StringVar(&r.html, "html", "", "write a report with loss curves and time lines to `FILE`")
	cmd.AddCommand(newBisect(stdout))
	return cmd
}

func (r *harnessRequest) scenarios(files []string) ([]*harness.Scenario, error) {
	var all []*harness.Scenario
	var err error
	if len(files) == 0 {
		if all, err = harness.Shipped(); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		s, err := harness.Load(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	chosen, err := harness.Select(all, r.only)
	if err != nil {
		return nil, &usageError{err}
	}
	return chosen, nil
}

func runHarness(ctx context.Context, r *harnessRequest, files []string, stdout io.Writer) error {
	scenarios, err := r.scenarios(files)
	if err != nil {
		return err
	}
	if r.list {
		for _, s := range scenarios {
			fmt.Fprintf(stdout, "%-22s %s\n", s.Name, s.About)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	table := harness.NewTable(stdout, scenarios, isTerminal(stdout))
	runner := &harness.Runner{
		Launch: self, Dir: r.dir, Keep: r.keep, Parallel: r.parallel, Started: table.Started, Ended: table.Ended,
	}
	begun := time.Now()
	results, err := runner.Run(ctx, scenarios)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	table.Finish(results, took)
	report := runner.Report(results, trainer.Version, runtime.GOOS+"/"+runtime.GOARCH, took)
	if err := r.write(report); err != nil {
		return err
	}
	if harness.Summarise(results).Failed > 0 || ctx.Err() != nil {
		return &exitError{1}
	}
	return nil
}

// write writes the reports that were asked for.
func (r *harnessRequest) write(report *harness.Report) error {
	var errs []error
	for _, out := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{r.json, report.WriteJSON}, {r.junit, report.WriteJUnit}, {r.html, report.WriteHTML},
	} {
		if out.path != "" {
			errs = append(errs, writeFile(out.path, out.write))
		}
	}
	return errors.Join(errs...)
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func newBisect(stdout io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bisect-resume RUN_A RUN_B",
		Short: "Find the first step, rank, sample or tensor where two runs part",
		Long: `Compare two runs' output directories: the rows that each rank read (trace-rankR.json,
written by --trace), the logged numbers of each step, and every tensor of the
checkpoints that both have. The first place where they part is named.

The exit code is 0 if nothing is apart, 1 if something is.`,
		Example: `  launch harness bisect-resume uninterrupted resumed`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{fmt.Errorf("bisect-resume takes the directories of two runs, found %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := harness.Bisect(args[0], args[1])
			if err != nil {
				return err
			}
			if asJSON {
				err = found.WriteJSON(stdout)
			} else {
				_, err = io.WriteString(stdout, found.String())
			}
			if err == nil && found.First != nil {
				err = &exitError{1}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the finding as JSON")
	return cmd
}
