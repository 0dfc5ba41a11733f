#!/usr/bin/env python3
"""Linear and ridge regression of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.linear_model import LinearRegression, Ridge


def model_of(alpha, fit_intercept, dtype):
    if alpha > 0:
        # The most exact of its solvers: "auto" squares the condition of unscaled columns.
        return Ridge(alpha=alpha, fit_intercept=fit_intercept, solver="svd")
    # Below tol of the largest singular value it takes columns for dependent. Its default, 1e-6, would do so with
    # columns of breast_cancer that are merely small; taking means away leaves more rounding than 1e-13.
    return LinearRegression(fit_intercept=fit_intercept,
                            tol=1e-5 if dtype == np.float32 else 1e-10 if fit_intercept else 1e-13)


def fit(case):
    # Ours sums float32 in float64, so that it must also be what scikit-learn makes of the same values in float64.
    for dtype in {case.x.dtype, np.dtype(np.float64)}:
        for alpha, fit_intercept in [(0, True), (0.1, True), (100, True), (0, False), (10, False)]:
            model = model_of(alpha, fit_intercept, dtype)
            model.fit(case.x.astype(dtype), case.y.astype(dtype), sample_weight=case.weights)
            case.says({"alpha": alpha, "fit_intercept": fit_intercept}, coef=np.atleast_2d(model.coef_),
                      intercept=np.broadcast_to(model.intercept_, case.y.shape[1:] or 1))


if __name__ == "__main__":
    main(fit)
