#!/usr/bin/env python3
"""Write kernel/testdata/adam.json: steps of torch's fused Adam and AdamW on random values.

Run with a torch that dispatches to AVX2 (ATEN_CPU_CAPABILITY=avx2 on a larger
CPU): the scalar tail of torch's kernel depends on the vector width.
Every array is the base64 of its little-endian float32 bytes.
"""
import base64
import json
import sys

import numpy as np
import torch

CASES = [
    dict(adamw=True, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, maximize=False),
    dict(adamw=True, lr=5e-2, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.0, maximize=False),
    dict(adamw=False, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, maximize=False),
    dict(adamw=False, lr=3e-3, betas=(0.8, 0.99), eps=1e-8, weight_decay=0.1, maximize=True),
    dict(adamw=True, lr=1e-2, betas=(0.3, 0.9), eps=1e-8, weight_decay=0.1, maximize=False),
]
SIZES = [1, 3, 7, 8, 10, 13, 16, 31, 64, 320]
STEPS = 3


def b64(t):
    return base64.b64encode(t.detach().numpy().astype("<f4").tobytes()).decode()


def run(case, n, gen):
    settings = dict(case)
    kind = torch.optim.AdamW if settings.pop("adamw") else torch.optim.Adam
    p = torch.from_numpy(gen.normal(size=n).astype("f4")).requires_grad_()
    opt = kind([p], fused=True, **settings)
    out = dict(case, n=n, p0=b64(p), steps=[])
    for _ in range(STEPS):
        # Magnitudes from 1e-4 to 1e2, so that every term matters somewhere.
        g = gen.normal(size=n) * 10.0 ** gen.uniform(-4, 2, size=n)
        p.grad = torch.from_numpy(g.astype("f4"))
        opt.step()
        s = opt.state[p]
        out["steps"].append(dict(g=b64(p.grad), p=b64(p), m=b64(s["exp_avg"]), v=b64(s["exp_avg_sq"])))
    return out


def main(path):
    gen = np.random.default_rng(20)
    cases = [run(case, n, gen) for case in CASES for n in SIZES]
    with open(path, "w") as f:
        json.dump(dict(torch=torch.__version__, capability=torch.backends.cpu.get_cpu_capability(), cases=cases), f)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "kernel/testdata/adam.json")
