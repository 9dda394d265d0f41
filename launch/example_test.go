package launch_test

import (
	"context"
	"fmt"
	"os"

	"rejoin/launch"
)

// Two workers, of which one fails at once. The report, on stderr in a real
// launcher, names it, shows its last lines and tells what became of the other.
func ExampleRun() {
	report, err := launch.Run(context.Background(), launch.Config{
		Program: "/bin/sh",
		Args:    []string{"-c", `if [ $RANK = 1 ]; then echo "rank $RANK of $WORLD_SIZE has no data" >&2; exit 7; fi; exec sleep 60`},
		NProc:   2,
		Grace:   -1, // these workers do not know of each other
		Stderr:  os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first:", report.First.Rank, report.First.How())
	fmt.Println("exit code:", report.ExitCode())
	// Output:
	// [rank1]: rank 1 of 2 has no data
	// first: 1 exit code 7
	// exit code: 7
}
