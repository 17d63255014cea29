"""Estimators in the manner of scikit-learn, which learn in this process.

They use scikit-learn's base classes and checks if it is installed, and need only numpy otherwise.
"""

import numbers

import numpy as np

from leat import _native, _yaml
from leat._models import Sequential, as_model
from leat._optimizers import Adam
from leat._settings import config_of
from leat import layers as _layers

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets, unique_labels  # noqa: F401
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

    HAS_SKLEARN = True
except ImportError:
    from leat._base import (BaseEstimator, ClassifierMixin, RegressorMixin, check_classification_targets,
                            check_is_fitted, column_or_1d, validate_data)

    HAS_SKLEARN = False


def _array(X):
    """Rows of another library, such as a tensor, without a copy where that is possible."""
    if hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) and not hasattr(X, "iloc"):
        try:
            return np.from_dlpack(X)
        except (BufferError, RuntimeError, TypeError):
            pass  # on another device, or it wants gradients: numpy says what is wrong
    return X


class _Network(BaseEstimator):
    """The base of Classifier and Regressor. `_learner` is the C++ object."""

    _learner = None
    _quick = False  # labels are the classes' indices already

    def __init__(self, model=None, *, hidden=(64,), loss=None, optimizer=None, batch_size=128, epochs=100, inputs=None,
                 random_state=None, threads=1):
        self.model = model
        self.hidden = hidden
        self.loss = loss
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.epochs = epochs
        self.inputs = inputs
        self.random_state = random_state
        self.threads = threads

    # ---- making the learner

    def _seed(self):
        if self.random_state is None:
            return int(np.random.SeedSequence().generate_state(1)[0])
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(self.random_state.randint(1 << 31))

    def _make(self, features, outputs, labels, default_loss, again=False):
        """A learner with the values that it begins with. `again`: as an equal estimator has made it."""
        import tempfile

        model = self.model
        if model is None:
            model = Sequential([*(_layers.Dense(units, activation="relu") for units in self.hidden),
                                _layers.Dense(outputs)])
        model = self._model if again else as_model(model)
        seed = self._made_seed if again else self._seed()
        loss = self.loss if self.loss is not None else default_loss
        inputs = self.inputs if self.inputs is not None else getattr(model, "inputs", None)
        optimizer = self.optimizer if self.optimizer is not None else Adam(learning_rate=0.005)
        with tempfile.TemporaryDirectory(prefix="leat-") as directory:
            from leat._models import _Exported

            if inputs is None and isinstance(model, _Exported):
                inputs = (features,)
            section = (model.section_again if again else model.section)(loss, inputs, directory)
            settings = {"model": section, "optimizer": config_of(optimizer),
                        "batch_size": self.batch_size, "seed": seed, "intra_op_threads": self.threads}
            learner = _native.Learner(_yaml.dump(settings), type(self).__name__, "", features, labels)
        self._model, self._made_seed = model, seed
        return learner

    def _restart(self):
        for name in ("_learner", "_model", "_made_seed", "n_features_in_", "feature_names_in_", "classes_", "n_iter_", "loss_"):
            self.__dict__.pop(name, None)
        self._quick = False

    def _scores(self, X):
        check_is_fitted(self)
        X = validate_data(self, _array(X), dtype=np.float32, order="C", reset=False)
        described = self._learner.describe()
        scores = np.empty((X.shape[0], described["labels"] * described["outputs"]), dtype=np.float32)
        self._learner.predict(X, scores)
        return scores

    def _learned_quickly(self, X, y):
        """Trains contiguous rows of float32, which are checked in C++ alone. False: they are others; nothing was trained."""
        try:
            self._learner.learn(X, y)
        except _native.NotFiniteError:
            raise  # the other batches are trained
        except (TypeError, ValueError, BufferError):
            return False
        return True

    def _fit_rows(self, X, y):
        """All epochs over the rows, each in an order of its own."""
        self._learner.check_ids(X)  # in the caller's order of rows, for the message
        order = np.random.RandomState(self._seed() & 0x7FFFFFFF)
        self.loss_ = float("nan")
        for _ in range(int(self.epochs)):
            rows = order.permutation(X.shape[0])
            events, loss, _, _ = self._learner.learn(np.ascontiguousarray(X[rows]), np.ascontiguousarray(y[rows]))
            self.loss_ = loss / max(1, events)
        self.n_iter_ = int(self.epochs)

    # ---- weights

    def state_dict(self):
        """The parameters by name, as the model knows them; arrays share the estimator's memory."""
        check_is_fitted(self)
        variables = {name: np.asarray(values) for name, values, role in self._learner.variables() if role != "moments"}
        return self._model.take(variables)

    def __sklearn_is_fitted__(self):
        return self._learner is not None

    def __getstate__(self):
        state = super().__getstate__() if HAS_SKLEARN else self.__dict__
        state = dict(state)
        learner = state.pop("_learner", None)
        if learner is not None:
            state["_saved"] = (learner.save(), self._remade())
        return state

    def _remade(self):
        """The arguments that make an equal learner: features, outputs, labels, loss."""
        raise NotImplementedError

    def __setstate__(self, state):
        state = dict(state)
        saved = state.pop("_saved", None)
        if HAS_SKLEARN:
            super().__setstate__(state)
        else:
            self.__dict__.update(state)
        if saved is not None:
            (memory, steps, events), (features, outputs, labels, loss) = saved
            self._learner = self._make(features, outputs, labels, loss, again=True)
            self._learner.load(memory, steps, events)


