"""Stand-ins for the parts of scikit-learn that the estimators use, where it is not installed."""

import inspect

import numpy as np


class BaseEstimator:
    @classmethod
    def _names(cls):
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep=True):
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params):
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"invalid parameter {name!r} for {type(self).__name__}; valid: {self._names()}")
            setattr(self, name, value)
        return self

    def __repr__(self):
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        shown = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"


class ClassifierMixin:
    def score(self, X, y):
        """The share of labels that are predicted."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


class RegressorMixin:
    def score(self, X, y):
        """The coefficient of determination, R²."""
        y = np.asarray(y, dtype=np.float64)
        error = ((y - self.predict(X)) ** 2).sum()
        return float(1 - error / ((y - y.mean(axis=0)) ** 2).sum())


def check_is_fitted(estimator):
    if not estimator.__sklearn_is_fitted__():
        raise ValueError(f"this {type(estimator).__name__} is not fitted; call fit or partial_fit first")


def check_classification_targets(y):
    if y.dtype.kind == "f" and not np.array_equal(y, np.round(y)):
        raise ValueError("labels are continuous; a classifier needs classes")


def column_or_1d(y, warn=False):
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"labels of the shape {y.shape}; one a row is needed")
    return y


_NONE = object()


def validate_data(estimator, X, y=_NONE, *, dtype, order, reset, multi_output=False, y_numeric=False):
    X = _rows(X, dtype, order)
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
                         f"{estimator.n_features_in_} features as input")
    if y is _NONE:
        return X
    y = np.asarray(y)
    if y_numeric:
        y = y.astype(np.float64, copy=False)
    if y.ndim == 0 or len(y) != len(X):
        raise ValueError(f"{len(X)} rows and labels of the shape {y.shape}")
    return X, y


def _rows(X, dtype, order):
    X = np.asarray(X)
    if X.dtype.kind == "c":
        raise ValueError("complex data is not supported")
    if X.dtype.kind not in "biuf":
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"rows of the shape {X.shape}; expected 2D array: reshape your data, by reshape(-1, 1) if it has a "
                         "single feature, or by reshape(1, -1) if it is a single row")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"found array with {X.shape[0]} rows and {X.shape[1]} features; at least 1 of each is required")
    with np.errstate(over="ignore"):
        X = np.asarray(X, dtype=dtype, order=order)
    if not np.isfinite(X).all():
        raise ValueError("rows contain NaN, infinity or a value too large for float32")
    return X
