"""Workers join, leave and stand by while a job runs. No event is lost, and fixed lanes give the same bits."""

# folders: protocol run/roles

import contextlib
import os
import signal
import subprocess

import pytest

import leat
from test_strategies import RING, ROWS, SYNC, classifying, counting, digest, folder, undisturbed, values  # noqa: F401

EPOCHS = 8
# More than any of these jobs trains before it is stopped.
ENDLESS = {"events: 40000": "events: 16000000, rate: 20000"}


@contextlib.contextmanager
def worker(job, log):
    """A worker that knows the job's address and nothing else. Told to leave, it must end with status 0."""
    where, environment = job.address(), {**os.environ, "LEAT_TOKEN": job.token()}
    with open(log, "w") as file:
        process = subprocess.Popen([leat.PROGRAM, "worker", "--coordinator", where], env=environment, stdout=file,
                                   stderr=subprocess.STDOUT)
    try:
        yield process
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def members(job, state=None):
    """The workers by process id: those that train, or those in another state."""
    found = job.status().get("members", [])
    return {m["pid"]: m for m in found if m["role"] == "worker" and m.get("state") == state and "pid" in m}


def trains(job, pid):
    """Whether the worker has trained a batch."""
    return members(job).get(pid, {}).get("steps", 0) > 0


def stop(job, directory):
    """Stops a counting job and checks its count."""
    job.interrupt()
    assert job.wait() == 0, job.text()
    events = job.summary()["events"]
    assert 0 < events < 16_000_000, "the stream outlasted the test"
    assert values(directory) == {float(events)}


@pytest.mark.parametrize("strategy", ["async", SYNC, RING])
def test_a_worker_that_stands_by_takes_the_place_of_one_that_is_killed(tmp_path, strategy):
    directory = tmp_path / "job"
    file = counting(tmp_path, strategy, **ENDLESS, **{"workers: 3": "workers: 2, standby: 1"})
    with leat.Job("train", file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: len(members(job)) == 2 and len(members(job, "standby")) == 1, "all workers")
        successor, = members(job, "standby")
        log = directory / "logs" / "standby-0.log"
        leat.wait_for(lambda: "graphs compiled: 1" in log.read_text(), "its compiled graph")
        victim = leat.wait_for(lambda: [pid for pid in members(job) if trains(job, pid)], "the first batches")[0]
        index = members(job)[victim]["index"]
        os.kill(victim, signal.SIGKILL)
        leat.wait_for(lambda: trains(job, successor), "work for the one that has stood by")
        assert members(job)[successor]["index"] == index
        leat.wait_for(lambda: members(job, "standby"), "another one that stands by")
        assert len(members(job)) == 2
        stop(job, directory)


@pytest.mark.parametrize("strategy", [SYNC, RING])
def test_workers_that_join_and_leave_change_no_bit(tmp_path, folder, undisturbed, strategy):  # noqa: F811
    directory = tmp_path / "job"
    file = classifying(folder, strategy, EPOCHS)
    leat.write_job(file, file.read_text() + "debug: {step_ms: 15}\n")
    with leat.Job("train", file, "--data", folder, "--workers", 2, "--directory", directory, "--pause-at",
                  EPOCHS * ROWS * 3 // 4, directory=directory) as job:
        with worker(job, tmp_path / "first.log") as first, worker(job, tmp_path / "second.log") as second:
            for joined in [first, second]:
                leat.wait_for(lambda: trains(job, joined.pid) or job.status().get("phase") == "paused", "work for it")
                assert trains(job, joined.pid), "it joined too late"
                joined.terminate()
        job.go_on()
        assert job.wait() == 0, job.text()
        assert job.summary()["events"] == EPOCHS * ROWS
    assert digest(directory) == undisturbed(EPOCHS)


@pytest.mark.parametrize("kind", ["sync", "allreduce"])
def test_automatic_lanes_follow_the_workers(tmp_path, kind):
    directory = tmp_path / "job"
    file = counting(tmp_path, f"{{type: {kind}, lanes: auto}}", **ENDLESS)
    with leat.Job("train", file, "--workers", 2, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("lanes") == 2 and job.status().get("step", 0) > 0, "steps of two lanes")
        with worker(job, tmp_path / "worker.log") as process:
            leat.wait_for(lambda: job.status().get("lanes") == 3, "a third lane")
            leat.wait_for(lambda: trains(job, process.pid), "work for the third worker")
            process.terminate()
        leat.wait_for(lambda: job.status().get("lanes") == 2, "two lanes")
        stop(job, directory)
