package launch

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// python gives an interpreter that has torch: the one that REJOIN_PYTHON names,
// or python3. Without REJOIN_PYTHON or REJOIN_INTEROP=1 the test is skipped.
func python(t *testing.T) string {
	t.Helper()
	name, required := os.Getenv("REJOIN_PYTHON"), os.Getenv("REJOIN_INTEROP") == "1"
	if name == "" && !required {
		t.Skip("needs torch: set REJOIN_PYTHON to an interpreter that has it, or REJOIN_INTEROP=1")
	}
	if name == "" {
		name = "python3"
	}
	if out, err := exec.CommandContext(t.Context(), name, "-c", "import torch").CombinedOutput(); err != nil {
		if required {
			t.Fatalf("%s cannot import torch: %v\n%s", name, err, out)
		}
		t.Skipf("%s cannot import torch: %v", name, err)
	}
	return name
}

// torchJob forms torch's own process group from the environment alone, so rank 0
// serves its TCPStore on the MASTER_PORT that the launcher holds.
const torchJob = `
import os, sys, torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    dist.init_process_group("gloo")
    t = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(t)
    print("sum", t.item(), "threads", torch.get_num_threads(), flush=True)
    dist.barrier()
    if sys.argv[1:] == ["fail"] and dist.get_rank() == 1:
        raise ValueError("rank 1 of %s broke" % os.environ["TORCHELASTIC_RUN_ID"])
    dist.barrier()
main()
`

func TestInteropTorchFormsItsGroup(t *testing.T) {
	f := newFixture(2, "-c", torchJob)
	f.Program, f.RunID = python(t), "interop"
	wantCode(t, f.run(t), 0)
	for _, want := range []string{"[rank0]: sum 3.0 threads 1\n", "[rank1]: sum 3.0 threads 1\n"} {
		if !strings.Contains(f.out.String(), want) {
			t.Errorf("output lacks %q:\n%s%s", want, f.out.String(), f.err.String())
		}
	}
}

func TestInteropTorchErrorFile(t *testing.T) {
	f := newFixture(2, "-c", torchJob, "fail")
	f.Program, f.RunID = python(t), "interop"
	r := f.run(t)
	wantCode(t, r, 1)
	if r.First == nil || r.First.Rank != 1 || !strings.Contains(r.First.Message, "ValueError: rank 1 of interop broke") {
		t.Errorf("report:\n%s", text(t, r))
	}
}
