"""Fits of scikit-learn, scikit-learn-intelex and daal4py, timed: python ml_fits.py PEER ALGORITHM --x FILE …

Prints one line of JSON: the seconds of each fit, and values of the result by which the participants are compared.
The method is that of `lockstep bench ml`: the data lies in memory before the clock starts, and one fit that nobody
counts goes before. On several ranks (daal4py alone) each has a part of the rows and one thread, and rank 0 has the
clock: a fit ends with an exchange of results.
"""

import argparse
import importlib
import json
import time

import numpy as np


class Estimators:
    """scikit-learn, and scikit-learn-intelex, which has its classes."""

    def __init__(self, options):
        self.options = options
        if options.peer == "sklearnex":
            importlib.import_module("daal4py").daalinit(options.threads)
        elif options.ranks > 1:
            raise SystemExit("scikit-learn knows no ranks")

    def make(self, module, name, **parameters):
        return getattr(importlib.import_module(f"{self.options.peer}.{module}"), name)(**parameters)

    def kmeans(self, data):
        # copy_x: the rows may be moved by their mean and back, which saves a copy.
        return (
            lambda: self.make(
                "cluster",
                "KMeans",
                n_clusters=self.options.clusters,
                init=data.start,
                n_init=1,
                max_iter=self.options.iterations,
                tol=0,
                algorithm="lloyd",
                copy_x=False,
            ).fit(data.x),
            lambda model: {"inertia": model.inertia_, "iterations": model.n_iter_},
        )

    def linreg(self, data):
        # scikit-learn would leave the rows changed without a copy.
        copy = self.options.peer == "sklearn"
        return (
            lambda: self.make("linear_model", "LinearRegression", copy_X=copy).fit(data.x, data.targets),
            lambda model: {"coef": model.coef_[-1], "intercept": model.intercept_},
        )

    def covariance(self, data):
        module = "covariance" if self.options.peer == "sklearn" else "preview.covariance"
        return (
            lambda: self.make(module, "EmpiricalCovariance", store_precision=False).fit(data.x),
            lambda model: {"covariance": model.covariance_[0, 1], "variance": model.covariance_[-1, -1]},
        )

    def pca(self, data):
        return (
            lambda: self.make("decomposition", "PCA").fit(data.x),
            lambda model: {"first": model.explained_variance_[0], "last": model.explained_variance_[-1]},
        )

    def logistic(self, data):
        classes = data.targets.astype(np.int64)

        def objective(model):
            margins = (data.x @ model.coef_[0] + model.intercept_[0]) * (1 - 2 * classes)
            return {"objective": np.logaddexp(0, margins).sum() + model.coef_[0] @ model.coef_[0] / 2}

        return lambda: self.make("linear_model", "LogisticRegression", solver=self.options.solver).fit(
            data.x, classes
        ), objective


class Daal:
    """daal4py's own algorithms."""

    def __init__(self, options):
        self.options = options
        self.module = importlib.import_module("daal4py")
        self.module.daalinit(options.threads)
        if self.module.num_procs() != options.ranks:
            raise SystemExit(f"{self.module.num_procs()} ranks came up, not {options.ranks}")

    def rank(self):
        return self.module.my_procid()

    def make(self, name, data, *parameters, **more):
        more["fptype"] = "float" if data.x.dtype == np.float32 else "double"
        if self.options.ranks > 1:
            more["distributed"] = True
        return getattr(self.module, name)(*parameters, **more)

    def kmeans(self, data):
        def fit(start, iterations):
            how = dict(maxIterations=iterations, accuracyThreshold=0, assignFlag=False)
            return self.make("kmeans", data, self.options.clusters, **how).compute(data.x, start)

        def values(result):
            # The objective that a fit gives is that of the centroids before its last step.
            at_the_end = fit(result.centroids, 0)
            return {"inertia": at_the_end.objectiveFunction[0][0], "iterations": result.nIterations[0][0]}

        return lambda: fit(data.start, self.options.iterations), values

    def linreg(self, data):
        targets = data.targets.reshape(-1, 1)
        return (
            lambda: self.make("linear_regression_training", data, method="defaultDense", interceptFlag=True)
            .compute(data.x, targets)
            .model.Beta,
            lambda beta: {"coef": beta[0, -1], "intercept": beta[0, 0]},
        )

    def covariance(self, data):
        # Of a sample, while scikit-learn's is of the population.
        share = (self.options.rows - 1) / self.options.rows
        return (
            lambda: self.make("covariance", data).compute(data.x).covariance,
            lambda covariance: {"covariance": covariance[0, 1] * share, "variance": covariance[-1, -1] * share},
        )

    def pca(self, data):
        # Given a covariance it takes that; by itself it would scale the columns.
        def fit():
            covariance = self.make("covariance", data).compute(data.x).covariance
            how = dict(method="correlationDense", resultsToCompute="eigenvalue", isDeterministic=True)
            return self.make("pca", data, **how).compute(data.x, covariance).eigenvalues[0]

        return fit, lambda variance: {"first": variance[0], "last": variance[-1]}


class Data:
    """This rank's rows, and the centroids that K-means begins with."""

    def __init__(self, options, rank):
        first, end = (options.rows * place // options.ranks for place in (rank, rank + 1))
        rows = np.load(options.x, mmap_mode="r")
        self.x = np.array(rows[first:end])
        self.targets = np.array(np.load(options.targets, mmap_mode="r")[first:end]) if options.targets else None
        self.start = np.array(rows[: options.clusters])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["sklearn", "sklearnex", "daal4py"])
    parser.add_argument("algorithm")
    parser.add_argument("--x", required=True, help=".npy file of the rows")
    parser.add_argument("--targets", help=".npy file of the targets")
    parser.add_argument("--rows", type=int, required=True, help="of the files, the first ones")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--clusters", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--solver", default="lbfgs", help="of logistic regression")
    options = parser.parse_args()

    peer = Daal(options) if options.peer == "daal4py" else Estimators(options)
    rank = peer.rank() if options.ranks > 1 else 0
    fit, values = getattr(peer, options.algorithm)(Data(options, rank))
    result = fit()
    seconds = []
    for _ in range(options.fits):
        begin = time.perf_counter()
        result = fit()
        seconds.append(time.perf_counter() - begin)
    found = {name: float(value) for name, value in values(result).items()}
    if rank == 0:
        print(json.dumps({"seconds": seconds, "values": found}), flush=True)


if __name__ == "__main__":
    main()
