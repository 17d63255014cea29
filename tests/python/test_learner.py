"""The native learner: arrays, errors, threads and forks."""

# folders: train/learner python

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import leat
from leat import _native

SETTINGS = """model:
  layers:
    - dense: {units: 8, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: adam, learning_rate: 0.01}
batch_size: 32
seed: 3
"""


def make(settings=SETTINGS, features=6, labels=1):
    return _native.Learner(settings, "test", "", features, labels)


def test_learns_and_predicts(rows):
    X, y = rows
    learner = make()
    first = learner.learn(X, y)
    for _ in range(60):
        last = learner.learn(X, y)
    assert first[0] == last[0] == 400
    assert last[1] < first[1] / 2
    assert last[2] > 380
    assert learner.events == 61 * 400
    assert learner.steps == 61 * 13
    scores = np.empty((400, 2), np.float32)
    learner.predict(X, scores)
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)


def test_values_are_the_learners_own_memory(rows):
    X, y = rows
    learner = make()
    values = {name: np.asarray(array) for name, array, _ in learner.variables()}
    assert {name: v.shape for name, v in values.items()} == {
        "dense1/weight": (6, 8), "dense1/bias": (8,), "dense2/weight": (8, 2), "dense2/bias": (2,)}
    before = values["dense1/weight"].copy()
    learner.learn(X, y)
    assert not np.array_equal(before, values["dense1/weight"])
    values["dense2/weight"][:] = 0
    values["dense2/bias"][:] = 0
    scores = np.empty((400, 2), np.float32)
    learner.predict(X, scores)
    np.testing.assert_array_equal(scores, np.float32(0.5))
    del learner
    assert np.isfinite(values["dense1/weight"]).all()  # the memory stays as long as the array


def test_the_same_seed_gives_the_same_bits(rows):
    X, y = rows
    a, b = make(), make()
    for learner in (a, b):
        for _ in range(5):
            learner.learn(X, y)
    assert a.save() == b.save()
    c = make()
    c.load(*a.save())
    a.learn(X, y)
    c.learn(X, y)
    assert a.save() == c.save()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int32, np.int16, np.uint8, bool])
def test_labels_of_any_kind(rows, kind):
    X, y = rows
    expected, learner = make(), make()
    expected.learn(X, y)
    learner.learn(X, y.astype(kind))
    assert learner.save() == expected.save()


def test_errors_are_value_errors_with_one_line(rows):
    X, y = rows
    learner = make()
    state = learner.save()

    def refused(text, call, *arguments):
        with pytest.raises(ValueError, match=text) as error:
            call(*arguments)
        assert "\n" not in str(error.value)

    refused("rows of 'd'; they must be of float32", learner.learn, X.astype(np.float64), y)
    refused(r"rows of the shape \(400, 5\); the model has 6 inputs a row", learner.learn, X[:, :5].copy(), y)
    refused(r"labels of the shape \(399,\) for 400 rows", learner.learn, X, y[1:])
    refused("label 2 in row 7; must be a whole number from 0 to 1", learner.learn, X, np.where(np.arange(400) == 7, 2, y))
    refused("label 0.5 in row 0", learner.learn, X, np.full(400, 0.5))
    refused("not finite, so 400 of 400 rows", learner.learn, np.full_like(X, np.nan), y)
    refused(r"labels of 'T\{\}'; they must be numbers", learner.learn, X, np.zeros(400, dtype=[]))
    refused(r"scores of the shape \(400, 3\)", learner.predict, X, np.empty((400, 3), np.float32))
    refused("what is loaded", learner.load, b"abc", 1, 1)
    with pytest.raises((ValueError, BufferError)):
        learner.learn(X[:, ::-1], y)
    with pytest.raises(TypeError):
        learner.learn([[1.0]], [1])
    assert learner.save() == state

    refused("test:3: unknown layer 'dens'; did you mean 'dense'", make, SETTINGS.replace("dense:", "dens:", 1))
    refused("optimizer", make, SETTINGS.replace("optimizer", "optimiser"))


@pytest.mark.parametrize("kind, classes", [(np.uint8, 256), (np.uint8, 300), (np.int16, 32768), (np.int64, 256)])
def test_the_highest_class_of_a_kind(kind, classes):
    settings = SETTINGS.replace("units: 2", f"units: {classes}")
    highest = min(classes - 1, np.iinfo(kind).max)
    X = np.ones((2, 6), np.float32)
    expected, learner = make(settings), make(settings)
    expected.learn(X, np.array([highest, 0], np.float32))
    learner.learn(X, np.array([highest, 0], kind))
    assert learner.save() == expected.save()
    with pytest.raises(ValueError, match=f"label {classes} in row 1; must be a whole number from 0 to {classes - 1}"):
        learner.learn(X, np.array([0, classes], np.int64))


def test_threads_take_turns(rows):
    X, y = rows
    learner = make()
    threads = [threading.Thread(target=lambda: [learner.learn(X, y) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.events == 4 * 20 * 400


def test_use_after_fork_raises():
    text = f"""
import os, sys
import numpy as np
from leat import _native
learner = _native.Learner({SETTINGS!r} + "intra_op_threads: 4\\n", "test", "", 6, 1)
learner.learn(np.zeros((2, 6), np.float32), np.zeros(2))
pid = os.fork()
if pid == 0:
    try:
        learner.learn(np.zeros((2, 6), np.float32), np.zeros(2))
    except RuntimeError as e:
        sys.exit(3 if "forked" in str(e) else 4)
    sys.exit(5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", text], check=False, timeout=60).returncode == 3


def test_import_loads_nothing_else():
    """Modules are loaded when a name of theirs is used: the import takes milliseconds, and needs neither numpy nor C++."""
    text = """
import importlib, sys
before = set(sys.modules)
import leat
print(*set(sys.modules) - before)
leat.Adam
print("numpy" in sys.modules, "sklearn" in sys.modules, "leat._native" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, timeout=60).stdout
    assert told.splitlines() == ["leat", "False False False"]


def test_the_program_comes_with_the_package():
    assert os.access(leat.program(), os.X_OK)
    told = subprocess.run([leat.program(), "--version"], check=True, capture_output=True, text=True, timeout=60).stdout
    assert told.startswith(leat.__version__)
    done = subprocess.run([sys.executable, "-m", "leat", "frobnicate"], check=False, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2 and "unknown command 'frobnicate'" in done.stderr
