"""Writes rng/testdata/torch.json: what torch's CPU generator gives.

usage: rng_testdata.py OUT.json        (torch 2.14 on x86-64 with AVX2)
Floats are the integers of their bits, states are base64.
"""
import base64
import hashlib
import json
import sys

import torch

assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"), "the fused roundings need AVX2"


def gen(seed):
    return torch.Generator().manual_seed(seed)


def bits(t):
    return t.view(torch.int32 if t.dtype == torch.float32 else torch.int64).tolist()


def blob(g):
    return base64.b64encode(g.get_state().numpy().tobytes()).decode()


def digest(t):
    return hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest()


out = {"torch": torch.__version__}

out["words"] = []
for seed in (0, 1, 42, 2**32 - 1, 2**32 + 42, 2**64 - 1, -1, -42):
    g = gen(seed)
    draw = lambda: torch.empty((), dtype=torch.int32).random_(0, 2**28 - 1, generator=g)  # one word modulo 2^28-1
    out["words"].append({"seed": str(seed % 2**64), "modulus": 2**28 - 1, "values": [draw().item() for _ in range(1300)][::13]})

out["randperm"] = []
for seed in (0, 42, 101):
    for n in (0, 1, 2, 3, 10, 40, 300, 625, 10000, 1000003):
        g = gen(seed)
        p = torch.randperm(n, generator=g)
        out["randperm"].append({"seed": seed, "n": n, "head": p[:20].tolist(), "sha256_int64": digest(p), "then": torch.randperm(5, generator=g).tolist()})

out["states"] = []
for draws in (0, 1, 2, 4, 623, 624, 625, 1248, 1249):
    g = gen(20240229)
    for _ in range(draws):
        torch.empty((), dtype=torch.int32).random_(0, 2, generator=g)
    out["states"].append({"draws": draws, "normal": False, "blob": blob(g), "then_rand_8": bits(torch.rand(8, generator=g))})
g = gen(5)
torch.empty(3).normal_(generator=g)
out["states"].append({"draws": 8, "normal": True, "blob": blob(g), "then_rand_8": bits(torch.rand(8, generator=g)), "then_normal_1": bits(torch.empty(1).normal_(generator=g))})

out["uniform"] = []
for seed, n, low, high in ((1, 64, 0.0, 1.0), (2, 64, -0.31622776601683794, 0.31622776601683794), (3, 64, -0.125, 0.125),
                           (4, 64, 3.0, 3.0000004), (5, 64, -1e30, 1e30), (6, 64, 5.0, 5.0), (7, 64, 0.1, 0.3)):
    out["uniform"].append({"seed": seed, "low": low, "high": high, "bits": bits(torch.empty(n).uniform_(low, high, generator=gen(seed)))})

out["bernoulli"] = []
for seed, p in ((1, 0.1), (2, 0.5), (3, 0.9), (4, 0.0), (5, 1.0)):
    row = {"seed": seed, "p": p}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        row[name] = torch.bernoulli(torch.full((200,), p, dtype=dtype), generator=gen(seed)).int().tolist()
    out["bernoulli"].append(row)

out["rand64"] = bits(torch.rand(16, dtype=torch.float64, generator=gen(9)))

out["normal"] = []
for seed, mean, std in ((1, 0.0, 1.0), (2, 0.0, 0.02), (3, -1.5, 0.3)):
    for n in (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 40, 1000, 65537):
        g = gen(seed)
        x = torch.empty(n).normal_(mean, std, generator=g)
        y = torch.empty(n).normal_(mean, std, generator=g)
        row = {"seed": seed, "mean": mean, "std": std, "n": n, "sha256": digest(x), "sha256_second": digest(y), "left": g.get_state()[8:10].numpy().view("<u2").tolist()[0]}
        if n <= 40:
            row["bits"] = bits(x)
        out["normal"].append(row)

out["linear_init"] = []
for seed, fan_in, fan_out in ((1, 10, 1), (2, 64, 32)):
    torch.manual_seed(seed)
    m = torch.nn.Linear(fan_in, fan_out)
    out["linear_init"].append({"seed": seed, "in": fan_in, "out": fan_out, "weight": digest(m.weight.detach()), "bias": bits(m.bias.detach())})

# The 64-bit branch, from 2^32/20 elements on, is recorded by its result only.
out["randperm_wide"] = []
for n in ((2**32 - 1) // 20 - 1, (2**32 - 1) // 20):
    g = gen(7)
    p = torch.randperm(n, generator=g, dtype=torch.int32)
    out["randperm_wide"].append({"seed": 7, "n": n, "sha256_int32": digest(p), "counters": g.get_state()[8:24].tolist()})

with open(sys.argv[1], "w") as f:
    f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}\n")
