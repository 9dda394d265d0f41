"""Writes data/testdata/tables: one small table in every format that package data reads.

usage: table_testdata.py OUT-DIRECTORY     (numpy 2.4, pandas 3.1, pyarrow 26, datasets 5.2, safetensors 0.8, torch 2.14)
The table has 7 rows: x, float32 [3]; m, float32 [2, 2]; label, int64; small, int8;
weight, float64; flag, bool; and, where the format can hold it, text.
expected.json has the same numbers as Python writes them.
"""
import json
import os
import sys

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import safetensors.torch
import torch

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
datasets.disable_progress_bars()


def path(name):
    return os.path.join(out, name)


rng = np.random.default_rng(7)
rows = 7
columns = {
    "x": rng.standard_normal((rows, 3)).astype(np.float32),
    "m": rng.standard_normal((rows, 2, 2)).astype(np.float32),
    "label": rng.integers(0, 10, rows),
    "small": rng.integers(-128, 128, rows).astype(np.int8),
    "weight": rng.standard_normal(rows),
    "flag": rng.integers(0, 2, rows).astype(bool),
}
text = [f"row {i}, \"quoted\"" for i in range(rows)]
with open(path("expected.json"), "w") as f:
    json.dump({k: v.reshape(rows, -1).astype(np.float64).tolist() for k, v in columns.items()}, f)

lists = {k: v.tolist() for k, v in columns.items()} | {"text": text}
table = pa.table({
    "x": pa.array(lists["x"], pa.list_(pa.float32())),
    "m": pa.array(lists["m"], pa.list_(pa.list_(pa.float32(), 2))),
    "label": pa.array(lists["label"], pa.int64()),
    "small": pa.array(lists["small"], pa.int8()),
    "weight": pa.array(lists["weight"], pa.float64()),
    "flag": pa.array(lists["flag"], pa.bool_()),
    "text": pa.array(text),
})
pa.parquet.write_table(table, path("snappy.parquet"), row_group_size=3)
pa.parquet.write_table(table, path("zstd.parquet"), compression="zstd", data_page_version="2.0", use_dictionary=False)
pa.parquet.write_table(table, path("gzip.parquet"), compression="gzip", version="1.0")
flat = pd.DataFrame({f"x{i}": columns["x"][:, i] for i in range(3)} | {k: columns[k] for k in ("label", "small", "weight", "flag")} | {"text": text})
flat.to_parquet(path("pandas.parquet"))
flat.to_csv(path("pandas.csv"), index=False)
flat.to_csv(path("index.tsv"), sep="\t")
pd.DataFrame({"x": lists["x"], "m": lists["m"], "label": lists["label"]}).to_csv(path("lists.csv"), index=False, lineterminator="\r\n")
pa.feather.write_feather(table, path("lz4.feather"), chunksize=3)
pa.feather.write_feather(table, path("plain.arrow"), compression="uncompressed")
with pa.ipc.new_stream(path("stream.arrows"), table.schema) as w:
    w.write_table(table, max_chunksize=2)
large = table.select(["x", "label"]).cast(pa.schema({"x": pa.large_list(pa.float16()), "label": pa.uint16()}))
with pa.ipc.new_file(path("large.arrow"), large.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as w:
    w.write_table(large)

np.save(path("x.npy"), columns["x"])
np.save(path("fortran.npy"), np.asfortranarray(columns["m"]))
np.save(path("big-endian.npy"), columns["label"].astype(">i2"))
record = np.zeros(rows, dtype=np.dtype([("x", "<f4", 3), ("m", ">f4", (2, 2)), ("label", "<i8"), ("small", "i1"), ("flag", "?"), ("name", "U3")], align=True))
for k in ("x", "m", "label", "small", "flag"):
    record[k] = columns[k]
np.save(path("record.npy"), record)
np.save(path("objects.npy"), np.array([{}, None], dtype=object), allow_pickle=True)
np.savez(path("plain.npz"), **columns)
np.savez_compressed(path("packed.npz"), **columns, names=np.array(text))
safetensors.torch.save_file({k: torch.from_numpy(v) for k, v in columns.items()} | {"half": torch.from_numpy(columns["x"]).half(), "brain": torch.from_numpy(columns["x"]).bfloat16()},
                            path("columns.safetensors"))
set_ = datasets.Dataset.from_dict(lists)
set_.save_to_disk(path("saved"), num_shards=2)
datasets.DatasetDict({"train": set_.select(range(2)), "test": set_.select([2])}).save_to_disk(path("saved-splits"))
nulls = pa.table({"holes": [1, None, 3], "lists": [[1.0], None, [2.0]], "inner": [[1.0], [None], [2.0]], "ragged": [[1], [2, 3], [4]],
                  "empty": pa.array([[], [], []], pa.list_(pa.int8())), "words": ["a", "b", "c"], "ok": [1, 2, 3]})
pa.parquet.write_table(nulls, path("bad.parquet"))
pa.feather.write_feather(nulls, path("bad.feather"), compression="uncompressed")
