"""Compares the network that a framework has exported with the framework's own, before anything is trained.

A few rows are predicted and trained by both: what an exporter has dropped, folded or changed shows in the numbers.
"""

import tempfile
from pathlib import Path

import numpy as np

from leat import _native, _onnx_file, _yaml

ROWS, STEPS = 8, 2


def kinds_of_rows(inputs, ids):
    """Rows of several kinds, since a network may take a logarithm of its inputs, or look up some of them in a table of
    `ids` rows; 0: it has none."""
    random = np.random.RandomState(11)
    shape = (STEPS, ROWS, *inputs)
    if ids:
        whole = random.randint(0, ids, shape)
        whole[:, 0] = 0  # the row of a table that often differs from the others
        yield whole.astype(np.float32)
    yield random.normal(size=shape).astype(np.float32)
    yield (0.1 + 0.8 * random.uniform(size=shape)).astype(np.float32)
    yield random.randint(0, 2, shape).astype(np.float32)
    yield np.zeros(shape, np.float32)


def labels_of(outputs):
    return np.random.RandomState(12).normal(size=(STEPS, ROWS, outputs)).astype(np.float32)


def rate_of(gradients):
    """A learning rate at which no parameter moves far, and the most move visibly: [(values, gradient)]."""
    most = max((size_of(g) / (size_of(w) + 0.1) for w, g in gradients), default=0)
    return 0.05 / most if most > 0 else 1.0


class Trial:
    """The exported network in Leat's engine, trained by plain gradient descent on the mean squared error."""

    def __init__(self, data, inputs, outputs, rate):
        with tempfile.TemporaryDirectory(prefix="leat-") as directory:
            file = Path(directory) / "model.onnx"
            file.write_bytes(data)
            settings = {"model": {"inputs": list(inputs), "layers": [{"onnx": {"file": str(file)}}],
                                  "loss": "squared_error"},
                        "optimizer": {"type": "sgd", "learning_rate": float(rate)}, "batch_size": ROWS}
            self._learner = _native.Learner(_yaml.dump(settings), "model", "", int(np.prod(inputs)), outputs)
        self._outputs = outputs

    def predict(self, rows):
        scores = np.empty((len(rows), self._outputs), np.float32)
        self._learner.predict(np.ascontiguousarray(rows.reshape(len(rows), -1)), scores)
        return scores

    def step(self, rows, labels):
        self._learner.learn(np.ascontiguousarray(rows.reshape(len(rows), -1)), np.ascontiguousarray(labels))

    def values(self):
        """Copies of the variables, by their names in the engine."""
        return {_onnx_file.own_name(name): np.array(values) for name, values, _ in self._learner.variables()}


def differs(expected, found):
    """Whether outputs differ by more than rounding."""
    return not moved(found, expected) <= 1e-3 * size_of(expected) + 1e-6


def moves_differ(expected, found, before, most, share=0.02):
    """Whether values have moved otherwise than expected, by more than a share of their way and rounding. `most`: the longest
    way of all values."""
    way, own = moved(expected, before), moved(found, before)
    bound = share * way + 2e-6 * size_of(expected) + 1e-7
    if way > 0 and own > 0:
        bound += 1e-4 * most  # a gradient of terms that cancel each other, such as that of a bias before a norm
    return not moved(found, expected) <= bound


def moved(values, before):
    """The longest way of an element. Those that stay infinite, as in a mask, have not moved."""
    values, before = np.asarray(values, np.float64), np.asarray(before, np.float64)
    if not values.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.where((values == before) | (np.isnan(values) & np.isnan(before)), 0, np.abs(values - before)).max())


def size_of(values):
    """The largest finite magnitude of an element."""
    values = np.abs(np.asarray(values, np.float64))
    return float(values.max(initial=0, where=np.isfinite(values)))
