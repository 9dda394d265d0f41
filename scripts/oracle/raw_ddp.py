"""Plain PyTorch DDP on N gloo CPU ranks: the torch.save dict that people write by hand.

Trains ModelArch-like MLP with torch.optim.Adam, then saves three forms of one state:
  checkpoint_epoch_E.pth      {'epoch','model_state_dict','optimizer_state_dict','loss','device',
                              'pytorch_version','description'}, storages tagged cuda:0 and cuda:1
  model_dp2_cuda.pth          bare state_dict with the DistributedDataParallel 'module.' prefix, tagged cuda:0
  legacy.pth                  the first, in the pre-1.6 non-zip format
and trace.json: the losses per step and rank of the whole run, for a resume at the saved epoch.
usage (once per rank): raw_ddp.py CASE OUT
"""
import json, os, sys
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
case = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "raw_cases.json")))[sys.argv[1]]; out = sys.argv[2]
dist.init_process_group("gloo"); rank, world = dist.get_rank(), dist.get_world_size()

class Rows(Dataset):
    def __init__(self, path): self.rows = [json.loads(l) for l in open(path)]
    def __len__(self): return len(self.rows)
    def __getitem__(self, i):
        r = self.rows[i]; return torch.tensor(r["x"]), torch.tensor(r["label"]), i

class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers = []
        for a, b in zip(sizes, sizes[1:]): layers += [nn.Linear(a, b), nn.ReLU()]
        self.backbone = nn.Sequential(*layers[:-1])
    def forward(self, x): return self.backbone(x)

torch.manual_seed(case["seed"])
net = Net(case["sizes"]); model = DDP(net)
opt = torch.optim.Adam(model.parameters(), **case["adam"])
data = Rows(case["data"])
sampler = DistributedSampler(data, shuffle=True, seed=case["sampler_seed"])
loader = DataLoader(data, batch_size=case["batch"], sampler=sampler)

tag = {"n": 0}
def cuda_tag(storage):  # what a 2-GPU host would have written
    tag["n"] += 1
    return f"cuda:{tag['n'] % 2}"

def save(obj, path, **k):
    keep = torch.serialization.location_tag
    torch.serialization.location_tag = cuda_tag
    try: torch.save(obj, path, **k)
    finally: torch.serialization.location_tag = keep

trace = []
os.makedirs(out, exist_ok=True)
if rank == 0: torch.save(net.state_dict(), f"{out}/initial_state_dict.pt")
for epoch in range(case["epochs"]):
    sampler.set_epoch(epoch)
    for x, y, i in loader:
        opt.zero_grad(); loss = nn.functional.cross_entropy(model(x), y); loss.backward(); opt.step()
        trace.append({"epoch": epoch, "rows": i.tolist(), "loss": loss.item()})
    if rank == 0 and epoch == case["save_epoch"]:
        state = {"epoch": epoch, "model_state_dict": model.state_dict(), "optimizer_state_dict": opt.state_dict(),
                 "loss": loss.item(), "device": "cuda:0", "pytorch_version": torch.__version__, "description": "two-GPU run"}
        save(state, f"{out}/checkpoint_epoch_{epoch}.pth")
        save(state, f"{out}/legacy.pth", _use_new_zipfile_serialization=False)
        save(model.state_dict(), f"{out}/model_dp2_cuda.pth")
if rank == 0:
    torch.save({"epoch": epoch, "model_state_dict": net.state_dict(), "optimizer_state_dict": opt.state_dict()}, f"{out}/final.pth")
json.dump(trace, open(f"{out}/trace-rank{rank}.json", "w"))
dist.destroy_process_group()
