"""Writes data/testdata/samplers.txt.gz: the rows that accelerate and torch give to each rank.

usage: sampler_testdata.py OUT.txt.gz        (accelerate 1.15, torch 2.14)
Each line is `KIND key=value … : LEN of rank 0/its batches | the next rank`, where
LEN is len(dataloader), batches are separated by spaces and rows by dots. KIND is
accelerate (a DataLoader made by prepare_data_loader) or distributed (a DataLoader
over torch's DistributedSampler). shuffle=0 reads in file order.
"""
import gzip
import sys

import accelerate
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader
import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

PartialState(cpu=True)


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

with open(sys.argv[1], "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
    z.write(("\n".join(lines) + "\n").encode())
print(len(lines), "cases")
