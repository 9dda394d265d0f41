// Launch starts the workers of a training job and rejoins a run where it
// stopped. Run `launch --help`.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
