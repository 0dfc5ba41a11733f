#!/usr/bin/env python3
"""Moments of numpy, covariances of scikit-learn and numpy; see cases.py."""
from cases import main, np
from sklearn.covariance import EmpiricalCovariance


def fit(case):
    # Ours sums float32 in float64, so that it must also be what others make of the same values in float64.
    x, weights = case.x.astype(np.float64), case.weights
    there = slice(None) if weights is None else weights > 0
    mean = np.average(x, axis=0, weights=weights)
    case.says({"what": "moments"}, mean=mean, variance=np.average((x - mean) ** 2, axis=0, weights=weights),
              total=(x if weights is None else x * weights[:, None]).sum(axis=0), min=x[there].min(axis=0),
              max=x[there].max(axis=0),
              weight=np.array([len(x) if weights is None else weights.sum()], np.float64), count=np.full(x.shape[1], len(x[there]), np.float64))
    with np.errstate(invalid="ignore"):
        case.says({"what": "numpy"}, covariance=np.atleast_2d(np.cov(x, rowvar=False, ddof=0, aweights=weights)),
                  correlation=np.atleast_2d(np.corrcoef(x, rowvar=False)) if weights is None else np.zeros((0, 0)))
    if weights is None:
        for centered in [False, True]:
            model = EmpiricalCovariance(assume_centered=centered).fit(x)
            said = {"covariance": model.covariance_, "location": model.location_}
            # Where columns depend on each other, so little of the inverse is not rounding that libraries differ.
            if np.linalg.matrix_rank(model.covariance_, tol=1e-8 * np.linalg.norm(model.covariance_, 2)) == x.shape[1]:
                said |= {"mahalanobis": model.mahalanobis(x), "score": model.score(x)}
            case.says({"what": "sklearn", "assume_centered": centered}, **said)
        if case.x.dtype == np.float32:
            case.says({"what": "sklearn", "assume_centered": False},
                      covariance=EmpiricalCovariance().fit(case.x).covariance_.astype(np.float32))


if __name__ == "__main__":
    main(fit)
