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

# Evaluation rows: the first 41 digits, every third with the next label so that the
# loss gets worse, and the first 7 regression rows.
with open("digits.jsonl") as rows, open("digits-eval.jsonl", "w") as f:
    for i, line in zip(range(41), rows):
        row = json.loads(line)
        if i % 3 == 0:
            row["label"] = (row["label"] + 1) % 10
        f.write(json.dumps(row) + "\n")
with open("regression.jsonl") as rows, open("regression-eval.jsonl", "w") as f:
    for _, line in zip(range(7), rows):
        f.write(line)