class Classifier(ClassifierMixin, _Network):
    """A network that tells classes apart.

    model         leat.Sequential, a torch.nn.Module, an ONNX file; default: layers of `hidden` units with relu
    loss          default: softmax_cross_entropy
    optimizer     default: leat.Adam(0.005)
    batch_size    rows of a step, at most
    epochs        passes of fit over the rows
    inputs        the shape of a row for the model; default: the number of columns
    random_state  of the initial values and the order of rows
    threads       that a kernel may use; 0: all cores

    >>> import numpy as np
    >>> X = np.random.RandomState(1).normal(size=(400, 4)).astype(np.float32)
    >>> y = (X[:, 0] > 0).astype(np.int64)
    >>> classifier = Classifier(hidden=(16,), random_state=1).fit(X, y)
    >>> bool((classifier.predict(X) == y).mean() > 0.9)
    True
    >>> classifier.predict_proba(X).shape
    (400, 2)
    """

    def partial_fit(self, X, y, classes=None):
        """Makes a step for each `batch_size` rows. `classes`: all labels that will ever come; needed in the first call."""
        if self._quick and classes is None and self._learned_quickly(X, y):
            return self
        first = self._learner is None
        if first and classes is None:
            raise ValueError("classes must be passed in the first call of partial_fit")
        X, y = validate_data(self, _array(X), _array(y), dtype=np.float32, order="C", reset=first)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if first:
            self._start(np.unique(np.asarray(classes)), X.shape[1])
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes are {list(classes)}; in the first call they were {list(self.classes_)}")
        self._learner.learn(X, self._indices(y))
        self._quick = self._plain()
        return self

    def fit(self, X, y):
        """Begins anew, and makes `epochs` passes over the rows in random orders."""
        X, y = validate_data(self, _array(X), _array(y), dtype=np.float32, order="C", reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        names = self.__dict__.get("n_features_in_"), self.__dict__.get("feature_names_in_")
        self._restart()
        self.n_features_in_ = names[0]
        if names[1] is not None:
            self.feature_names_in_ = names[1]
        self._start(np.unique(y), X.shape[1])
        self._fit_rows(X, self._indices(y))
        return self

    def predict_proba(self, X):
        """The probability of each class, in the order of `classes_`."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return np.hstack([1 - scores, scores]) if len(self.classes_) == 2 else np.ones_like(scores)
        scores = scores[:, :len(self.classes_)].astype(np.float64)
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, X):
        """The most probable class of each row."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def _start(self, classes, features):
        self.classes_ = classes
        # A network that tells one class from nothing has two outputs all the same.
        outputs = max(2, len(classes))
        self._learner = self._make(features, outputs, 1, "softmax_cross_entropy")
        told = self._learner.describe()["classes"]
        if told != outputs:
            self._learner = None
            more = "; partial_fit takes `classes` that no label has yet" if told > outputs else ""
            raise ValueError(f"the model tells {told} classes apart; the labels have {len(classes)}{more}")

    def _remade(self):
        return self.n_features_in_, max(2, len(self.classes_)), 1, "softmax_cross_entropy"

    def _plain(self):
        return (self.classes_.dtype.kind in "iu" and
                np.array_equal(self.classes_, np.arange(len(self.classes_))) and
                self._learner.describe()["classes"] == len(self.classes_) and not hasattr(self, "feature_names_in_"))

    def _indices(self, y):
        indices = np.searchsorted(self.classes_, y)
        indices = np.minimum(indices, len(self.classes_) - 1)
        known = self.classes_[indices] == y
        if not np.all(known):
            row = int(np.argmin(known))
            raise ValueError(f"label {y[row]!r} in row {row} is none of the classes {list(self.classes_)}")
        return np.ascontiguousarray(indices, dtype=np.int64)


class Regressor(RegressorMixin, _Network):
    """A network that predicts a number, or several. Arguments are those of Classifier; default loss: squared_error.

    >>> import numpy as np
    >>> X = np.random.RandomState(1).normal(size=(400, 3)).astype(np.float32)
    >>> y = X[:, 0] - 2 * X[:, 1]
    >>> regressor = Regressor(hidden=(32,), random_state=1).fit(X, y)
    >>> bool(regressor.score(X, y) > 0.9)
    True
    """

    def partial_fit(self, X, y):
        """Makes a step for each `batch_size` rows."""
        if self._quick and self._learned_quickly(X, y):
            return self
        first = self._learner is None
        X, y = self._checked(X, y, first)
        if first:
            self._start(X, y)
        self._learner.learn(X, y)
        self._quick = not hasattr(self, "feature_names_in_")
        return self

    def fit(self, X, y):
        """Begins anew, and makes `epochs` passes over the rows in random orders."""
        X, y = self._checked(X, y, True)
        names = self.__dict__.get("n_features_in_"), self.__dict__.get("feature_names_in_")
        self._restart()
        self.n_features_in_ = names[0]
        if names[1] is not None:
            self.feature_names_in_ = names[1]
        self._start(X, y)
        self._fit_rows(X, y)
        return self

    def predict(self, X):
        """The number that is predicted for each row, or the numbers."""
        scores = self._scores(X)
        return scores[:, 0] if self._flat else scores

    def _checked(self, X, y, reset):
        if getattr(getattr(y, "dtype", None), "kind", "") in ("m", "M"):
            raise TypeError("y has times, not numbers")
        X, y = validate_data(self, _array(X), _array(y), dtype=np.float32, order="C", reset=reset, multi_output=True,
                             y_numeric=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        return X, np.ascontiguousarray(y, dtype=np.float32)

    def _start(self, X, y):
        self._flat = y.ndim == 1
        self._outputs = 1 if self._flat else y.shape[1]
        self._learner = self._make(X.shape[1], self._outputs, self._outputs, "squared_error")

    def _remade(self):
        return self.n_features_in_, self._outputs, self._outputs, "squared_error"
