# Measures torch.load and torch.save: a line on stdin names an operation, and a
# line of JSON on stdout answers.
import ctypes, gc, json, os, sys, time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what torch may print is no answer
import torch

path, target = sys.argv[1:]


def answer(**what):
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def status():
    levels = {}
    try:
        with open("/proc/self/status") as f:
            for line in f:
                words = line.split()
                if len(words) == 3 and words[2] == "kB":
                    levels[words[0].rstrip(":")] = int(words[1]) * 1024
    except OSError:
        pass
    return levels


def settle():
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except (OSError, AttributeError):
        return {}
    return status()


def own(v):
    if isinstance(v, torch.Tensor):
        return v.clone()
    if isinstance(v, dict):
        return {k: own(x) for k, x in v.items()}
    if isinstance(v, list):
        return [own(x) for x in v]
    return v


def torch_save():
    torch.save(state, target)


operations = {
    "open mmap=True": lambda: torch.load(path, mmap=True),
    "load mmap=True": lambda: own(torch.load(path, mmap=True)),
    "load": lambda: torch.load(path),
    "save": torch_save,
}
try:
    torch.load(path, mmap=True)
except TypeError:  # before torch 2.1
    operations = {k: v for k, v in operations.items() if "mmap" not in k}
answer(version=torch.__version__, operations=list(operations))
state = None
for line in sys.stdin:
    name = line.strip()
    state = torch.load(path) if name == "save" else None
    if name == "save" and os.path.exists(target):
        os.remove(target)
    before = settle()
    begun = time.perf_counter()
    result = operations[name]()
    seconds = time.perf_counter() - begun
    after = status()
    memory = {}
    if "RssAnon" in before:
        memory["own"] = max(after["RssAnon"] - before["RssAnon"], 0)
        memory["resident"] = max(after["VmHWM"] - before["VmRSS"], 0)
    del result
    answer(seconds=seconds, **memory)
