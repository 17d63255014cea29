"""Each slice is on two servers. A server that is killed at any point loses nothing, and nothing is trained again."""

# folders: protocol train/ps

import os
import signal
import time

import pytest

import leat
from test_strategies import EVENTS, counting, values

BATCH = 100  # events, of examples/counter.yaml
PAUSE = EVENTS // 2  # the job does not end before the test has done what it wants
STRATEGIES = ["async", "sync", "{type: ssp, staleness: 2}", "averaging"]


def replicated(folder, strategy, more=""):
    job = counting(folder, strategy, **{"ps: 2": "ps: 3, replicas: 2"})
    job.write_text(job.read_text() + more)
    return job


def all_replicated(job):
    replicas = job.status().get("replicas", {})
    return replicas.get("of", 0) > 0 and replicas["slices"] == replicas["of"]


def ends_without_a_loss(job, directory, deaths=1):
    job.go_on()
    assert job.wait() == 0, job.text()[-2000:]
    summary = job.summary()
    assert summary["events"] == EVENTS
    assert summary["regranted_leases"] == 0, "something was trained again"
    assert summary["evictions"] <= deaths
    assert values(directory) == {float(EVENTS)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_server_is_killed(tmp_path, strategy):
    directory = tmp_path / "job"
    with leat.Job("train", replicated(tmp_path, strategy), "--directory", directory, "--pause-at", PAUSE,
                  directory=directory) as job:
        leat.wait_for(lambda: all_replicated(job), "a replica of each slice")
        before = job.status()["events"]
        os.kill(job.pids("ps")[0], signal.SIGKILL)
        if before < PAUSE:
            leat.wait_for(lambda: job.status().get("events", 0) > before, "the next events")
        leat.wait_for(lambda: all_replicated(job), "other replicas, on the server that is started again")
        ends_without_a_loss(job, directory)


LONG = [pytest.param(point, marks=pytest.mark.long) for point in ["taken", "shard", "move_ordered", "move_arrived"]]
EARLY = EVENTS // 8


@pytest.mark.parametrize("strategy", ["async", "sync"])
@pytest.mark.parametrize("point", ["apply", "forwarded", "acknowledged", "move_frozen", *LONG])
def test_a_server_dies_at_a_point(tmp_path, strategy, point):
    directory = tmp_path / "job"
    of_pushes = point in ["apply", "forwarded", "taken", "acknowledged"]
    # Copies move as slices do, and a checkpoint may come before they are made.
    after = 4 * EARLY // BATCH if of_pushes else 1
    job_file = replicated(tmp_path, strategy, f"debug: {{die_at: {point}, die_after: {after}}}\n")
    died = directory / "died"
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", EARLY, directory=directory) as job:
        leat.wait_for(lambda: all_replicated(job), "a replica of each slice")
        if of_pushes:
            assert not died.exists()
            ends_without_a_loss(job, directory)
        else:
            job.go_on()
            assert job.wait() == 0, job.text()[-2000:]
    assert died.exists()
    assert values(directory) == {float(EVENTS)}


@pytest.mark.parametrize("strategy", ["async", "sync"])
def test_a_server_is_stopped_and_wakes_up(tmp_path, strategy):
    directory = tmp_path / "job"
    with leat.Job("train", replicated(tmp_path, strategy), "--directory", directory, "--pause-at", PAUSE,
                  directory=directory) as job:
        leat.wait_for(lambda: all_replicated(job), "a replica of each slice")
        stopped = job.pids("ps")[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            leat.wait_for(lambda: job.status()["evictions"] > 0, "its eviction")
        finally:
            os.kill(stopped, signal.SIGCONT)
        leat.wait_for(lambda: all_replicated(job), "other replicas")
        ends_without_a_loss(job, directory)


def test_the_next_push_comes_soon(tmp_path):
    directory = tmp_path / "job"
    # The stream lasts long enough.
    job_file = replicated(tmp_path, "async", "debug: {step_ms: 20}\n")
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: all_replicated(job), "a replica of each slice")
        os.kill(job.pids("ps")[0], signal.SIGKILL)
        killed = time.monotonic()
        before = job.status()["events"]
        leat.wait_for(lambda: job.status().get("events", 0) > before, "the next events")
        # The status is as old as a heartbeat; a busy machine is slower than the bound of three seconds.
        assert time.monotonic() - killed < 20
