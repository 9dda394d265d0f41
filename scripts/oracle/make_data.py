"""Writes regression.jsonl and digits.jsonl into the working directory (deterministic; the digits are scikit-learn's)."""
import json
import numpy as np
rng = np.random.default_rng(7)
w = rng.normal(size=(10, 1))
with open("regression.jsonl", "w") as f:
    for _ in range(40):
        x = rng.normal(size=10)
        y = x @ w + 0.1 * rng.normal(size=1)
        f.write(json.dumps({"x": [round(float(v), 6) for v in x], "y": [round(float(y[0]), 6)]}) + "\n")
from sklearn.datasets import load_digits
d = load_digits()
with open("digits.jsonl", "w") as f:
    for i in range(300):
        f.write(json.dumps({"x": [float(v) / 16 for v in d.data[i]], "label": int(d.target[i])}) + "\n")
