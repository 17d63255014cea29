"""Models in the manner of River: they learn one event at a time, by the names of its features.

    from leat.river import Classifier
    model = Classifier(max_features=32, hidden=(16,))
    model.learn_one({"amount": 12.5, "hour": 3}, True)
    model.predict_proba_one({"amount": 90.0, "hour": 4})

A name that was not seen before takes a free input; further names are left out. A missing one is 0. River's base classes are
used if it is installed.
"""

import contextlib

import numpy as np

from leat import _native, _yaml, layers as _layers
from leat._models import Sequential, as_model
from leat._optimizers import Adam
from leat._settings import config_of

try:
    from river import base as _base

    _ClassifierBase, _RegressorBase = _base.Classifier, _base.Regressor
    _MiniBatchClassifier, _MiniBatchRegressor = _base.MiniBatchClassifier, _base.MiniBatchRegressor
except ImportError:

    class _ClassifierBase:
        def predict_one(self, x):
            scores = self.predict_proba_one(x)
            return max(scores, key=scores.get) if scores else None

    class _RegressorBase:
        pass

    class _MiniBatchClassifier(_ClassifierBase):
        pass

    class _MiniBatchRegressor(_RegressorBase):
        pass


def _number(value):
    if isinstance(value, (np.datetime64, np.timedelta64)):
        raise TypeError(f"{value!r} is a time, not a number")
    return value


def _numbers(name, values):
    values = np.asarray(values)
    if values.dtype.kind in "mM":
        raise TypeError(f"{name!r} has times, not numbers")
    return np.ascontiguousarray(values, dtype=np.float32)


class _Network:
    @contextlib.contextmanager
    def _learning(self):
        """Takes back the names and classes that an event has added which is refused."""
        classes = getattr(self, "_classes", [])
        inputs, known = len(self._inputs), len(classes)
        try:
            yield
        except _native.NotFiniteError:
            raise  # other events of the batch are trained
        except BaseException:
            for name in list(self._inputs)[inputs:]:
                del self._inputs[name]
            del classes[known:]
            raise

    def _prepare(self, outputs, loss):
        model = self.model
        if model is None:
            model = Sequential([*(_layers.Dense(units, activation="relu") for units in self.hidden),
                                _layers.Dense(outputs)])
        settings = {"model": as_model(model).section(self.loss or loss, None, "."),
                    "optimizer": config_of(self.optimizer or Adam(learning_rate=0.01)), "batch_size": self.batch_size,
                    "seed": self.seed}
        self._inputs = {}
        self._learner = _native.Learner(_yaml.dump(settings), type(self).__name__, "", self.max_features, 1)
        described = self._learner.describe()
        self._row = np.zeros((1, self.max_features), dtype=np.float32)
        self._score = np.zeros((1, described["outputs"]), dtype=np.float32)
        self._label = np.zeros(1, dtype=np.float32)

    def _admit(self, names):
        """Gives new names free inputs. The order of an event's features makes no difference."""
        if len(self._inputs) < self.max_features:
            for name in sorted((name for name in names if name not in self._inputs), key=str):
                if len(self._inputs) < self.max_features:
                    self._inputs[name] = len(self._inputs)

    def _fill(self, x, learns):
        if learns:
            self._admit(x)
        row = self._row[0]
        row[:] = 0
        for name, value in x.items():
            place = self._inputs.get(name)
            if place is not None:
                row[place] = _number(value)
        return self._row

    def _rows(self, X, learns):
        """A DataFrame's columns at the inputs of their names."""
        if learns:
            self._admit(X.columns)
        rows = np.zeros((len(X), self.max_features), dtype=np.float32)
        for name in X.columns:
            place = self._inputs.get(name)
            if place is not None:
                rows[:, place] = _numbers(name, X[name])
        return rows

    def _predict(self, rows, scores):
        finite = np.isfinite(rows)
        if not finite.all():  # relu would make a number of it again
            row, place = np.argwhere(~finite)[0]
            name = next(name for name, at in self._inputs.items() if at == place)
            raise ValueError(f"feature {name!r} is {rows[row, place]}; nothing can be predicted from it")
        self._learner.predict(rows, scores)

    def _scores_of(self, rows):
        scores = np.empty((len(rows), self._score.shape[1]), dtype=np.float32)
        self._predict(rows, scores)
        return scores

    def _unit_test_skips(self):
        # A batch is one step with the mean gradient, as in River's own gradient-descent models.
        return {"check_learn_many_matches_learn_one"}

    def __getstate__(self):
        state = {k: v for k, v in self.__dict__.items() if k not in ("_learner", "_row", "_score", "_label")}
        state["_saved"] = self._learner.save()
        return state

    def __setstate__(self, state):
        state = dict(state)
        saved, inputs = state.pop("_saved"), state["_inputs"]
        self.__dict__.update(state)
        self._begin()
        self._inputs = inputs
        self._learner.load(*saved)

    def __deepcopy__(self, memo):
        import copy

        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return other


