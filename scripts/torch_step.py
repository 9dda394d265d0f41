#!/usr/bin/env python3
"""Time torch's training step against BenchmarkStep of package model, alternating.

    go test -c -o model.test ./model && scripts/torch_step.py ./model.test

Both run on one thread; prints the median time of each and torch's over ours.
"""
import re
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

CASES = [
    ("16x10-64-1", [10, 64, 1], "mse", 16),
    ("64x512-256-10", [512, 256, 10], "cross_entropy", 64),
    ("256x1024-1024-10", [1024, 1024, 10], "cross_entropy", 256),
]


def torch_seconds(sizes, kind, rows, duration=0.5):
    net = nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]))
    try:
        opt = torch.optim.AdamW(net.parameters(), lr=1e-6, fused=True)
    except (TypeError, RuntimeError):  # older torch
        opt = torch.optim.AdamW(net.parameters(), lr=1e-6)
    x = torch.randn(rows, sizes[0])
    if kind == "mse":
        target, fn = torch.zeros(rows, sizes[2]), nn.functional.mse_loss
    else:
        target, fn = torch.zeros(rows, dtype=torch.long), nn.functional.cross_entropy

    def step():
        opt.zero_grad(set_to_none=True)
        fn(net(x), target).backward()
        opt.step()

    for _ in range(5):
        step()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < duration:
        step()
        count += 1
    return (time.perf_counter() - start) / count


def our_seconds(binary, name):
    out = subprocess.run([binary, "-test.run", "xxx", "-test.bench", f"Step/{name}$", "-test.benchtime", "500ms", "-test.cpu", "1"],
                         capture_output=True, text=True, check=True).stdout
    return float(re.search(r"([\d.]+) ns/op", out).group(1)) * 1e-9


def main(binary):
    torch.set_num_threads(1)
    print("torch", torch.__version__)
    for name, sizes, kind, rows in CASES:
        theirs, ours = [], []
        for _ in range(5):
            theirs.append(torch_seconds(sizes, kind, rows))
            ours.append(our_seconds(binary, name))
        a, b = statistics.median(theirs), statistics.median(ours)
        print(f"{name}: torch {a * 1e6:.1f} µs, ours {b * 1e6:.1f} µs, ratio {a / b:.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
