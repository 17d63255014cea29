"""Fixtures of the Python package's tests. They run in an environment that has the wheel (tests/python/run.py)."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pytest_tiers import *  # noqa: E402, F401, F403


@pytest.fixture
def rows():
    """400 rows of 6 columns, and a class of each that a small network can tell."""
    random = np.random.RandomState(7)
    X = random.normal(size=(400, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64)
    return X, y


@pytest.fixture
def csv_file(tmp_path):
    """3,000 events in a CSV file with a header; `label` follows from x0 and x1."""
    random = np.random.RandomState(3)
    x = random.normal(size=(3000, 3))
    label = (x[:, 0] - x[:, 1] > 0).astype(int)
    file = tmp_path / "events.csv"
    with open(file, "w", encoding="ascii") as out:
        out.write("x0,x1,x2,label\n")
        for row, y in zip(x, label):
            out.write(",".join(f"{value:.5f}" for value in row) + f",{y}\n")
    return file


@pytest.fixture
def schema():
    import leat

    return leat.Schema({**{f"x{i}": {"type": "number"} for i in range(3)},
                        "label": {"type": "number", "role": "label", "classes": 2}}, format="csv")
