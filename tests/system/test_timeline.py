"""`leat timeline`: what the processes of a job do, on one clock."""

# folders: show/timeline base/recorder

import collections
import json
import os
import re
import signal
import subprocess
import threading

import pytest

import leat
from hosts import hosts_fixture
from test_members import Roles
from test_strategies import classifying, counting, folder  # noqa: F401 (a fixture)

hosts = hosts_fixture(4)


class Trace:
    """A file as viewers read it."""

    def __init__(self, path):
        content = json.loads(path.read_text())
        self.processes = content["otherData"]["processes"]
        self.names = {}  # names of processes, by pid of the trace
        self.rows = {}
        self.spans = []
        self.arrows = collections.defaultdict(dict)
        for event in content["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "process_name":
                self.names[event["pid"]] = event["args"]["name"]
            elif event["ph"] == "M" and event["name"] == "thread_name":
                self.rows[event["pid"], event["tid"]] = event["args"]["name"]
            elif event["ph"] == "X":
                self.spans.append(event)
            elif event["ph"] in "sf":
                self.arrows[event["id"]][event["ph"]] = event

    def kinds(self, role):
        """The kinds of spans of the processes of a role."""
        return {s["name"] for s in self.spans if self.names[s["pid"]].startswith(role)}

    def process(self, name):
        return next(p for p in self.processes if p["name"] == name)

    def check(self, seconds):
        """Spans are in the recording, and nest in each row."""
        rows = collections.defaultdict(list)
        for span in self.spans:
            assert 0 <= span["ts"] <= seconds * 1e6, span
            assert span["dur"] >= 0, span
            rows[span["pid"], span["tid"]].append((span["ts"], span["ts"] + span["dur"]))
        for row, spans in rows.items():
            assert row in self.rows, row
            open_ends = []
            for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
                while open_ends and open_ends[-1] <= begin + 0.001:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1] + 0.001, (self.rows[row], begin, end)
                open_ends.append(end)

    def check_arrows(self):
        """Each leads from a push to its apply, which ends before the push has its reply."""
        spans = {(s["pid"], s["tid"], s["ts"]): s for s in self.spans}
        error = {p["name"]: p.get("clock_error_us", 0) for p in self.processes}
        assert self.arrows
        for arrow in self.arrows.values():
            push, apply = (spans[arrow[end]["pid"], arrow[end]["tid"], arrow[end]["ts"]] for end in "sf")
            assert (push["name"], apply["name"]) == ("push", "apply")
            assert push["args"]["number"] == apply["args"]["number"]
            assert push["args"]["bytes"] == apply["args"]["bytes"]
            row, worker = self.rows[push["pid"], push["tid"]], self.names[push["pid"]]
            assert self.names[apply["pid"]].startswith(row.removeprefix("push to "))
            assert worker.startswith(self.rows[apply["pid"], apply["tid"]].removeprefix("apply of "))
            # Both clocks are known to their errors.
            wrong = 1 + sum(e for name, e in error.items() if worker.startswith(name) or self.names[apply["pid"]].startswith(name))
            assert apply["ts"] >= push["ts"] - wrong, (push, apply, wrong)


def record(job, path, seconds, secured=()):
    address, token = job.where
    return leat.run("timeline", "--coordinator", address, "--seconds", seconds, "--out", path, *secured,
                    env={"LEAT_TOKEN": token})


def long_job(folder, tmp_path, strategy, *options):  # noqa: F811
    """A job that trains for longer than a test takes."""
    job = classifying(folder, strategy, epochs=400, **{"checkpoint:": "debug: {step_ms: 1}\ncheckpoint:"})
    return leat.Job("train", job, "--data", folder, "--directory", tmp_path / "job", "--workers", "2", *options,
                    directory=tmp_path / "job")


def await_events(job):
    leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")


def test_what_servers_and_workers_do(folder, tmp_path):  # noqa: F811
    with long_job(folder, tmp_path, "async", "--ps", "2") as job:
        await_events(job)
        done = record(job, tmp_path / "trace.json", 2)
        assert done.returncode == 0, done.stderr
        trace = Trace(tmp_path / "trace.json")
        job.interrupt()
        assert job.wait() == 0, job.text()
    assert re.search(r"2\.0 s of 5 processes", done.stdout), done.stdout
    assert {p["name"] for p in trace.processes} == {"coordinator", "ps 0", "ps 1", "worker 0", "worker 1"}
    assert not [p for p in trace.processes if p.get("missing") or p.get("dropped_spans")], trace.processes
    assert {"decode", "forward", "backward", "push", "wait"} <= trace.kinds("worker")
    assert {"apply", "checkpoint"} <= trace.kinds("ps")
    assert trace.kinds("coordinator") == {"checkpoint"}
    trace.check(2)
    trace.check_arrows()
    # Nearly every push has its arrow; others began before the recording, or ended after it.
    pushes = [s for s in trace.spans if s["name"] == "push"]
    assert len(trace.arrows) > 0.9 * len(pushes) > 10
    # On one machine all clocks are the same.
    for process in trace.processes[1:]:
        assert abs(process["clock_offset_us"]) <= process["clock_error_us"], process


def test_what_members_of_a_group_do(folder, tmp_path):  # noqa: F811
    with long_job(folder, tmp_path, "allreduce") as job:
        await_events(job)
        done = record(job, tmp_path / "trace.json", 1)
        assert done.returncode == 0, done.stderr
        trace = Trace(tmp_path / "trace.json")
        job.interrupt()
        assert job.wait() == 0, job.text()
    assert {"decode", "forward", "backward", "bucket", "wait"} <= trace.kinds("worker")
    trace.check(1)


