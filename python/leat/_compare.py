"""Compares the network that a framework has exported with the framework's own, before anything is trained.

A few rows are predicted and trained by both: what an exporter has dropped, folded or changed shows in the numbers. Code that
decides by values, by the number of rows or at random shows in rows of other scales, in copies of rows, and in repetitions.
"""

import contextlib
import random
import tempfile
import time
from pathlib import Path

import numpy as np

from leat import _native, _onnx_file, _yaml

ROWS, STEPS = 8, 2
COPIES = 5  # copies of the rows in a larger batch
FACTORS = (300, 30)  # factors of the rows' scale, tried in turn until roundings matter little
AHEAD = (10**6 - 1, 10**6, 999_983)  # counts of calls that are round after a call, before it, and never
# The states of a Mersenne Twister whose draws are the lowest and the highest, and how many draws are.
_LOWEST, _HIGHEST, _DRAWS = 0, 0x12DD9BB3, 200


class Unfit(ValueError):
    """Rows that a network does not compute with."""


def kinds_of_rows(inputs, ids):
    """Rows of several kinds, since a network may take a logarithm of its inputs, or look up some of them in a table of
    `ids` rows; 0: it has none."""
    random = np.random.RandomState(11)
    shape = (STEPS, ROWS, *inputs)
    if ids:
        whole = random.randint(0, ids, shape)
        whole[:, 0] = 0  # the row of a table that often differs from the others
        yield whole.astype(np.float32)
    normal = random.normal(size=shape).astype(np.float32)
    ties = normal.copy()  # a row of zeros and one of zeros and ones: values that are equal, or at the bound of a function
    ties[:, 0], ties[:, 1] = 0, normal[:, 1] > 0
    yield ties
    yield normal
    yield (0.1 + 0.8 * random.uniform(size=shape)).astype(np.float32)
    yield random.randint(0, 2, shape).astype(np.float32)
    yield np.zeros(shape, np.float32)


def scaled(rows, factor, ids):
    """The rows times a factor or factors, but for ids: `ids` is their number for each column, 0 for numbers, or empty."""
    keeps = np.asarray(ids or [0]).reshape(rows.shape[2:] if ids else ()) > 0
    return np.where(keeps, rows, rows * np.float32(factor))


def scales(rows, ids):
    """(factor, rows, the same moved by a few roundings) for rows of other scales."""
    signs = np.random.RandomState(13).choice([-1, 1], rows.shape)
    for factor in FACTORS if not ids or 0 in ids else ():
        made = scaled(rows, factor, ids)
        yield factor, made, scaled(made, 1 + 1e-6 * signs, ids)


def alike(values, others, share):
    """Whether lists of finite arrays differ by at most a share of an array's size, and a tenth of this share of the largest: terms
    of a gradient may cancel each other."""
    most = max(map(size_of, values), default=0)
    return all(np.isfinite(a).all() and moved(b, a) <= share * size_of(a) + 0.1 * share * most for a, b in zip(values, others))


@contextlib.contextmanager
def drawn(number):
    """The generators of Python and numpy begin anew: at first with the lowest numbers, then with the highest ones, so that a
    choice at random falls both ways however unlikely one is, then with others."""
    python, numpy = random.getstate(), np.random.get_state(legacy=False)
    twister = numpy["bit_generator"] == "MT19937"
    words = np.random.RandomState(number).get_state()[1].copy()
    if number < 2:
        words[:_DRAWS] = (_LOWEST, _HIGHEST)[number]
    try:
        random.setstate((3, (*map(int, words), 0), None))
        if twister:
            np.random.set_state(("MT19937", words, 0))
        yield
    finally:
        random.setstate(python)
        if twister:
            np.random.set_state(numpy)


def random_call(run):
    """Which call of `run(number)` returns other arrays than its first, with the same arguments; None: all return the same."""
    begin, first = time.monotonic(), None
    for number in range(40):
        if number > 2 and time.monotonic() - begin > 0.1:
            break
        with drawn(number):
            made = run(number)
        if made is None:
            return None
        first = first or made
        if not alike(first, made, 1e-4):
            return number
    return None


def check_count(count, expected, run):
    """Raises ValueError if results for `count` rows differ from those expected of copies of ROWS rows."""
    try:
        found = run()
    except Unfit as e:
        if count < ROWS:
            return  # the engine has no such batches: it pads them
        raise ValueError(f"{count} rows cannot be computed, and {ROWS} can: {e}") from e
    if not alike(expected, found, 1e-2):
        raise ValueError(f"{count} rows are computed otherwise than {ROWS}, by {max(map(moved, found, expected)):.2g}: the export "
                         "would have one way for any number of rows")


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

    @property
    def ids(self):
        """For each input: the number of ids that it takes; 0: it takes numbers. Empty: all do."""
        return self._learner.ids

    def predict(self, rows, most):
        """The outputs for rows. Raises Unfit if the network does not take them, or, where the rate is limited by `most`, if some
        outputs are not finite: nor are they silently others."""
        scores = np.empty((len(rows), self._outputs), np.float32)
        try:
            self._learner.predict(np.ascontiguousarray(rows.reshape(len(rows), -1)), scores)
        except ValueError as e:
            raise Unfit(str(e)) from e
        if most < np.inf and not np.isfinite(scores).all():
            raise Unfit("Leat's outputs are not finite")
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
        bound += 3e-4 * most  # a gradient of terms that cancel each other, such as that of a bias before a norm
    return not moved(found, expected) <= bound


def moved(values, before):
    """The longest way of an element. An element that stays infinite, as in a mask, has not moved."""
    values, before = np.asarray(values, np.float64), np.asarray(before, np.float64)
    if not values.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.where((values == before) | (np.isnan(values) & np.isnan(before)), 0, np.abs(values - before)).max())


def size_of(values):
    """The largest finite magnitude of an element."""
    values = np.abs(np.asarray(values, np.float64))
    return float(values.max(initial=0, where=np.isfinite(values)))
