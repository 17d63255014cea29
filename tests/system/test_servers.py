"""Servers join and leave while a job trains, and processes die at named points. Every event counts once."""

# folders: protocol train/ps

import itertools
import os
import signal
import subprocess

import pytest

import leat
from test_faults import STRATEGIES, default_and_long
from test_strategies import EVENTS, counting, values

PAUSE = EVENTS // 2  # the job does not end before the test has done what it wants


class Server:
    """A server that joins a job."""

    def __init__(self, job):
        address, token = job.address(), job.token()
        self.log = open(job.directory.parent / "joins.log", "w")
        self.process = subprocess.Popen(
            [leat.PROGRAM, "ps", "--coordinator", address], env={**os.environ, "LEAT_TOKEN": token},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


def moves(job, what):
    return job.status().get("moves", {}).get(what, 0)


def settled(job):
    return moves(job, "slices") > 0 and moves(job, "planned") == 0


@pytest.mark.parametrize("strategy", ["async", "sync", "{type: ssp, staleness: 2}", "downpour", "averaging"])
def test_a_server_joins_and_leaves(tmp_path, strategy):
    directory = tmp_path / "job"
    with leat.Job("train", counting(tmp_path, strategy), "--directory", directory, "--pause-at", PAUSE,
                  directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        with Server(job) as server:
            leat.wait_for(lambda: settled(job), "the moves to the server")
            there = moves(job, "slices")
            held = [m["bytes_held"] for m in job.status()["members"] if m["role"] == "ps"]
            assert len(held) == 3 and min(held) > 0.6 * sum(held) / 3, held
            server.process.send_signal(signal.SIGTERM)
            leat.wait_for(lambda: server.process.poll() is not None, "the end of the server")
            assert server.process.returncode == 0
        assert moves(job, "slices") == 2 * there
        job.go_on()
        assert job.wait() == 0, job.text()[-2000:]
        summary = job.summary()
    assert summary["events"] == EVENTS
    assert summary["evictions"] == 0
    assert values(directory) == {float(EVENTS)}


POINTS = ["push", "apply", "shard", "manifest", "move_ordered", "move_arrived", "move_frozen", "move_made", "move_journaled"]


@pytest.mark.parametrize("strategy, point", default_and_long(
    STRATEGIES, POINTS, default=list(itertools.product(["async", "sync"], ["push", *POINTS[-3:]]))))
def test_a_process_dies_at_a_point(tmp_path, strategy, point):
    directory = tmp_path / "job"
    after = 20 if point in ["push", "apply"] else 1
    job_file = counting(tmp_path, strategy)
    job_file.write_text(job_file.read_text() + f"debug: {{die_at: {point}, die_after: {after}}}\n")
    died = directory / "died"
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", PAUSE, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0 or died.exists(), "the first events")
        with Server(job):
            leat.wait_for(died.exists, "the death of a process")
            # A coordinator that is started again behind the pause does not pause.
            paused = leat.wait_for(lambda: "ended" if job.process.poll() is not None else
                                   job.status().get("phase") == "paused" and "paused", "the pause or the end")
            if paused == "paused":
                job.go_on()
            assert job.wait() == 0, job.text()[-2000:]
        if point in ["manifest", "move_made", "move_journaled"]:
            assert job.text().count("starting it again, the job goes on") == 1
            assert job.summary()["evictions"] == 0
    assert values(directory) == {float(EVENTS)}
