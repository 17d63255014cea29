"""The memory of a run for the statuses that it has seen."""

# folders: python

import subprocess
import sys

import numpy as np

from leat import _samples

# A day of four statuses a second, of a job of 64 workers. The client has no answer: the statuses are injected.
DAY = """
import resource, threading
from leat import _run

class Silent:
    def status(self, seconds):
        raise ConnectionError
    def abort(self):
        pass

member = {"role": "worker", "host": "a.example", "state": "active", "done": 1, "busy_s": 0.5}
run = _run.Run(Silent())
began = run._began
text = "x" * 1000
kept = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = kept()
for i in range(4 * 24 * 3600):
    members = [dict(member, index=k) for k in range(64 if i % 40 == 0 else 0)]
    run._take({"job": text + str(i), "phase": "running", "events": 100 * i, "loss": 1 / (i + 1), "members": members}, began + i / 4)
    if i % 10000 == 0 and kept() - before > 100:
        raise SystemExit(f"{kept() - before:.0f} MB after {i} statuses")
metrics = run.metrics()
assert metrics["events"][-1] == 100 * i and run.status()["events"] == 100 * i
assert len({len(values) for values in metrics.values()}) == 1
assert "<svg" in run._repr_html_()
print(kept() - before, len(metrics["events"]))
"""


def test_a_day_of_statuses_takes_less_than_100_mb():
    done = subprocess.run([sys.executable, "-c", DAY], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    megabytes, rows = map(float, done.stdout.split())
    assert megabytes < 100
    assert rows == 14400 + 23 * 60


def status(**values):
    return {"members": [{"role": "worker"}, {"role": "worker"}, {"role": "ps"}], **values}


def test_the_last_hour_is_whole_and_minutes_are_means():
    samples = _samples.Samples()
    for i in range(2 * 3600):
        known = {} if i < 90 else {"accuracy": 0.5}
        samples.add(float(i), status(events=10 * i, loss=i, auc=None, lag="?", events_per_s=7, **known))
    columns = samples.columns()
    assert (np.diff(columns["time_s"]) > 0).all()
    np.testing.assert_array_equal(columns["time_s"][60:], np.arange(3600, 7200))
    np.testing.assert_array_equal(columns["time_s"][:60], np.arange(59, 3600, 60))
    np.testing.assert_array_equal(columns["events"], 10 * columns["time_s"])
    np.testing.assert_allclose(columns["loss"][:60], np.arange(3600).reshape(60, 60).mean(axis=1))
    assert np.isnan(columns["accuracy"][0]) and (columns["accuracy"][1:] == 0.5).all()
    assert np.isnan(columns["auc"]).all() and np.isnan(columns["lag"]).all()
    assert (columns["workers"] == 2).all() and (columns["ps"] == 1).all()
    assert (columns["events_per_s_now"] == 7).all(), "the rate of the whole run, if there is no other"


def test_rows_are_bounded_for_ever(monkeypatch):
    monkeypatch.setattr(_samples, "COARSE_ROWS", 100)
    samples = _samples.Samples()
    for i in range(0, 10_000 * 60, 20):
        samples.add(float(i), status(loss=1.0))
        assert len(samples._coarse) <= 100
    columns = samples.columns()
    assert len(columns["time_s"]) <= 100 + 180
    # Older moments are all about as far apart.
    apart = np.diff(columns["time_s"][:-180])
    assert apart.max() <= 2 * apart[:-1].min() and columns["time_s"][0] <= 2 * apart.max()
    np.testing.assert_allclose(columns["loss"], 1)
