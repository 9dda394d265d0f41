"""Writes data/testdata/samplers.txt.gz: the rows that accelerate and torch give to each rank.

usage: sampler_testdata.py OUT.txt.gz        (accelerate 1.15, torch 2.14)
Each line is `KIND key=value … : LEN of rank 0/its batches | the next rank`, where
LEN is len(dataloader), batches are separated by spaces and rows by dots. KIND is
accelerate (a DataLoader made by prepare_data_loader) or distributed (a DataLoader
over torch's DistributedSampler). shuffle=0 reads in file order. dispatch is
accelerate with dispatch_batches, by as many gloo processes as there are ranks.
"""
import gzip
import os
import sys
import tempfile

import accelerate
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler


def text(loaders):
    return " | ".join(f"{len(l)}/" + " ".join(".".join(map(str, b)) for b in l) for l in loaders)


def accelerate_line(rows, batch, world, drop, even, split, seed=None, epoch=0):
    def loader(rank):
        data = range(rows)
        sampler = SequentialSampler(data) if seed is None else RandomSampler(data)
        inner = DataLoader(data, batch_size=batch, sampler=sampler, drop_last=drop, collate_fn=list)
        outer = prepare_data_loader(inner, num_processes=world, process_index=rank, split_batches=split, even_batches=even,
                                    put_on_device=False, dispatch_batches=False, use_seedable_sampler=True,
                                    data_seed=seed)
        outer.set_epoch(epoch)
        return outer
    shuffle = "shuffle=0" if seed is None else f"shuffle=1 seed={seed} epoch={epoch}"
    return (f"accelerate rows={rows} batch={batch} world={world} drop={drop:d} even={even:d} split={split:d} {shuffle} : "
            + text([loader(r) for r in range(world)]))


def distributed_line(rows, batch, world, drop, drop_batch, seed=None, epoch=0):
    def loader(rank):
        sampler = DistributedSampler(range(rows), num_replicas=world, rank=rank, shuffle=seed is not None,
                                     seed=seed or 0, drop_last=drop)
        sampler.set_epoch(epoch)
        return DataLoader(range(rows), batch_size=batch, sampler=sampler, drop_last=drop_batch, collate_fn=list)
    shuffle = "shuffle=0" if seed is None else f"shuffle=1 seed={seed} epoch={epoch}"
    return (f"distributed rows={rows} batch={batch} world={world} drop={drop:d} dropbatch={drop_batch:d} {shuffle} : "
            + text([loader(r) for r in range(world)]))


def dispatch_cases(world):
    """All (rows, batch, drop, split, seed, epoch) of one world size."""
    for rows in [*range(world, 20), 33]:
        for per_rank in (1, 2, 3):
            for drop in (False, True):
                for split in (False, True):
                    if not drop or rows >= per_rank * world:  # else nothing is left, which accelerate cannot handle
                        yield rows, per_rank * world if split else per_rank, drop, split, None, 0
    yield 40, 4, False, False, 42, 3
    yield 101, 4 * world, False, True, 7, 1


def dispatch_rank(rank, world, directory):
    """Runs one rank's loaders and writes a line of len/batches for each case."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29811 + world))
    torch.set_num_threads(1)
    PartialState(cpu=True)
    with open(f"{directory}/{rank}", "w") as out:
        for rows, batch, drop, split, seed, epoch in dispatch_cases(world):
            data = torch.arange(rows)
            sampler = SequentialSampler(data) if seed is None else RandomSampler(data)
            inner = DataLoader(data, batch_size=batch, sampler=sampler, drop_last=drop)
            outer = prepare_data_loader(inner, torch.device("cpu"), num_processes=world, process_index=rank,
                                        split_batches=split, put_on_device=True, dispatch_batches=True,
                                        use_seedable_sampler=True, data_seed=seed)
            outer.set_epoch(epoch)
            print(f"{len(outer)}/" + " ".join(".".join(map(str, b.tolist())) for b in outer), file=out)
    torch.distributed.destroy_process_group()


def dispatch_lines(world):
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(dispatch_rank, (world, directory), nprocs=world, start_method="fork")
        ranks = [open(f"{directory}/{rank}").read().splitlines() for rank in range(world)]
    for (rows, batch, drop, split, seed, epoch), *parts in zip(dispatch_cases(world), *ranks, strict=True):
        shuffle = "shuffle=0" if seed is None else f"shuffle=1 seed={seed} epoch={epoch}"
        yield (f"dispatch rows={rows} batch={batch} world={world} drop={drop:d} split={split:d} {shuffle} : "
               + " | ".join(parts))


def main():
    dispatched = [line for world in (2, 3, 4) for line in dispatch_lines(world)]
    PartialState(cpu=True)
    lines = [f"# accelerate {accelerate.__version__}, torch {torch.__version__}"]
    flags = [(a, b, c) for a in (False, True) for b in (False, True) for c in (False, True)]
    for rows in range(1, 41):
        for world in range(1, 5):
            for per_rank in range(1, 6):
                for drop, even, split in flags:
                    lines.append(accelerate_line(rows, per_rank * world if split else per_rank, world, drop, even, split))
            for batch in (1, 3):
                for drop in (False, True):
                    for drop_batch in (False, True):
                        lines.append(distributed_line(rows, batch, world, drop, drop_batch))
    for seed, epoch in ((42, 0), (42, 3), (0, 1), (-5, 2), (2**40, 1)):
        for rows, batch, world in ((7, 2, 3), (40, 4, 2), (101, 8, 4)):
            lines.append(accelerate_line(rows, batch, world, False, True, False, seed, epoch))
            lines.append(distributed_line(rows, batch, world, False, False, seed, epoch))
    lines.extend(dispatched)
    with open(sys.argv[1], "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(("\n".join(lines) + "\n").encode())
    print(len(lines), "cases")


if __name__ == "__main__":
    main()
