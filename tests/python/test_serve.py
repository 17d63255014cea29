"""Live predictions from Python."""

# folders: serve python

import collections
import os
import time

import numpy as np
import pytest

import leat
from leat import layers

DEADLINE_S = 120


@pytest.fixture
def run(csv_file, schema, tmp_path):
    job = leat.Job(stream=leat.Files(csv_file, header=True, epochs=4), schema=schema, name="small",
                   model=leat.Sequential([layers.Dense(16, activation="relu"), layers.Dense(2)]), optimizer=leat.Adam(0.01))
    started = job.start(workers=1, ps=1, directory=tmp_path / "run", options=["--pause-at", "6000"])
    yield started
    started.stop()


def event(value):
    return {"x0": value, "x1": -value, "x2": 0.5}


def test_a_job_that_runs(run, schema):
    directory = run.directory
    with run.serve(refresh=0.02, wait=DEADLINE_S) as server:
        assert server.ready()
        assert server.url == f"http://{server.address}/v1/predict"
        one = server.predict(event(1.0))
        assert isinstance(one, float) and 0 <= one <= 1
        until = time.monotonic() + DEADLINE_S
        while not ((status := run.status())["phase"] == "paused" and status["events"] == 6000):
            assert time.monotonic() < until, status
            server.predict([event(0.1 * i) for i in range(10)])
        many = [event(0.1 * i) for i in range(10)]
        # Predictions become those of the job's parameters.
        weights = run.state_dict()
        x = np.array([list(e.values()) for e in many], dtype=np.float32)
        hidden = np.maximum(x @ weights["dense1/weight"] + weights["dense1/bias"], 0)
        logits = hidden @ weights["dense2/weight"] + weights["dense2/bias"]
        expected = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
        while not np.allclose(server.predict(many), expected, atol=1e-5):
            assert time.monotonic() < until, (server.predict(many), expected)
        run.stop()
        assert np.allclose(server.predict(many), expected, atol=1e-5), "the last version stays"
        with run.serve(wait=DEADLINE_S) as ended:
            assert np.allclose(ended.predict(many), expected, atol=1e-5), "of its directory"
        run.directory = None  # as of a job on another host
        with pytest.raises(ValueError, match="^the job has ended; leat.serve"):
            run.serve()
        run.directory = directory
        with leat.serve(run.directory, wait=DEADLINE_S) as still:
            assert np.allclose(still.predict(many), expected, atol=1e-5)


def test_events_that_do_not_fit(run):
    with run.serve(wait=DEADLINE_S) as server:
        with pytest.raises(ValueError, match="^x0: 'a' is not a number$"):
            server.predict({**event(1.0), "x0": "a"})
        with pytest.raises(ValueError, match="^event 1: x0: 'a' is not a number$"):
            server.predict([event(1.0), {**event(1.0), "x0": "a"}])
        # Numbers of numpy are numbers.
        numbers = {"x0": np.float32(1), "x1": np.int64(-1), "x2": np.array(0.5)}
        assert server.predict(numbers) == server.predict(event(1.0))
        with pytest.raises(TypeError, match="an event has a value of the type object"):
            server.predict({**event(1.0), "x0": object()})
        found = server.predict([event(1.0), {**event(1.0), "x0": "a"}], errors="nan")
        assert not np.isnan(found[0]) and np.isnan(found[1])
        assert server.predict([]).size == 0
        with pytest.raises(ValueError, match="errors is 'x'"):
            server.predict([event(1.0)], errors="x")


class Frame:
    """The interface of a Polars DataFrame, which may not be installed."""

    columns = ["x0", "x1", "x2"]
    rows = [event(1.0), {**event(1.0), "x0": None}]

    def iter_rows(self, named):
        assert named
        return iter(self.rows)


def test_what_events_are(run):
    class Record:
        """Has keys, and is no Mapping, as sqlite3.Row."""

        def keys(self):
            return ["x0"]

        def __iter__(self):
            return iter([1.0])

    Row = collections.namedtuple("Row", "x0 x1")
    with run.serve(wait=DEADLINE_S) as server:
        one = server.predict(event(1.0))
        assert server.predict(collections.UserDict(event(1.0))) == one
        assert np.array_equal(server.predict(event(1.0) for _ in range(2)), [one, one], equal_nan=True)
        found = server.predict(Frame(), errors="nan")
        assert np.array_equal(found, [one, np.nan], equal_nan=True)
        # A missing value is null, as in streams.
        for value in (None, float("nan"), np.float32("nan")):
            with pytest.raises(ValueError, match="^x0: is null$"):
                server.predict({**event(1.0), "x0": value})
        for wrong, kind in ((np.zeros((2, 3)), "ndarray"), ([np.zeros(3)], "ndarray"), (Record(), "Record"),
                            ([Record()], "Record"), (Row(1.0, 2.0), "Row"), ([(1.0, 2.0)], "tuple"), ("{}", "str"),
                            ({1.0}, "float"), (3, "int")):
            with pytest.raises(TypeError, match=f"^an event is a dict, not {kind}: "):
                server.predict(wrong)


def test_values_of_categories(tmp_path):
    """A value has the feature that training gave it, however a client spells it."""
    rows = [f"{1.0 + i % 2},{i % 2 == 0},{i % 2}\n" for i in range(2000)]
    (tmp_path / "a.csv").write_text("k,b,y\n" + "".join(rows))
    fields = {"k": {"type": "category", "values": [1, 2]}, "b": {"type": "category", "values": [True, False]},
              "y": {"type": "number", "role": "label"}}
    job = leat.Job(stream=leat.Files(tmp_path / "a.csv", header=True, epochs=4), schema=leat.Schema(fields, format="csv"),
                   model=leat.Sequential([layers.Dense(1)]), loss="squared_error", optimizer=leat.SGD(0.1), name="values")
    run = job.start(workers=1, ps=1, directory=tmp_path / "run")
    assert run.wait()["mae"] < 0.2, "which no value that is missed allows"
    with run.serve(wait=DEADLINE_S) as server:
        for true, k in ((True, 1), (True, 1.0), ("true", "1"), ("TRUE", "1e0"), ("True", "1.0")):
            assert abs(server.predict({"k": k, "b": true})) < 0.1
        for false, k in ((False, 2), (False, 2.0), ("false", "2.00")):
            assert abs(server.predict({"k": k, "b": false}) - 1) < 0.1


def test_what_is_refused(tmp_path, run):
    with pytest.raises(ValueError, match="there is no job in it"):
        leat.serve(tmp_path)
    with pytest.raises(ValueError, match="cannot listen on"):
        run.serve(listen="192.0.2.1:1", arguments=["--trusted-network"])


def test_it_ends_with_its_object(run):
    server = run.serve(wait=DEADLINE_S)
    pid = server._process.pid
    server.predict(event(1.0))
    del server
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
