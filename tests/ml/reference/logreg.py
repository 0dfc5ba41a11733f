#!/usr/bin/env python3
"""Logistic regression of scikit-learn; see cases.py."""
import warnings

from cases import main, np
from sklearn.linear_model import LogisticRegression


def fit(case):
    x = case.x.astype(np.float64)
    for parameters in [{"C": 1.0}, {"C": 0.01, "class_weight": "balanced"}, {"C": 10.0, "fit_intercept": False}]:
        # Columns of large means make its Hessian singular by rounding, and it ends far above the minimum; moved to
        # their mean they are the same problem with another intercept.
        mean = x.mean(axis=0) if parameters.get("fit_intercept", True) else np.zeros(x.shape[1])
        # Where rounding keeps the gradient above tol it says so; the bound on the objective is for us to keep.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000, **parameters)
            model.fit(x - mean, case.labels, sample_weight=case.weights)
        case.says(parameters, coef=model.coef_, intercept=model.intercept_ - model.coef_ @ mean,
                  proba=model.predict_proba(x[:100] - mean))


if __name__ == "__main__":
    main(fit)
