"""Live predictions from Python."""

# folders: serve python

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
        # Then the values are those of the job.
        weights = run.state_dict()
        x = np.array([list(e.values()) for e in many], dtype=np.float32)
        hidden = np.maximum(x @ weights["dense1/weight"] + weights["dense1/bias"], 0)
        logits = hidden @ weights["dense2/weight"] + weights["dense2/bias"]
        expected = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
        while not np.allclose(server.predict(many), expected, atol=1e-5):
            assert time.monotonic() < until, (server.predict(many), expected)
        run.stop()
        assert np.allclose(server.predict(many), expected, atol=1e-5), "the last version stays"
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
