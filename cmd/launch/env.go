package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rejoin/harness/machine"
	"rejoin/kernel"
	"rejoin/trainer"
)

func newEnv(stdout io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Describe this machine, for a bug report",
		Long: `Describe this machine: versions, CPU, BLAS, cores, memory, network interfaces,
torch and transformers if they are there, and what is likely to make trouble.
Nothing in it is secret but the host's name and addresses.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printEnv(cmd.Context(), stdout, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func printEnv(ctx context.Context, w io.Writer, asJSON bool) error {
	d := machine.Describe(ctx)
	d.Rejoin, d.BLAS, d.Kernel = trainer.Version, kernel.BLAS(), kernel.Level()
	if strings.HasPrefix(d.BLAS, "gonum") {
		d.Problems = append(d.Problems, "no BLAS library was found: training works, a few times slower; Debian has libopenblas0")
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(d)
	}
	_, err := fmt.Fprint(w, d)
	return err
}
