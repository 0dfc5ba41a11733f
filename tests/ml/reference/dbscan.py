#!/usr/bin/env python3
"""DBSCAN of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.cluster import DBSCAN
from sklearn.neighbors import NearestNeighbors


def fit(case):
    # Some 2000 rows are enough of it; of float32 it computes other distances than of the same values in float64.
    x = case.x[:2000].astype(np.float64)
    weights = None if case.weights is None else case.weights[:2000].astype(np.float64)
    for min_samples, share in [(3, 0.3), (5, 0.7)]:
        near = NearestNeighbors(n_neighbors=min(min_samples, len(x))).fit(x).kneighbors(x)[0][:, -1]
        # Between two distances that occur, so that rounding decides nothing.
        eps = np.quantile(near, share) * (1 + 1e-7) + 1e-9
        model = DBSCAN(eps=eps, min_samples=min_samples, algorithm="kd_tree").fit(x, sample_weight=weights)
        core = np.zeros(len(x), bool)
        core[model.core_sample_indices_] = True
        case.says({"eps": eps, "min_samples": min_samples}, core=core, labels=model.labels_.astype(np.int64))


if __name__ == "__main__":
    main(fit)
