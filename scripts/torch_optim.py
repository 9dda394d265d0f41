#!/usr/bin/env python3
"""Write optim/testdata: what torch's optimizers, schedules and gradient clipping do.

    adam.json       whole optimizers: two groups, several steps, changing learning rates
    schedules.json  transformers' schedules on torch's LambdaLR
    clip.json       torch.nn.utils.clip_grad_norm_

Run with a torch that dispatches to AVX2 (ATEN_CPU_CAPABILITY=avx2 on a larger
CPU), and with transformers and mpmath. Float32 arrays are the base64 of their
little-endian bytes.

MKL's square root, which torch's PyPI wheels call outside the fused kernel, is
off by one unit in the last place for one number in five. It is replaced by the
correctly rounded one, which torch has without MKL.
"""
import base64
import json
import math
import os
import sys

import mpmath
import numpy as np
import torch
from transformers import get_scheduler

ADAM = [
    dict(adamw=True, fused=True, weight_decay=0.1),
    dict(adamw=True, weight_decay=0.1),
    dict(adamw=True, foreach=True, weight_decay=0.1),
    dict(adamw=False, fused=True, weight_decay=0.02),
    dict(adamw=False, weight_decay=0.02),
    dict(adamw=True, fused=True, weight_decay=0.1, amsgrad=True, betas=(0.9, 0.5)),
    dict(adamw=False, weight_decay=0.1, amsgrad=True, maximize=True, betas=(0.8, 0.6)),
    dict(adamw=True, weight_decay=0.1, maximize=True, betas=(0.3, 0.9)),
    dict(adamw=False, fused=True, weight_decay=0.0, eps=1e-3, betas=(0.0, 0.99)),
]
SHAPES = [[1], [2], [3], [2, 2], [5], [6], [7], [2, 4], [3, 3], [11], [3, 5], [16], [17], [31], [4, 9], [37]]
STEPS = 4

SCHEDULES = [
    ("constant", 0, 12, {}), ("constant", 5, 12, {}),
    ("constant_with_warmup", 4, 27, {}), ("constant_with_warmup", 0, 3, {}),
    ("linear", 0, 6, {}), ("linear", 2, 12, {}), ("linear", 7, 333, {}), ("linear", 5, 5, {}), ("linear", 9, 4, {}),
    ("cosine", 3, 14, {}), ("cosine", 0, 100, {}), ("cosine", 10, 1000, {}), ("cosine", 4, 4, {}),
    ("cosine", 5, 600, {"num_cycles": 3.7}), ("cosine", 0, 50, {"num_cycles": 2}),
]


def b64(t):
    return base64.b64encode(np.asarray(t.detach(), dtype="<f4").tobytes()).decode()


def numbers(gen, shape, low, high):
    scale = 10.0 ** gen.uniform(low, high, size=shape)
    return torch.from_numpy((gen.normal(size=shape) * scale).astype("f4"))


def round_sqrt_correctly():
    def sqrt(t):
        return torch.from_numpy(np.sqrt(t.numpy()))

    torch.Tensor.sqrt = sqrt
    torch._foreach_sqrt = lambda tensors: [sqrt(t) for t in tensors]


def adam(case, gen):
    settings = dict(case)
    kind = torch.optim.AdamW if settings.pop("adamw") else torch.optim.Adam
    params = [numbers(gen, s, -1, 1).requires_grad_() for s in SHAPES]
    decay = settings.pop("weight_decay")
    groups = [dict(params=params[::2], weight_decay=decay), dict(params=params[1::2], weight_decay=0.0)]
    opt = kind(groups, lr=1e-2, **settings)
    out = dict(case, shapes=SHAPES, values=[b64(p) for p in params], steps=[])
    for t in range(STEPS):
        lr = 1e-2 / (t + 1)
        for g in opt.param_groups:
            g["lr"] = lr
        for p in params:
            p.grad = numbers(gen, p.shape, -4, 2)
        opt.step()
        step = dict(lr=lr, grads=[b64(p.grad) for p in params], values=[b64(p) for p in params])
        for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            if key in opt.state[params[0]]:
                step[key] = [b64(opt.state[p][key]) for p in params]
        out["steps"].append(step)
    out["keys"] = [list(g) for g in opt.state_dict()["param_groups"]]
    return out


def exact(cos, x):
    with mpmath.workprec(200):
        return cos == float(mpmath.cos(mpmath.mpf(x)))


def schedule(name, warmup, total, kwargs):
    lr = 0.005
    opt = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    sched = get_scheduler(name, opt, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=kwargs)
    rates, misrounded = [], []
    for step in range(total + 3):
        rates.append(sched.get_last_lr()[0])
        if name == "cosine":
            progress = float(step - warmup) / float(max(1, total - warmup))
            x = math.pi * float(kwargs.get("num_cycles", 0.5)) * 2.0 * progress
            if step >= warmup and not exact(math.cos(x), x):
                misrounded.append(step)  # by this C library
        opt.step()
        sched.step()
    return dict(name=name, warmup=warmup, total=total, kwargs=kwargs, lr=lr, rates=rates, misrounded=misrounded)


def clip(shapes, max_norm, scale, gen):
    params = [torch.nn.Parameter(torch.zeros(s)) for s in shapes]
    for p in params:
        p.grad = numbers(gen, p.shape, scale - 1, scale)
    out = dict(max_norm=max_norm, grads=[b64(p.grad) for p in params])
    out["norm"] = b64(torch.nn.utils.clip_grad_norm_(params, max_norm))
    out["clipped"] = [b64(p.grad) for p in params]
    return out


def main(folder):
    torch.set_num_threads(1)
    round_sqrt_correctly()
    gen = np.random.default_rng(5)
    origin = dict(torch=torch.__version__, capability=torch.backends.cpu.get_cpu_capability())
    files = {
        "adam.json": [adam(c, gen) for c in ADAM],
        "schedules.json": [schedule(*s) for s in SCHEDULES],
        "clip.json": [clip([[n]], 0.5, 0, gen) for n in range(1, 41)]
        + [clip([[16, 64], [16], [10, 16], [10]], m, s, gen) for m, s in ((1.0, -1), (1.0, 1), (0.7, 0), (2.5, 2), (1e-3, 0))]
        + [clip([[3], [100]], 1.0, -30, gen), clip([[1], [9]], 1.0, 19.5, gen)],
    }
    for name, cases in files.items():
        with open(os.path.join(folder, name), "w") as f:
            json.dump(dict(origin, cases=cases), f)
            f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "optim/testdata")
