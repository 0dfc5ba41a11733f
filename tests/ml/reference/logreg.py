#!/usr/bin/env python3
"""Logistic regression of scikit-learn; see cases.py."""
import warnings

from cases import main, np
from sklearn.linear_model import LogisticRegression


def fit(case):
    for parameters in [{"C": 1.0}, {"C": 0.01, "class_weight": "balanced"}, {"C": 10.0, "fit_intercept": False}]:
        # Where rounding keeps the gradient above tol it says so; the bound on the objective is for us to keep.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000, **parameters)
            model.fit(case.x.astype(np.float64), case.labels, sample_weight=case.weights)
        case.says(parameters, coef=model.coef_, intercept=model.intercept_,
                  proba=model.predict_proba(case.x[:100].astype(np.float64)))


if __name__ == "__main__":
    main(fit)
