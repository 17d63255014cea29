"""The number of workers follows the load; commands set it, drain members and pause the job. Every event counts once."""

# folders: protocol run/launcher

import json
import os
import re
import signal
import subprocess
import time

import pytest

import leat
from test_members import Roles
from test_strategies import counting, values

LONG = os.environ.get("LEAT_LONG") == "1"
FOLLOW_S = 15 if LONG else 240  # a busy machine needs longer, so the default tier only notices that nothing happens
# A worker trains 2000 events a second at most, and needs little of a processor for it.
STEPS = {"batch_size: 100, split_batches: 20": "batch_size: 100, split_batches: 4", "units: 2048": "units: 64",
         "interval_s: 0.5": "interval_s: 5}\ndebug: {step_ms: 50"}


def members(status, role):
    return [m for m in status.get("members", []) if m["role"] == role]


class Bots:
    """The bots of a job, which publish at a rate that the test changes."""

    def __init__(self, job):
        self.job = job
        self.process = None

    def publish(self, rate):
        self.end()
        for pid in self.job.pids("bots"):
            os.kill(pid, signal.SIGTERM)
        leat.wait_for(lambda: not self.job.pids("bots"), "the end of the job's own bots")
        address, token = self.job.where
        log = open(self.job.directory / "logs" / "test-bots.log", "a")
        with log:
            self.process = subprocess.Popen(
                [leat.PROGRAM, "bots", "--coordinator", address, "--rate", str(rate)],
                env={**os.environ, "LEAT_TOKEN": token}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(60) == 0
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def decisions(job):
    """The autoscaler's decisions, from the coordinator's log: (from, to)."""
    log = (job.directory / "logs" / "coordinator.log").read_text()
    return [(int(a), int(b)) for a, b in re.findall(r"autoscaler: from (\d+) to (\d+) worker", log)]


def wait_for_workers(job, condition, what, timeout):
    def look():
        status = job.status()
        return condition(len(members(status, "worker"))) and condition(status["wanted"].get("workers", 0))
    leat.wait_for(look, what, timeout)


def finish(job):
    """Stops the job: every event that it has trained counts once."""
    job.interrupt()
    assert job.wait() == 0, job.text()[-3000:]
    assert values(job.directory) == {float(job.summary()["events"])}


def test_workers_come_and_go_with_the_load(tmp_path):
    directory = tmp_path / "job"
    job_file = counting(tmp_path, "async", **{
        "events: 40000": "events: 100000000, rate: 2000", "workers: 3, ps: 2": "workers: 2:5, ps: 1"}, **STEPS)
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job, Bots(job) as bots:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "training")
        bots.publish(4800)
        wait_for_workers(job, lambda n: n >= 3, "a third worker", FOLLOW_S + 10)  # nothing is decided in the first 10 s
        bots.publish(2000)
        wait_for_workers(job, lambda n: n == 2, "the end of the workers that are not needed", FOLLOW_S)
        assert "range" in job.status()["wanted"] and job.status()["wanted"]["reason"]
        assert len(decisions(job)) <= (4 if LONG else 12), decisions(job)
        finish(job)


@pytest.mark.long
def test_the_lag_returns_to_its_level_and_nothing_flaps(tmp_path):
    directory = tmp_path / "job"
    job_file = counting(tmp_path, "async", **{
        "events: 40000": "events: 100000000, rate: 2400", "workers: 3, ps: 2": "workers: 1:5, ps: 1"}, **STEPS)
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job, Bots(job) as bots:
        wait_for_workers(job, lambda n: n >= 2, "a second worker", 60)
        leat.wait_for(lambda: job.status()["lag_s"] < 2, "the end of the lag of the start")
        time_at_level = time.monotonic() + 20
        leat.wait_for(lambda: time.monotonic() > time_at_level, "a quiet time")
        before = len(members(job.status(), "worker"))
        for longer in [0, 10]:  # workers that are missed soon after they have left stay for longer the next time
            bots.publish(4800)
            wait_for_workers(job, lambda n: n > before, "another worker", FOLLOW_S)
            leat.wait_for(lambda: job.status()["lag_s"] < 2, "the end of the lag")
            until = time.monotonic() + 30
            leat.wait_for(lambda: time.monotonic() > until, "a time at the higher load")
            assert job.status()["lag_s"] < 5
            bots.publish(2400)
            wait_for_workers(job, lambda n: n <= before, "fewer workers", FOLLOW_S + longer)
            until = time.monotonic() + 30
            leat.wait_for(lambda: time.monotonic() > until, "a time at the lower load")
            assert len(members(job.status(), "worker")) <= before and job.status()["lag_s"] < 5
        assert len(decisions(job)) <= 10, decisions(job)
        finish(job)


