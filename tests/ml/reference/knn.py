#!/usr/bin/env python3
"""Nearest neighbours of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor


def fit(case):
    random = np.random.default_rng(len(case.x))
    some = random.permutation(len(case.x))[:150]
    # Rows themselves, and what lies between two of them.
    queries = np.concatenate([case.x[some], (case.x[some] + case.x[some[::-1]]) / 2]).astype(case.x.dtype)
    for k, weights in [(1, "uniform"), (5, "uniform"), (7, "distance")]:
        # Its trees compute distances by differences, as we do, its brute force by products.
        options = {"n_neighbors": k, "weights": weights, "algorithm": "kd_tree"}
        classifier = KNeighborsClassifier(**options).fit(case.x, case.labels)
        distances, _ = classifier.kneighbors(queries, min(k + 1, len(case.x)))
        # Of equally far rows around the last place it takes any, we the first. It subtracts float32 in float32.
        slack = 1e-6 if case.x.dtype == np.float32 else 0
        sure = (distances[:, k - 1] < distances[:, -1] * (1 - slack)) | (k == len(case.x))
        case.says({"n_neighbors": k, "weights": weights}, queries=queries, sure=sure, distances=distances[:, :k],
                  labels=classifier.predict(queries),
                  values=KNeighborsRegressor(**options).fit(case.x, case.y.reshape(len(case.x), -1)).predict(queries))


if __name__ == "__main__":
    main(fit)
