#!/usr/bin/env python3
"""Principal components of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.decomposition import PCA


def fit(case):
    # Ours sums float32 in float64, so that it must also be what scikit-learn makes of the same values in float64.
    for dtype in {case.x.dtype, np.dtype(np.float64)}:
        x = case.x.astype(dtype)
        for n_components, whiten in [(None, False), (0.9, False), (max(1, min(x.shape) // 2), True)]:
            # The most exact of its solvers: "covariance_eigh" takes the mean away after squaring.
            model = PCA(n_components, whiten=whiten, svd_solver="full").fit(x)
            said = {"components": model.components_, "explained_variance": model.explained_variance_,
                    "explained_variance_ratio": model.explained_variance_ratio_, "mean": model.mean_,
                    "singular_values": model.singular_values_, "transformed": model.transform(x[:50]),
                    "noise_variance": np.atleast_1d(model.noise_variance_)}
            # With whiten its likelihood is of other components than its own, and what is left beside components that
            # explain all is rounding.
            if not whiten and model.explained_variance_[-1] > 1e-8 * model.explained_variance_[0] and (
                    model.noise_variance_ > 1e-8 * model.explained_variance_[0] or len(model.components_) == x.shape[1]):
                said["score"] = np.atleast_1d(model.score(x))
            case.says({"n_components": n_components or 0, "whiten": whiten}, **said)


if __name__ == "__main__":
    main(fit)
