# Times torch.distributed's all_reduce over gloo: one rank, in torchrun's
# environment. Rank 0 prints a line of JSON for each size.
import json, os, sys, time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what torch may print is no answer
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in json.loads(sys.argv[1]):
    buf = torch.full((step["bytes"] // 4,), float(rank + 1))
    dist.all_reduce(buf)
    if not bool((buf == size * (size + 1) / 2).all()):
        sys.exit(f"rank {rank}: a wrong sum")
    buf.zero_()
    seconds = []
    for i in range(1, step["warm_up"] + step["calls"]):
        begun = time.perf_counter()
        dist.all_reduce(buf)
        if i >= step["warm_up"]:
            seconds.append(time.perf_counter() - begun)
    if rank == 0:
        print(json.dumps({"bytes": step["bytes"], "seconds": seconds, "torch": torch.__version__}), file=answers, flush=True)
dist.barrier()
dist.destroy_process_group()
