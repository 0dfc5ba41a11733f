#!/usr/bin/env python3
"""Makes a scikit-learn object of a model file as docs/ml.md says, and compares what they say.

Usage: snippet.py DOCS HEADING FOLDER
The code under "every model" and under HEADING of the section "In Python" is run in FOLDER, where model.safetensors is.
It leaves `model`, which must say of rows.csv what `lockstep predict` has written to said.csv: labels exactly, values
to 1e-12.
"""
import json
import os
import re
import sys
from pathlib import Path

try:
    import numpy as np
    import sklearn
    from safetensors import safe_open
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --test installs it")
    sys.exit(77)


def code_of(docs, heading):
    section = docs.split("\n## In Python\n")[1].split("\n## ")[0]
    for part in section.split("\n### ")[1:]:
        if heading in part.split("\n")[0].split(", "):
            return re.search(r"^```python\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)[1]
    sys.exit(f"docs/ml.md has no lines for {heading}")


def columns_of_model():
    with safe_open("model.safetensors", "np") as file:
        return json.loads(file.metadata()["columns"])


def said_by(model, x):
    for says in ["predict", "transform", "mahalanobis"]:
        if hasattr(model, says):
            return getattr(model, says)(x)
    sys.exit(f"{model} says nothing of rows")


if __name__ == "__main__":
    docs, heading, folder = sys.argv[1:]
    docs = Path(docs).read_text(encoding="utf-8")
    os.chdir(folder)
    names = {}
    exec(code_of(docs, "every model") + code_of(docs, heading), names)
    rows = np.genfromtxt("rows.csv", delimiter=",", names=True)
    theirs = said_by(names["model"], np.stack([rows[column] for column in columns_of_model()], axis=1))
    ours = np.genfromtxt("said.csv", delimiter=",", skip_header=1, dtype=theirs.dtype)
    most = 0 if np.issubdtype(theirs.dtype, np.integer) else 1e-12
    np.testing.assert_allclose(ours, theirs.reshape(ours.shape), rtol=most, atol=most * np.abs(theirs).max())
