#!/usr/bin/env python3
"""K-means of scikit-learn, from given centroids; see cases.py."""
from cases import main, np
from sklearn.cluster import KMeans


def first_centers(case, clusters):
    """Near different rows: one that is as far from two of them, as happens with data of few digits, would go to either
    by rounding. Sometimes one is a point that is nearest to no row."""
    rows = case.x if case.weights is None else case.x[case.weights > 0]
    random = np.random.default_rng(len(rows))
    different = np.unique(rows[random.permutation(len(rows))[:20 * clusters]], axis=0)
    centers = different[random.permutation(len(different))[:clusters]]
    centers += (0.01 * rows.std(axis=0) * random.normal(size=centers.shape)).astype(centers.dtype)
    # Where rows of no weight are farthest, scikit-learn moves it to one of them and loses the cluster.
    if len(rows) == len(case.x) and len(rows) % 3 == 0:
        centers[-1] = 3 * rows.max(axis=0) - 2 * rows.min(axis=0)
    return centers


def fit(case):
    for clusters, max_iter, tol in [(3, 300, 1e-4), (8, 10, 0), (8, 300, 1e-2)]:
        init = first_centers(case, clusters)
        model = KMeans(len(init), init=init, n_init=1, max_iter=max_iter, tol=tol)
        model.fit(case.x, sample_weight=case.weights)
        case.says({"max_iter": max_iter, "tol": tol}, init=init, inertia=model.inertia_, labels=model.labels_)


if __name__ == "__main__":
    main(fit)
