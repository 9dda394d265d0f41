#!/usr/bin/env python3
"""Write optim/testdata's state dicts of torch.save: optimizers of a Linear(9, 7)-ReLU-Linear(7, 2).

    sgd_momentum.pt   SGD with momentum after three steps, one group
    sgd_plain.pt      SGD without momentum, which has no state
    adam_named.pt     Adam given named parameters, the last layer's first, under "module."
"""
import os
import sys

import torch


def main(folder):
    torch.manual_seed(3)

    def run(make):
        net = torch.nn.Sequential(torch.nn.Linear(9, 7), torch.nn.ReLU(), torch.nn.Linear(7, 2))
        opt = make(net)
        for _ in range(3):
            opt.zero_grad()
            net(torch.randn(5, 9)).square().sum().backward()
            opt.step()
        return opt.state_dict()

    def named(net):
        pairs = [("module." + n, p) for n, p in net.named_parameters()]
        return torch.optim.Adam([{"params": pairs[2:]}, {"params": pairs[:2], "weight_decay": 0.1}], lr=0.01)

    files = {
        "sgd_momentum.pt": lambda net: torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1),
        "sgd_plain.pt": lambda net: torch.optim.SGD(net.parameters(), lr=0.01),
        "adam_named.pt": named,
    }
    for name, make in files.items():
        torch.save(run(make), os.path.join(folder, name))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "optim/testdata")
