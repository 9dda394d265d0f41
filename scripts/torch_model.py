#!/usr/bin/env python3
"""Write losses and gradients of real torch, to hold package model to.

    torch_model.py random                        stacks on random values, to standard output
    torch_model.py init                          how torch initialises linear layers
    torch_model.py LOSS DATA.jsonl STATE...      the first rows of a data file on saved states

A STATE is a .pt state_dict or a .safetensors file of linear layers, with ReLU
between them. Every array is the base64 of its little-endian bytes.
"""
import base64
import json
import sys

import torch
from torch import nn


def b64(t):
    return base64.b64encode(t.detach().contiguous().numpy().tobytes()).decode()


def stack(sizes, bias=True):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def case(net, prefix, loss_kind, x, target, divisor, name):
    net.zero_grad(set_to_none=True)
    output = net(x)
    fn = nn.functional.cross_entropy if loss_kind == "cross_entropy" else nn.functional.mse_loss
    loss = fn(output, target) / divisor
    loss.backward()
    layers = []
    for i, m in enumerate(net):
        if isinstance(m, nn.ReLU):
            layers.append("relu")
        else:
            layers.append({"linear": [m.in_features, m.out_features], "name": prefix(i), "bias": m.bias is not None})
    params = [(prefix(int(k.split(".")[0])) + "." + k.split(".")[1], p) for k, p in net.named_parameters()]
    return {
        "name": name, "loss_kind": loss_kind, "layers": layers, "rows": len(x), "divisor": divisor,
        "x": b64(x), "target": b64(target), "output": b64(output), "loss": b64(loss.reshape(1)),
        "params": [{"name": k, "shape": list(p.shape), "value": b64(p), "grad": b64(p.grad)} for k, p in params],
    }


def random_cases():
    torch.manual_seed(20)
    out = []
    for sizes, kind, rows, divisor, bias in [
        ([10, 1], "mse", 4, 1, True),
        ([10, 64, 1], "mse", 16, 2, True),
        ([7, 13, 5], "mse", 9, 3, False),
        ([64, 32, 10], "cross_entropy", 24, 2, True),
        ([20, 33, 17, 12], "cross_entropy", 70, 1, True),
        ([16, 24, 40], "cross_entropy", 5, 7, False),
    ]:
        x = torch.randn(rows, sizes[0])
        if kind == "mse":
            target = torch.randn(rows, sizes[-1])
        else:
            target = torch.randint(sizes[-1], (rows,))
            target[1] = -100  # ignored
        out.append(case(stack(sizes, bias), lambda i: f"net.{i}", kind, x, target, divisor, f"{sizes} {kind}"))
    return out


def load(path):
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file
        return load_file(path)
    return torch.load(path, map_location="cpu")


def saved_cases(kind, data, paths):
    rows = [json.loads(line) for line in open(data)][:24]
    x = torch.tensor([r["x"] for r in rows])
    target = torch.tensor([r["y"] for r in rows]) if kind == "mse" else torch.tensor([r["label"] for r in rows])
    out = []
    for path in paths:
        state = load(path)
        weights = [k for k in state if k.endswith(".weight")]
        weights.sort(key=lambda k: [int(s) if s.isdigit() else s for s in k.split(".")])
        net = stack([state[weights[0]].shape[1]] + [state[k].shape[0] for k in weights])
        names = [k[: -len(".weight")] for k in weights]
        linear = [m for m in net if isinstance(m, nn.Linear)]
        for m, name in zip(linear, names):
            m.weight.data.copy_(state[name + ".weight"])
            m.bias.data.copy_(state[name + ".bias"])
        short = "/".join(path.split("/")[-3:])
        out.append(case(net, lambda i: names[i // 2], kind, x, target, 1 if kind == "mse" else 2, short))
    return out


def init_cases():
    out = []
    for seed, sizes in [(0, [10, 1]), (7, [3, 5, 2]), (42, [30, 8, 6])]:
        torch.manual_seed(seed)
        net = stack(sizes)
        values = [{"name": k, "value": b64(p)} for k, p in net.named_parameters()]
        torch.manual_seed(seed)
        draws = torch.rand(sum(p.numel() for p in net.parameters()))
        out.append({"sizes": sizes, "draws": b64(draws), "params": values})
    return out


def main(args):
    torch.set_num_threads(1)
    if args == ["random"]:
        cases = random_cases()
    elif args == ["init"]:
        cases = init_cases()
    else:
        cases = saved_cases(args[0], args[1], args[2:])
    json.dump({"torch": torch.__version__, "cases": cases}, sys.stdout)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
