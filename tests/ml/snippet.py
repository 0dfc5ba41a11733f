#!/usr/bin/env python3
"""Makes a scikit-learn object of a model file as docs/ml.md says, and compares what they say.

Usage: snippet.py DOCS HEADING FOLDER
The code under "every model" and under HEADING of the section "In Python" is run in FOLDER, where model.safetensors is.
It leaves `model`, which must say of rows.csv what `lockstep predict` has written to said.csv: labels exactly, values
to 1e-12, and both in the same shape.
"""
import os
import re
import sys
from pathlib import Path

try:
    import numpy as np
    import safetensors
    import sklearn
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --test installs it")
    sys.exit(77)


def code_of(docs, heading):
    section = docs.split("\n## In Python\n")[1].split("\n## ")[0]
    for part in section.split("\n### ")[1:]:
        if heading in part.split("\n")[0].split(", "):
            return re.search(r"^```python\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)[1]
    sys.exit(f"docs/ml.md has no lines for {heading}")


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
    rows = np.genfromtxt("rows.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    theirs = said_by(names["model"], names["prepared"](rows))
    if "class_names" in names["about"]:
        theirs = np.array(names["about"]["class_names"])[theirs.astype(int)]
    ours = np.genfromtxt("said.csv", delimiter=",", skip_header=1, dtype=theirs.dtype)
    assert theirs.shape == ours.shape, f"{theirs.shape} and not {ours.shape}"
    if theirs.dtype.kind in "iU":
        np.testing.assert_array_equal(ours, theirs)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())
