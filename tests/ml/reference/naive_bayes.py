#!/usr/bin/env python3
"""Naive Bayes of scikit-learn; see cases.py."""
from cases import main, np
from sklearn.naive_bayes import GaussianNB, MultinomialNB


def fit(case):
    x = case.x.astype(np.float64)
    some = x[:100]
    for parameters in [{}, {"var_smoothing": 1e-3}]:
        model = GaussianNB(**parameters).fit(x, case.labels, sample_weight=case.weights)
        case.says({"kind": "gaussian", **parameters}, theta=model.theta_, var=model.var_, prior=model.class_prior_,
                  joint=model.predict_joint_log_proba(some))
    counts = np.abs(x)
    for parameters in [{}, {"alpha": 0.1, "fit_prior": False}]:
        model = MultinomialNB(**parameters).fit(counts, case.labels, sample_weight=case.weights)
        case.says({"kind": "multinomial", **parameters}, count=model.feature_count_, log_prob=model.feature_log_prob_,
                  prior=model.class_log_prior_, joint=model.predict_joint_log_proba(counts[:100]))


if __name__ == "__main__":
    main(fit)
