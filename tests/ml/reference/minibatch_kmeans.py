#!/usr/bin/env python3
"""K-means by batches of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.cluster import MiniBatchKMeans


def fit(case):
    clusters = min(6, len(case.x))
    inertia = []
    for seed in range(5):
        model = MiniBatchKMeans(clusters, batch_size=256, random_state=seed)
        inertia.append(model.fit(case.x, sample_weight=case.weights).inertia_)
    case.says({"n_clusters": clusters, "batch_size": 256}, inertia=np.float64(inertia))


if __name__ == "__main__":
    main(fit)
