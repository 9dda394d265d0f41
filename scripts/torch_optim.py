#!/usr/bin/env python3
"""Write optim/testdata: what torch's optimizers, schedules and gradient clipping do.

    adam.json       whole optimizers: two groups, several steps, changing learning rates
    sgd.json        the same for SGD
    schedules.json  transformers' schedules on torch's LambdaLR
    schedulers.json torch's other schedulers, with their state dicts
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
SGD = [
    dict(),
    dict(weight_decay=0.1),
    dict(momentum=0.9),
    dict(momentum=0.9, foreach=True),
    dict(momentum=0.9, fused=True),
    dict(momentum=0.8, dampening=0.3, weight_decay=0.05),
    dict(momentum=0.8, dampening=0.3, weight_decay=0.05, foreach=True),
    dict(momentum=0.8, dampening=0.3, weight_decay=0.05, fused=True),
    dict(momentum=0.7, nesterov=True, weight_decay=0.02, maximize=True),
    dict(momentum=0.7, nesterov=True, weight_decay=0.02, maximize=True, foreach=True),
    dict(momentum=0.7, nesterov=True, weight_decay=0.02, maximize=True, fused=True),
    dict(fused=True, weight_decay=0.1),
]

SCHEDULES = [
    ("constant", 0, 12, {}), ("constant", 5, 12, {}),
    ("constant_with_warmup", 4, 27, {}), ("constant_with_warmup", 0, 3, {}),
    ("linear", 0, 6, {}), ("linear", 2, 12, {}), ("linear", 7, 333, {}), ("linear", 5, 5, {}), ("linear", 9, 4, {}),
    ("cosine", 3, 14, {}), ("cosine", 0, 100, {}), ("cosine", 10, 1000, {}), ("cosine", 4, 4, {}),
    ("cosine", 5, 600, {"num_cycles": 3.7}), ("cosine", 0, 50, {"num_cycles": 2}),
    ("cosine_with_restarts", 3, 40, {}), ("cosine_with_restarts", 7, 600, {"num_cycles": 3}),
    ("cosine_with_restarts", 0, 50, {"num_cycles": 2.5}),
    ("cosine_with_min_lr", 4, 300, {"min_lr_rate": 0.1}), ("cosine_with_min_lr", 0, 70, {"min_lr": 1e-4, "num_cycles": 1.5}),
    ("polynomial", 3, 40, {}), ("polynomial", 0, 400, {"power": 2.0}), ("polynomial", 5, 90, {"power": 3, "lr_end": 1e-3}),
    ("polynomial", 0, 30, {"power": 0.5}), ("polynomial", 0, 60, {"power": 1.7, "lr_end": 0.0}), ("polynomial", 9, 4, {}),
    ("inverse_sqrt", 0, 50, {}), ("inverse_sqrt", 8, 300, {}), ("inverse_sqrt", 5, 60, {"timescale": 100}), ("inverse_sqrt", 5, 60, {"timescale": 2}),
]

SCHEDULERS = [
    ("StepLR", dict(step_size=3)), ("StepLR", dict(step_size=1, gamma=0.97)), ("StepLR", dict(step_size=5, gamma=1.3)),
    ("MultiStepLR", dict(milestones=[5])), ("MultiStepLR", dict(milestones=[9, 2, 9, 20], gamma=0.3)),
    ("MultiStepLR", dict(milestones=[4, 4, 4, 11], gamma=0.7)),
    ("CosineAnnealingLR", dict(T_max=10)), ("CosineAnnealingLR", dict(T_max=7, eta_min=1e-4)), ("CosineAnnealingLR", dict(T_max=1)),
    ("CosineAnnealingLR", dict(T_max=200, eta_min=1e-6)),
    ("ReduceLROnPlateau", dict(patience=2)), ("ReduceLROnPlateau", dict(mode="max", factor=0.5, patience=1, threshold_mode="abs", threshold=0.02)),
    ("ReduceLROnPlateau", dict(factor=0.2, patience=0, cooldown=3, min_lr=1e-4)),
    ("ReduceLROnPlateau", dict(mode="max", patience=1, min_lr=[1e-3, 2e-3], eps=1e-3)),
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


def sgd(case, gen):
    params = [numbers(gen, s, -1, 1).requires_grad_() for s in SHAPES]
    opt = torch.optim.SGD([dict(params=params[::2]), dict(params=params[1::2])], lr=1e-2, **case)
    out = dict(case, shapes=SHAPES, values=[b64(p) for p in params], steps=[])
    for t in range(STEPS):
        lr = 1e-2 / (t + 1)
        for g in opt.param_groups:
            g["lr"] = lr
        for p in params:
            p.grad = numbers(gen, p.shape, -2, 1)
        opt.step()
        step = dict(lr=lr, grads=[b64(p.grad) for p in params], values=[b64(p) for p in params])
        if case.get("momentum"):
            step["momentum_buffer"] = [b64(opt.state[p]["momentum_buffer"]) for p in params]
        out["steps"].append(step)
    out["keys"] = [list(g) for g in opt.state_dict()["param_groups"]]
    return out


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
        if name.startswith("cosine"):
            progress = float(step - warmup) / float(max(1, total - warmup))
            x = math.pi * float(kwargs.get("num_cycles", 0.5)) * 2.0 * progress
            if name == "cosine_with_restarts":
                x = math.pi * ((float(kwargs.get("num_cycles", 1)) * progress) % 1.0)
            if step >= warmup and not exact(math.cos(x), x):
                misrounded.append(step)  # by this C library
        opt.step()
        sched.step()
    return dict(name=name, warmup=warmup, total=total, kwargs=kwargs, lr=lr, rates=rates, misrounded=misrounded)


def plain(v):
    """JSON has no infinity and no types for integers: [type, text], lists and pairs."""
    if isinstance(v, dict):
        return {"type": type(v).__name__, "items": [[plain(k), plain(w)] for k, w in v.items()]}
    if isinstance(v, list):
        return [plain(w) for w in v]
    return {"type": type(v).__name__, "text": v.hex() if isinstance(v, float) else str(v)}


def metric(step):
    return math.cos(0.9 * step) / (1 + 0.1 * step) + (0.3 if step > 12 else 0.0)


def scheduler(name, kwargs):
    opt = torch.optim.SGD([dict(params=[torch.nn.Parameter(torch.zeros(1))], lr=lr) for lr in (0.1, 0.007)])
    sched = getattr(torch.optim.lr_scheduler, name)(opt, **kwargs)
    rates, states, metrics = [], [], []
    for step in range(45):
        rates.append([g["lr"] for g in opt.param_groups])
        states.append(plain(sched.state_dict()))
        opt.step()
        if name == "ReduceLROnPlateau":
            metrics.append(metric(step))
            sched.step(metrics[-1])
        else:
            sched.step()
    return dict(name=name, kwargs=kwargs, rates=rates, metrics=metrics, states=[states[0], states[5], states[44]])


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
        "sgd.json": [sgd(c, np.random.default_rng(6)) for c in SGD],
        "schedulers.json": [scheduler(*s) for s in SCHEDULERS],
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
