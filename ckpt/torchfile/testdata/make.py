"""Writes torch/ beside this script: one file per kind of thing that torch.save
writes, manifest.json with what torch sees in each, and hashes.json with the
SHA-256 of files that the tests build themselves. Run with torch 2.14.1.
"""
import argparse, collections, enum, hashlib, json, os, sys
import numpy as np, torch
from torch import nn

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch")
os.makedirs(here, exist_ok=True)
os.chdir(here)
torch.manual_seed(20)
manifest, hashes = {}, {}


def elements(t):
    t = t.detach().contiguous()
    if t.is_complex():
        t = torch.view_as_real(t).contiguous()
    return bytes(t.flatten().view(torch.uint8).numpy()) if t.numel() else b""


def walk(o, path, out):
    if isinstance(o, torch.Tensor):
        if o.device.type == "meta":
            out[path] = {"dtype": str(o.dtype)[6:], "shape": list(o.shape), "stride": list(o.stride()), "storage_offset": 0, "sha256": "meta"}
        else:
            out[path] = {"dtype": str(o.dtype)[6:], "shape": list(o.shape), "stride": list(o.stride()), "storage_offset": o.storage_offset(), "sha256": hashlib.sha256(elements(o)).hexdigest()}
    elif isinstance(o, dict):
        for k, v in o.items():
            walk(v, f"{path}.{k}" if path else str(k), out)
    elif isinstance(o, (list, tuple)) and not isinstance(o, torch.Size):
        for i, v in enumerate(o):
            walk(v, f"{path}.{i}" if path else str(i), out)


def put(name, obj, **options):
    torch.save(obj, name, **options)
    out = {}
    walk(obj, "", out)
    manifest[name] = out


class Color(enum.Enum):
    RED = "red"


base = torch.randn(5, 4)
param = nn.Parameter(torch.randn(2)); param.note = "kept"
put("channels_last.pt", {"w": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)})
put("parameter_with_state.pt", {"w": param})
put("buffer.pt", {"b": nn.Buffer(torch.randn(3))})
put("legacy_bf16.pt", torch.randn(5).bfloat16(), _use_new_zipfile_serialization=False)
put("legacy_views.pt", {"base": base, "row": base[2], "float8": torch.rand(4).to(torch.float8_e5m2), "n": torch.arange(7)}, _use_new_zipfile_serialization=False)
for protocol in (0, 1, 3, 4, 5):
    put(f"protocol{protocol}.pt", {**({"w": base.clone()} if protocol else {}), "s": {1, 2}, "f": frozenset([3]), "b": b"\x00\xff", "é": -7, "big": 2**80, "neg": -2**40, "t": (True, None, 2.5), "ba": bytearray(b"xy"), "od": collections.OrderedDict(a=1)}, pickle_protocol=protocol)
put("tied_twice.pt", [base.clone()] * 2 + [torch.zeros(1) for _ in range(12)])
shared = torch.arange(24.0)
put("overlap.pt", {"head": shared[:16], "tail": shared[8:], "again": shared[8:]})
put("float8_all.pt", {str(d)[6:]: (torch.rand(3) + 1).to(d) for d in [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]})
put("complex32.pt", {"c": torch.view_as_complex(torch.rand(3, 2).half())})
put("grad.pt", {"leaf": torch.ones(2, requires_grad=True)})
put("numpy_more.pt", {"fortran": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)), "bool": np.array([True, False]), "big_endian": np.arange(3, dtype=">f4"), "empty": np.zeros((0, 2)), "zero_d": np.array(1.5), "same": [np.float64(1.5), np.float64(1.5)], "text": np.array(["a"])})
put("strings.pt", {"0": "storage", "1": "10", "10": torch.zeros(1), "cpu": [torch.zeros(1) for _ in range(11)], "e": "", "é": ["é", "é"], "b": [b"", b"a", b"ab", b""]})
put("empty_containers.pt", {"d": {}, "l": [], "t": (), "s": set(), "f": frozenset(), "od": collections.OrderedDict(), "c": collections.Counter(), "dd": collections.defaultdict(list), "none": collections.defaultdict(), "ba": bytearray(), "size": torch.Size([])})
recursive = []; recursive.append(recursive); recursive.append((recursive, 1))
torch.save({"r": recursive}, "recursive.pt")
put("ints.pt", [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -1, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 127, 128, -128, -129, 2**2039, -(2**2039)])
put("floats.pt", [0.0, -0.0, 1e-300, float("inf"), float("-inf"), 5e-324])
torch.save(argparse.Namespace(lr=0.1, model=argparse.Namespace(width=3)), "namespace.pt")
net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)); net[1].register_buffer("scratch", torch.ones(1), persistent=False)
torch.save(net, "module.pt")
manifest["module.pt"] = {}
walk(dict(net.state_dict()), "", manifest["module.pt"])
torch.save({"c": Color.RED, "d": torch.device("cpu", 1), "layout": torch.strided, "q": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "sparse": torch.eye(2).to_sparse()}, "opaque.pt")
from torch.utils.serialization import config
config.save.storage_alignment = 4096
put("align_4096.pt", {"w": base.clone()})
config.save.storage_alignment = 64
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
net(torch.randn(8, 3)).pow(2).mean().backward(); sgd.step()
put("sgd_momentum.pt", sgd.state_dict())
torch.save(nn.Sequential(nn.Linear(2, 1)), "legacy_module.pt", _use_new_zipfile_serialization=False)
json.dump(manifest, open("manifest.json", "w"), indent=1, ensure_ascii=False, sort_keys=True)


def digest(name, obj):
    torch.save(obj, "archive.pt")
    hashes[name] = hashlib.sha256(open("archive.pt", "rb").read()).hexdigest()
    os.remove("archive.pt")


for n in (1, 13, 14, 300, 3000):
    digest(f"tensors_{n}", {f"layer.{i}": torch.full((1,), float(i)) for i in range(n)})
for n in (999, 1000, 1001, 1002, 2000, 2001):
    digest(f"list_{n}", list(range(n)))
    digest(f"dict_{n}", {i: None for i in range(n)})
    digest(f"ordered_{n}", collections.OrderedDict((i, None) for i in range(n)))
json.dump(hashes, open("hashes.json", "w"), indent=1)
