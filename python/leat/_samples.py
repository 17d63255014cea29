"""Measurements of a run: a row of numbers for each status of the last hour, and for each minute before it."""

from array import array
from collections import deque

FINE_S = 3600
COARSE_S = 60
COARSE_ROWS = 10_080  # a week of minutes; when they are full, they are merged in pairs, and become twice as long

COLUMNS = ("events", "steps", "events_per_s", "loss", "accuracy", "auc", "lag", "lag_s", "staleness_mean", "dead_letters",
           "workers", "ps", "events_per_s_now")
_TOTALS = ("events", "steps", "dead_letters")
# A row has its time, the number of its statuses, and a value for each column.
_MEANS = tuple(2 + i for i, name in enumerate(COLUMNS) if name not in _TOTALS)


class Samples:
    """The memory is bounded, however long the run is: about 5 MB. Times grow with each status. Not thread-safe."""

    def __init__(self):
        self._fine = deque()
        self._coarse = deque()
        self._coarse_s = COARSE_S

    def add(self, at, status):
        """A status, the dict of `leat status --json`, at a time in seconds."""
        self._fine.append(array("d", (at, 1.0, *(value_of(status, name) for name in COLUMNS))))
        while self._fine[0][0] <= at - FINE_S:
            self._age(self._fine.popleft())

    def columns(self):
        """Arrays of numpy by name: time_s, and those of COLUMNS. A minute has its last time and totals, else means."""
        import numpy

        rows = numpy.array([*self._coarse, *self._fine], dtype=numpy.float64).reshape(-1, 2 + len(COLUMNS))
        return {name: rows[:, i].copy() for i, name in enumerate(("time_s", "", *COLUMNS)) if name}

    def _age(self, row):
        if self._coarse and self._coarse[-1][0] // self._coarse_s == row[0] // self._coarse_s:
            self._coarse[-1] = _merge(self._coarse[-1], row)
            return
        if len(self._coarse) == COARSE_ROWS:
            rows = list(self._coarse)
            self._coarse = deque(map(_merge, rows[::2], rows[1::2]))
            self._coarse_s *= 2
        self._coarse.append(row)


def _merge(earlier, later):
    merged = array("d", later)
    merged[1] += earlier[1]
    for i in _MEANS:
        if later[i] != later[i]:  # NaN
            merged[i] = earlier[i]
        elif earlier[i] == earlier[i]:
            merged[i] += (earlier[i] - later[i]) * (earlier[1] / merged[1])
    return merged


def value_of(status, name):
    """A column's value as a number; NaN: the status has none."""
    if name in ("workers", "ps"):
        role = "worker" if name == "workers" else "ps"
        return sum(1 for member in status.get("members", ()) if member.get("role") == role)
    value = status.get(name)
    if value is None and name == "events_per_s_now":
        value = status.get("events_per_s")
    return value if isinstance(value, (int, float)) else float("nan")
