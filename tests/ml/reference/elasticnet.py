#!/usr/bin/env python3
"""Lasso and elastic net of scikit-learn; see cases.py."""
import warnings

from cases import main, np
from sklearn.linear_model import ElasticNet


def fit(case):
    x, y = case.x.astype(np.float64), case.y.astype(np.float64)
    # So that penalties are neither nothing nor all, whatever the scale of the target.
    size = np.sqrt(np.average((y - np.average(y, axis=0, weights=case.weights)) ** 2, axis=0, weights=case.weights).mean())
    scale = x.std(axis=0)
    x = np.where(scale > 0, x / np.where(scale > 0, scale, 1), x)
    case.x = x.astype(case.x.dtype)
    for parameters in [{"alpha": 0.1 * size, "l1_ratio": 1.0}, {"alpha": 0.02 * size, "l1_ratio": 0.5},
                       {"alpha": 0.05 * size, "l1_ratio": 0.9, "fit_intercept": False},
                       {"alpha": 0.05 * size, "l1_ratio": 0.7, "positive": True}]:
        # Ours sums float32 in float64, so that it must also be what scikit-learn makes of the same values in float64.
        for dtype in {case.x.dtype, np.dtype(np.float64)}:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # where rounding keeps the gap above tol
                model = ElasticNet(tol=1e-7 if dtype == np.float32 else 1e-14, max_iter=200_000, **parameters)
                model.fit(case.x.astype(dtype), case.y.astype(dtype), sample_weight=case.weights)
            case.says(parameters, coef=np.atleast_2d(model.coef_),
                      intercept=np.broadcast_to(model.intercept_, y.shape[1:] or 1))


if __name__ == "__main__":
    main(fit)
