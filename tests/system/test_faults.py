"""Roles stop for a while, are replaced one after the other, join, leave and die in any order. Every event counts once."""

# folders: protocol run/roles

import itertools
import json
import os
import random
import signal
import time

import pytest

import leat
from test_members import Roles
from test_strategies import counting, values

STRATEGIES = ["async", "sync", "{type: sync, backup: 1}", "{type: ssp, staleness: 2}", "downpour", "averaging"]
RATE = 20_000  # events a second
EVENTS = 400_000
PAUSE = 300_000  # the job does not end before the test has done what it wants


def counting_job(folder, strategy, events):
    return counting(folder, strategy, **{"events: 40000": f"events: {events}, rate: {RATE}", "ps: 2": "ps: 3"})


def default_and_long(*ranges, default):
    """All combinations as parameters of a test; the default tier has those of `default`."""
    return [pytest.param(*some, marks=[] if some in default else pytest.mark.long) for some in itertools.product(*ranges)]


@pytest.mark.parametrize("strategy, role, seconds", default_and_long(
    STRATEGIES, ["worker", "ps", "coordinator"], [1, 3, 10, 60], default=[("async", "ps", 3), ("sync", "worker", 3)]))
def test_a_role_that_is_stopped_for_a_while(tmp_path, strategy, role, seconds):
    directory = tmp_path / "job"
    events = RATE * (seconds + 5)
    with leat.Job("train", counting_job(tmp_path, strategy, events), "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0), "the first events")
        victim = job.pids(role)[0]
        os.kill(victim, signal.SIGSTOP)
        until = time.monotonic() + seconds
        leat.wait_for(lambda: time.monotonic() >= until, "the time for which it is stopped")
        os.kill(victim, signal.SIGCONT)
        assert job.wait() == 0, job.text()[-2000:]
        summary = job.summary()
    assert summary["events"] == events
    assert values(directory) == {float(events)}
    if role == "coordinator":
        assert summary["evictions"] == 0, "nobody could reach it, so nobody is dead"


class Cluster(Roles):
    """A job whose roles come and go, at an address that coordinators share."""

    def __init__(self, folder, strategy):
        super().__init__(folder)
        self.directory = folder / "job"
        file = counting_job(folder, strategy, EVENTS)
        self.address = self.coordinator(file, "--directory", self.directory, "--pause-at", PAUSE)
        self.members = {"worker": [], "ps": []}
        for role in ["ps", "ps", "ps", "worker", "worker", "worker"]:
            self.join(role)
        self.start("bots", "--coordinator", self.address)
        self.progress()

    def join(self, role):
        self.members[role].append(self.start(role, "--coordinator", self.address))

    def leave(self, role, index=0):
        """Sends SIGTERM to a member, which leaves in order."""
        name = self.members[role].pop(index)
        process = self.processes[name]
        process.terminate()
        leat.wait_for(lambda: process.poll() is not None, f"the end of {name}")
        assert process.returncode == 0, self.said(name)[-2000:]
        del self.processes[name]

    def die(self, role, index=0):
        self.kill(self.members[role].pop(index))

    def replace_coordinator(self):
        """Replaces it unless the job pauses soon: a coordinator that is started behind the pause does not pause."""
        events = self.status()["events"]
        if events > PAUSE - 2 * RATE:
            return
        name = next(name for name in self.processes if name.startswith("coordinator"))
        self.kill(name)
        self.coordinator("--resume", self.directory, "--listen", self.address, "--pause-at", PAUSE - events)

    def status(self):
        done = leat.run("status", "--coordinator", self.address, "--json", env=self.environment)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def progress(self):
        events = leat.wait_for(self.status, "the coordinator").get("events", 0)

        def more():
            status = self.status()
            return status.get("events", 0) > events + RATE // 4 or status.get("phase") == "paused"

        leat.wait_for(more, "progress")

    def finish(self):
        """Lets the job go on to its end, and checks its count."""
        leat.wait_for(lambda: self.status().get("phase") == "paused", "the pause")
        done = leat.run("continue", "--coordinator", self.address, env=self.environment)
        assert done.returncode == 0, done.stderr
        self.wait()
        summary = json.loads((self.directory / "summary.json").read_text())
        assert summary["events"] == EVENTS
        assert values(self.directory) == {float(EVENTS)}
        return summary


@pytest.mark.parametrize("strategy", [*STRATEGIES[:2], *[pytest.param(s, marks=pytest.mark.long) for s in STRATEGIES[2:]]])
def test_all_roles_are_replaced_one_after_the_other(tmp_path, strategy):
    with Cluster(tmp_path, strategy) as cluster:
        for role in ["worker", "ps"]:
            for _ in range(3):
                cluster.join(role)
                cluster.leave(role)
                cluster.progress()
        cluster.replace_coordinator()
        cluster.progress()
        assert cluster.finish()["evictions"] == 0


@pytest.mark.parametrize("strategy, seed", default_and_long(STRATEGIES, range(4), default=[("async", 0), ("sync", 1)]))
def test_roles_join_leave_and_die_in_any_order(tmp_path, strategy, seed):
    rng = random.Random(f"{strategy} {seed}")
    with Cluster(tmp_path, strategy) as cluster:
        for _ in range(8):
            role = rng.choice(["worker", "ps"])
            here = len(cluster.members[role])
            if here < 2 or here < 5 and rng.random() < 0.5:
                cluster.join(role)
            else:
                rng.choice([cluster.leave, cluster.die])(role, rng.randrange(here))
            if rng.random() < 0.15:
                cluster.replace_coordinator()
            if rng.random() < 0.7:
                cluster.progress()
        cluster.progress()
        cluster.finish()
