#!/usr/bin/env python3
"""Singular values of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.decomposition import TruncatedSVD


def fit(case):
    x = case.x.astype(np.float64)
    if x.shape[1] < 2:
        case.says({"n_components": 0}, values=np.linalg.svd(x, compute_uv=False))
        return
    n_components = max(1, min(4, min(x.shape) - 1))
    exact = TruncatedSVD(n_components, algorithm="arpack").fit(x)
    random = TruncatedSVD(n_components, random_state=0).fit(x)
    case.says({"n_components": n_components}, values=np.linalg.svd(x, compute_uv=False),
              components=exact.components_, singular_values=exact.singular_values_,
              explained_variance=exact.explained_variance_, explained_variance_ratio=exact.explained_variance_ratio_,
              energy=np.linalg.norm(x @ random.components_.T).reshape(1))


if __name__ == "__main__":
    main(fit)
