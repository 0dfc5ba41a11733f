"""What all comparisons with scikit-learn share: the rows, and how they and what it says of them are written.

A comparison is a file beside this one, with a function that fits a case and main() below:

    def fit(case):
        model = Ridge(alpha=2).fit(case.x, case.y, sample_weight=case.weights)
        case.says({"alpha": 2}, coef=model.coef_)

    if __name__ == "__main__":
        main(fit)

Usage: NAME.py FOLDER              writes FOLDER/CASE.safetensors for the small data sets and 200 seeds
       NAME.py FOLDER FLIGHTS.csv  for the flights alone
A case holds x, y, labels and perhaps weights; what scikit-learn says comes as "0/coef", "1/coef" … with the parameters
of each in the file's metadata. Exit code 77: a package is missing.
"""
import csv
import json
import os
import sys
from operator import itemgetter
from pathlib import Path

# Tests run beside each other. It counts only before numpy comes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    import numpy as np
    import sklearn.datasets
    from safetensors.numpy import save_file
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --test installs it")
    sys.exit(77)

SEEDS = 200


class Case:
    """Rows x with targets y, float32 or float64 all of them, the number of each row's class, and perhaps weights."""

    def __init__(self, name, x, y, labels, weights=None):
        self.name, self.x, self.y, self.weights = name, x, y, weights
        self.labels = labels.astype(np.int64)
        self._parameters, self._said = [], {}

    def says(self, parameters, **tensors):
        """What scikit-learn came to with these parameters."""
        for name, tensor in tensors.items():
            self._said[f"{len(self._parameters)}/{name}"] = np.asarray(tensor)
        self._parameters.append(parameters)

    def write(self, folder):
        tensors = {"x": self.x, "y": self.y, "labels": self.labels, **self._said}
        if self.weights is not None:
            tensors["weights"] = self.weights
        save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()},
                  Path(folder) / f"{self.name}.safetensors", {"parameters": json.dumps(self._parameters)})


def data_sets():
    for name in ["digits", "diabetes", "wine", "breast_cancer", "iris"]:
        x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        labels = y > np.median(y) if name == "diabetes" else y
        yield Case(name, x, y.astype(x.dtype), labels)


def flights(path):
    """The delay on arrival by all other numbers of the flights that have them all."""
    names = ["arr_delay", "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
             "sched_arr_time", "flight", "air_time", "distance", "hour", "minute"]
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        head = next(rows)
        numbers = map(itemgetter(*map(head.index, names)), rows)
        table = np.array([row for row in numbers if "NA" not in row and "" not in row], dtype=np.float64)
    return Case("flights", table[:, 1:].copy(), table[:, 0].copy(), table[:, 0] > 15)


def random_case(seed):
    """Of every kind there are several: few rows, several blocks of 8192, one column, columns that depend on each
    other, large means, weights, several targets, float32."""
    random = np.random.default_rng(seed)
    single, far, dependent = seed % 4 == 3, seed % 5 == 4, seed % 8 == 5
    rows = random.integers(*{0: (9000, 20000), 1: (8, 30)}.get(seed % 10, (30, 1000)))
    columns = 1 if seed % 10 == 2 else random.integers(2, 31)
    classes = random.integers(2, 6)
    labels = random.permutation(np.arange(rows) % classes)
    x = random.normal(size=(rows, columns)) + 3 * random.normal(size=(classes, columns))[labels]
    x @= np.eye(columns) + (0.1 if single else 0.2) * random.normal(size=(columns, columns))
    targets = random.integers(2, 4) if seed % 7 == 0 else 1
    y = x @ random.normal(size=(columns, targets)) + random.normal(size=(rows, targets)) + 5 * random.normal(size=targets)
    scale = 10 ** random.uniform(*((-0.5, 0.5) if single else (-2, 2)), size=columns)
    mean = 10 ** random.uniform(0, 1.5 if single else 4, size=columns) if far else random.normal(size=columns)
    x = (x + mean) * scale
    if dependent and columns > 2 and rows > columns:
        # Exactly, also when rounded to float32.
        x[:, 0], x[:, -1] = 64, 2 * x[:, 1]
    weights = random.uniform(0.1, 3, size=rows) if seed % 3 == 0 else None
    if seed % 6 == 0 and rows > 30:
        weights[::17] = 0
    x, y = (array.astype(np.float32 if single else np.float64) for array in (x, y))
    return Case(f"seed-{seed:03}", x, y[:, 0] if targets == 1 else y, labels, weights)


def main(fit):
    folder, *given = sys.argv[1:]
    cases = [flights(given[0])] if given else [*data_sets(), *map(random_case, range(SEEDS))]
    for case in cases:
        fit(case)
        case.write(folder)