class Commands:
    """Runs commands for a job."""

    def __init__(self, address, token):
        self.address, self.token = address, token

    def run(self, *arguments):
        return leat.run(*arguments, "--coordinator", self.address, env={"LEAT_TOKEN": self.token})

    def __call__(self, *arguments):
        done = self.run(*arguments)
        assert done.returncode == 0 and not done.stdout, (arguments, done.stdout, done.stderr)

    def refused(self, arguments, *parts, **status):
        leat.refused(self.run(*arguments), *parts, **status)

    def status(self):
        return json.loads(self.run("status", "--json").stdout)


@pytest.mark.parametrize("strategy", ["async", pytest.param("{type: sync, lanes: 4}", marks=pytest.mark.long)])
def test_commands_scale_drain_and_pause(tmp_path, strategy):
    directory = tmp_path / "job"
    job_file = counting(tmp_path, strategy, **{
        "events: 40000": "events: 100000000, rate: 1500", "workers: 3, ps: 2": "workers: 1, ps: 1, max_ps: 3"}, **STEPS)
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "training")
        command = Commands(*job.where)
        command("scale", "--workers", "3", "--ps", "2")
        leat.wait_for(lambda: len(members(job.status(), "worker")) == 3, "three workers")
        leat.wait_for(lambda: len(members(job.status(), "ps")) == 2, "two servers")
        assert job.status()["wanted"] == {"workers": 3, "ps": 2}
        leat.wait_for(lambda: all(m.get("bytes_held", 0) > 0 for m in members(job.status(), "ps")), "slices on both")
        command("scale", "--workers", "2")
        leat.wait_for(lambda: len(members(job.status(), "worker")) == 2, "the end of one worker")
        leaves = members(job.status(), "worker")[-1]
        command("drain", "worker", str(leaves["index"]))
        leat.wait_for(lambda: len(members(job.status(), "worker")) == 1, "the end of the drained worker")
        # Processes of members that have left end a moment later.
        leat.wait_for(lambda: len(job.pids("worker")) == 1 and leaves["pid"] not in job.pids("worker"), "the end of its process")
        assert job.status()["wanted"]["workers"] == 1
        command("drain", "ps", "0")
        leat.wait_for(lambda: len(members(job.status(), "ps")) == 1, "the end of the drained server")
        leat.wait_for(lambda: len(job.pids("ps")) == 1, "the end of its process")
        command.refused(["drain", "ps", "1"], "ps 1 is the only server")
        command("scale", "--ps", "3")
        leat.wait_for(lambda: len(members(job.status(), "ps")) == 3, "three servers")
        leat.wait_for(lambda: all(m.get("bytes_held", 0) > 0 for m in members(job.status(), "ps")), "slices on all")
        command("scale", "--ps", "1")
        leat.wait_for(lambda: len(members(job.status(), "ps")) == 1, "the end of two servers")
        assert job.status()["evictions"] == 0, "their slices were handed over"

        command("pause")
        leat.wait_for(lambda: job.status()["phase"] == "paused", "the pause")

        def rests():
            """No event is trained in half a second."""
            last = job.status()["events"]
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                if job.status()["events"] != last:
                    return False
            return True
        leat.wait_for(rests, "the end of what had begun")
        command("checkpoint")
        paused_at = job.status()["events"]
        assert job.status()["phase"] == "paused" and len(members(job.status(), "worker")) == 1
        command("continue")
        leat.wait_for(lambda: job.status()["events"] > paused_at, "training")
        assert job.status()["phase"] == "running"

        command.refused(["scale", "--ps", "0"], "0 servers")
        command.refused(["scale", "--ps", "4"], "4 servers", "max_ps")
        command.refused(["scale", "--workers", "0"], "'0'", "1 to 10000")
        command.refused(["scale", "--workers", "5:3"], "'5:3'")
        command.refused(["scale"], "--workers", "--ps")
        command.refused(["drain", "worker", "77"], "no worker 77")
        command.refused(["drain", "coordinator", "0"], "'coordinator 0'")
        assert job.status()["wanted"] == {"workers": 1, "ps": 1}, "nothing of that has happened"
        finish(job)
    # The ended job's port may be another test's by now.
    with leat.nobodys_address() as address:
        Commands(address, command.token).refused(["scale", "--workers", "3"], address, status=75)