class Classifier(_Network, _MiniBatchClassifier):
    """A network that tells classes apart: two, or up to `max_classes` that need not be known beforehand."""

    def __init__(self, max_features=64, hidden=(32,), max_classes=16, model=None, loss=None, optimizer=None,
                 batch_size=1024, seed=1):
        self.max_features = max_features
        self.hidden = hidden
        self.max_classes = max_classes
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.seed = seed
        self._classes = []
        self._begin()

    def _begin(self):
        self._prepare(self.max_classes, "softmax_cross_entropy")

    @property
    def _multiclass(self):
        return True

    @classmethod
    def _unit_test_params(cls):
        yield {"max_features": 64, "hidden": (16,)}

    def _class(self, y):
        if y not in self._classes:
            if len(self._classes) >= self.max_classes:
                raise ValueError(f"label {y!r}: there are {self.max_classes} classes already (max_classes)")
            self._classes.append(y)
        return self._classes.index(y)

    def learn_one(self, x, y):
        with self._learning():
            self._label[0] = self._class(y)
            self._learner.learn(self._fill(x, True), self._label)

    def predict_proba_one(self, x):
        if not self._classes:
            return {}
        self._predict(self._fill(x, False), self._score)
        return self._shares(self._score[0])

    def learn_many(self, X, y):
        with self._learning():
            labels = np.asarray([self._class(label) for label in y], dtype=np.float32)
            self._learner.learn(self._rows(X, True), labels)

    def predict_proba_many(self, X):
        import pandas

        shares = [self._shares(scores) for scores in self._scores_of(self._rows(X, False))] if self._classes else []
        return pandas.DataFrame(shares, index=X.index, columns=list(self._classes))

    def _shares(self, scores):
        known = scores[:len(self._classes)].astype(np.float64)
        total = known.sum()
        if not total > 0:  # all the probability is on classes that nobody has seen
            return dict.fromkeys(self._classes, 1 / len(self._classes))
        return {name: float(score / total) for name, score in zip(self._classes, known)}


class Regressor(_Network, _MiniBatchRegressor):
    """A network that predicts a number."""

    def __init__(self, max_features=64, hidden=(32,), model=None, loss=None, optimizer=None, batch_size=1024, seed=1):
        self.max_features = max_features
        self.hidden = hidden
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.seed = seed
        self._begin()

    def _begin(self):
        self._prepare(1, "squared_error")

    @classmethod
    def _unit_test_params(cls):
        yield {"max_features": 64, "hidden": (16,)}

    def learn_one(self, x, y):
        with self._learning():
            self._label[0] = _number(y)
            self._learner.learn(self._fill(x, True), self._label)

    def predict_one(self, x):
        self._predict(self._fill(x, False), self._score)
        return float(self._score[0, 0])

    def learn_many(self, X, y):
        with self._learning():
            self._learner.learn(self._rows(X, True), _numbers("y", y))

    def predict_many(self, X):
        import pandas

        return pandas.Series(self._scores_of(self._rows(X, False))[:, 0].astype(np.float64), index=X.index)