def test_bad_input(folder, tmp_path):  # noqa: F811
    with long_job(folder, tmp_path, "async", "--ps", "1") as job:
        await_events(job)
        leat.refused(record(job, tmp_path / "none" / "trace.json", 1), "cannot be written", "none/trace.json")
        leat.refused(record(job, tmp_path / "trace.json", 0), "--seconds")
        leat.refused(record(job, tmp_path / "trace.json", 61), "--seconds")
        # Recordings exclude each other.
        first = threading.Thread(target=record, args=(job, tmp_path / "first.json", 5))
        first.start()
        log = job.directory / "logs/worker-0.log"
        leat.wait_for(lambda: "recording for" in log.read_text(), "the first recording")
        leat.refused(record(job, tmp_path / "trace.json", 0.1), "another recording is not over")
        first.join()
        assert (tmp_path / "first.json").exists()
        job.interrupt()
        assert job.wait() == 0, job.text()
    # The ended job's port may be another test's by now.
    with leat.nobodys_address() as address:
        job.where = (address, job.where[1])
        leat.refused(record(job, tmp_path / "trace.json", 1), address, status=75)


def in_time(seconds):
    """A command prefix: the clock is so many seconds ahead of the machine's."""
    return ["unshare", "--time", "--monotonic", str(seconds), "--fork", "--kill-child"]


def check_clocks(tmp_path, roles, address, ahead, seconds, at=()):
    """Records a job whose processes have clocks that are ahead of the coordinator's by known times."""
    def command(name, *arguments):
        return subprocess.run([*at, leat.PROGRAM, name, "--coordinator", address, *map(str, arguments)], env=roles.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

    def status():
        done = command("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}
    leat.wait_for(lambda: status().get("events", 0) > 0, "the first events")
    done = command("timeline", "--seconds", seconds, "--out", tmp_path / "trace.json")
    assert done.returncode == 0, done.stderr
    trace = Trace(tmp_path / "trace.json")
    for name, by in ahead.items():
        process = trace.process(name)
        assert abs(process["clock_offset_us"] + by * 1e6) <= process["clock_error_us"], process
    trace.check(seconds)
    trace.check_arrows()
    assert not [p for p in trace.processes if p.get("missing")], trace.processes


def endless_job(tmp_path):
    """A job that is not over before the test."""
    return counting(tmp_path, "async", **{"units: 2048": "units: 64", "events: 40000": "events: 400000000, rate: 20000"})


def test_clocks_that_differ(tmp_path):
    if subprocess.run([*in_time(1), "true"], capture_output=True).returncode != 0:
        pytest.skip("time namespaces need root, and Linux 5.6")
    with Roles(tmp_path) as roles:
        address = roles.coordinator(endless_job(tmp_path), "--directory", tmp_path / "job", "--workers", 1, "--ps", 1)
        roles.start("bots", "--coordinator", address)
        roles.start("ps", "--coordinator", address, before=in_time(1000))
        roles.start("worker", "--coordinator", address, before=in_time(86_400))
        check_clocks(tmp_path, roles, address, {"ps 0": 1000, "worker 0": 86_400}, 2)


def test_a_process_that_dies_or_stands_still_is_named(folder, tmp_path):  # noqa: F811
    with long_job(folder, tmp_path, "async", "--ps", "1") as job:
        await_events(job)
        workers = sorted(m["pid"] for m in job.status()["members"] if m["role"] == "worker")
        recording = threading.Thread(target=record, args=(job, tmp_path / "trace.json", 1.5))
        recording.start()
        log = tmp_path / "job" / "logs"
        leat.wait_for(lambda: all("recording for" in p.read_text() for p in log.glob("worker-*.log")), "the order")
        os.kill(workers[0], signal.SIGKILL)
        recording.join()
        job.interrupt()
        assert job.wait() == 0, job.text()
    trace = Trace(tmp_path / "trace.json")
    missing = [p for p in trace.processes if p["pid"] == workers[0]]
    assert [p["missing"] for p in missing] == ["it has left the job, or was lost"]
    assert not next(p for p in trace.processes if p["pid"] == workers[1]).get("missing")


@pytest.mark.long
def test_hosts_with_clocks_of_their_own(tmp_path, hosts):
    """Each host is in a time namespace, and reaches the others by a network."""
    with Roles(tmp_path) as roles:
        roles.environment["LEAT_TRUSTED_NETWORK"] = "1"
        address = roles.coordinator(endless_job(tmp_path), "--directory", tmp_path / "job", "--workers", 2, "--ps", 1, "--listen",
                                    hosts.addresses[0] + ":0", before=hosts.at(0))
        roles.start("bots", "--coordinator", address, before=hosts.at(0))
        for role, host, seconds in [("ps", 1, 5000), ("worker", 2, 12_345), ("worker", 3, 1_000_000)]:
            roles.start(role, "--coordinator", address, "--listen", hosts.addresses[host] + ":0",
                        before=[*hosts.at(host), *in_time(seconds)])
        ahead = {"ps 0": 5000}

        def joined():
            done = subprocess.run([*hosts.at(0), leat.PROGRAM, "status", "--coordinator", address, "--json"],
                                  env=roles.environment, capture_output=True, text=True, timeout=60)
            members = json.loads(done.stdout)["members"] if done.returncode == 0 else []
            return {(m["role"], m["index"]): m["host"] for m in members if m["role"] == "worker"}
        workers = leat.wait_for(lambda: joined() if len(joined()) == 2 else None, "both workers")
        for (_, index), host in workers.items():
            ahead[f"worker {index}"] = {hosts.name(2): 12_345, hosts.name(3): 1_000_000}[host]
        check_clocks(tmp_path, roles, address, ahead, 5, at=hosts.at(0))