@pytest.mark.parametrize("strategy", ["{type: sync, lanes: 8}", "allreduce"])
def test_workers_are_scaled_up_and_down_under_load(tmp_path, strategy):
    directory, most = tmp_path / "job", 8 if LONG else 4
    job_file = counting(tmp_path, strategy, **{
        "events: 40000": "events: 100000000, rate: 1500", "workers: 3, ps: 2": "workers: 2, ps: 1"}, **STEPS)
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "training")
        command = Commands(*job.where)
        for workers in [most, 2]:
            command("scale", "--workers", str(workers))
            leat.wait_for(lambda: len(members(job.status(), "worker")) == workers, f"{workers} workers")
            before = job.status()["events"]
            leat.wait_for(lambda: job.status()["events"] > before + 1000, "training by them")
        if strategy == "allreduce":
            command.refused(["scale", "--ps", "1"], "no servers")
            command.refused(["scale", "--workers", "1:4"], "2 or more workers")
        assert job.status()["evictions"] == 0
        finish(job)


def test_workers_that_stand_by_take_places_and_a_restarted_coordinator_keeps_what_is_wanted(tmp_path):
    directory = tmp_path / "job"
    job_file = counting(tmp_path, "async", **{
        "events: 40000": "events: 100000000, rate: 1500", "workers: 3, ps: 2": "workers: 1, standby: 1, ps: 1"}, **STEPS)

    def counts():
        """How many workers train, and how many stand by."""
        states = [m.get("state", "active") for m in members(job.status(), "worker")]
        return states.count("active"), states.count("standby"), len(states), len(job.pids("worker"))
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0 and counts() == (1, 1, 2, 2), "training")
        command = Commands(*job.where)
        command("scale", "--workers", "3")
        leat.wait_for(lambda: counts() == (3, 1, 4, 4), "three workers and one that stands by")
        term = job.status()["term"]
        os.kill(job.pids("coordinator")[0], signal.SIGKILL)
        leat.wait_for(lambda: job.status()["term"] > term, "another coordinator")
        leat.wait_for(lambda: job.status()["phase"] == "running", "training")
        leat.wait_for(lambda: counts() == (3, 1, 4, 4), "the same workers")
        assert job.status()["wanted"] == {"workers": 3, "ps": 1}
        command("drain", "worker", "0")
        leat.wait_for(lambda: counts() == (3, 0, 3, 3), "the end of the drained worker")
        assert job.status()["wanted"]["workers"] == 3, "the one that stood by has its place"
        command("scale", "--workers", "1")
        leat.wait_for(lambda: counts() == (1, 1, 2, 2), "the end of two workers, and one that stands by again")
        finish(job)


def test_an_orchestrator_is_told_by_a_hook_and_a_restart_changes_nothing(tmp_path):
    """Without the local runner, commands set the wanted counts. The hook is told, and repeated when it fails."""
    directory, calls, good = tmp_path / "job", tmp_path / "calls", tmp_path / "good"
    script = f"echo {{workers}} $LEAT_PS >> {calls}; test -e {good} || (echo 'no cluster'; false)"
    job_file = counting(tmp_path, "async", **{
        "events: 40000": "events: 100000000, rate: 1500", "workers: 3, ps: 2": "workers: 1, ps: 1, max_ps: 3"}, **STEPS)
    job_file.write_text(job_file.read_text() + f'autoscale: {{command: [sh, -c, "{script}"], timeout_s: 20}}\n')
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job_file, "--directory", directory)
        command = Commands(where, "known to all")
        for role in ("ps", "worker", "bots"):
            roles.start(role, "--coordinator", where)
        leat.wait_for(lambda: command.status().get("events", 0) > 0, "training")
        leat.wait_for(lambda: "no cluster" in command.status()["wanted"].get("hook_failure", ""), "the hook's failure")
        good.write_text("")
        command("scale", "--workers", "4", "--ps", "2")
        leat.wait_for(lambda: calls.read_text().endswith("4 2\n"), "the call of the hook")
        leat.wait_for(lambda: "hook_failure" not in command.status()["wanted"], "its success")
        told = calls.read_text()
        assert told.startswith("1 1\n") and len(members(command.status(), "worker")) == 1, "the hook has started nobody"
        command("pause")
        for name in [n for n in roles.processes if n.startswith("coordinator")]:
            roles.kill(name)
        # The other roles come back, as the address is the same.
        where = roles.coordinator("--resume", directory, "--listen", where)
        leat.wait_for(lambda: len(members(command.status(), "worker")) == 1, "the worker")
        assert command.status()["wanted"] == {"workers": 4, "ps": 2}
        leat.wait_for(lambda: command.status()["phase"] in ("paused", "waiting for servers"), "the pause")
        leat.wait_for(lambda: calls.read_text() != told, "the call of the hook by the new coordinator")
        assert calls.read_text() == told + "4 2\n"
        for name in [n for n in roles.processes if not n.startswith("coordinator")]:
            roles.kill(name)
        command("stop", "--discard")
