"""Checkpoints of jobs on emulated hosts, of which only the coordinator's sees the job's directory."""

# folders: storage/transfer storage/checkpoint

import json
import re
import time

import pytest

import leat
from hosts import hosts_fixture
from test_hosts import ask, status
from test_members import Roles, check_counts
from test_strategies import counting

EVENTS = 40_000


hosts = hosts_fixture(6)


class Job:
    """A job whose directory is on host 0 alone, and whose stream all hosts see."""

    def __init__(self, folder, hosts, strategy, **changes):
        self.folder, self.hosts = folder, hosts
        self.jobs, self.data, self.scratch = folder / "jobs", folder / "data", folder / "scratch"
        for made in (self.jobs, self.data):
            made.mkdir()
        for host in range(1, hosts.count):
            hosts.hide(host, self.jobs)
        self.directory = self.jobs / "job"
        self.text = counting(folder, strategy, **{"events: 40000": f"events: {EVENTS}", "topic: events": "topic: events\n  log: log",
                                                  "split_batches: 20": "split_batches: 5", **changes})

    def coordinator(self, roles, *arguments):
        return roles.coordinator(*arguments, "--data", self.data, "--listen", self.hosts.addresses[0] + ":0",
                                 before=self.hosts.at(0))

    def start(self, roles, where, role, host):
        return roles.start(role, "--coordinator", where, "--listen", self.hosts.addresses[host] + ":0", "--scratch", self.scratch,
                           before=self.hosts.at(host))

    def checkpoints(self):
        return sorted(self.directory.glob("checkpoint-*/manifest.json"))

    def left_in_scratch(self):
        return list(self.scratch.glob("*"))


@pytest.mark.parametrize("strategy", ["async", "sync", pytest.param("allreduce", marks=pytest.mark.long)])
def test_a_job_is_resumed_on_hosts_that_never_saw_it(tmp_path, hosts, strategy):
    job = Job(tmp_path, hosts, strategy)
    servers = 0 if strategy == "allreduce" else 2
    with Roles(tmp_path) as roles:
        where = job.coordinator(roles, job.text, "--directory", job.directory, "--workers", 2, "--ps", servers, "--pause-at",
                                EVENTS // 2)
        for host in (1, 2)[:servers]:
            job.start(roles, where, "ps", host)
        for host in (3, 4):
            job.start(roles, where, "worker", host)
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        leat.wait_for(lambda: status(hosts, roles, where).get("events", 0) >= EVENTS // 2, "the first half")
        assert ask(hosts, roles, where, "checkpoint").returncode == 0
        assert status(hosts, roles, where)["failed_checkpoints"] == 0
        assert job.checkpoints()
        assert len(job.left_in_scratch()) == max(servers, 2 if servers == 0 else 0), "one directory of each role that saves"
        for name in list(roles.processes):
            roles.kill(name)
        # Other hosts, and one server more.
        where = job.coordinator(roles, "--resume", job.directory, "--workers", 2, "--ps", servers and servers + 1)
        for host in (3, 4, 5)[:servers and servers + 1]:
            job.start(roles, where, "ps", host)
        for host in (1, 2):
            job.start(roles, where, "worker", host)
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        roles.wait()
    check_counts(job.directory, EVENTS)
    assert json.loads((job.directory / "summary.json").read_text())["failed_checkpoints"] == 0
    assert not job.left_in_scratch(), "what the killed processes left is removed by the next ones, theirs at their end"


def test_a_checkpoint_continues_after_the_link_was_cut(tmp_path, hosts):
    job = Job(tmp_path, hosts, "async", **{"units: 2048": "units: 524288", "interval_s: 0.5": "interval_s: 1",
                                           "cluster: {": "cluster: {heartbeat_timeout_s: 60, "})
    with Roles(tmp_path) as roles:
        where = job.coordinator(roles, job.text, "--directory", job.directory, "--workers", 1, "--ps", 2, "--pause-at", EVENTS // 2)
        server = job.start(roles, where, "ps", 1)
        job.start(roles, where, "ps", 2)
        job.start(roles, where, "worker", 3)
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        leat.wait_for(lambda: status(hosts, roles, where).get("events", 0) >= EVENTS // 2, "the first half")
        hosts.slow(1, "2mbit")
        node = re.search(r"joined as node (\d+)", roles.said(server))[1]
        earlier = set(job.directory.glob("checkpoint-*"))  # their shards may be whole before the cut

        def on_its_way():
            return [part for part in job.directory.glob(f"checkpoint-*/shard-{node}.*tmp") if part.parent not in earlier]

        begun = leat.wait_for(on_its_way, "a shard on its way")[0].parent
        hosts.cut(0, 1)
        leat.wait_for(lambda: "file transfer" in roles.said(server), "the end of the connection")
        assert not (begun / "manifest.json").exists()
        hosts.fast(1)
        hosts.mend(0, 1)
        leat.wait_for(lambda: (begun / "manifest.json").exists(), "the checkpoint that was interrupted")
        assert status(hosts, roles, where)["failed_checkpoints"] == 0
        assert ask(hosts, roles, where, "continue").returncode == 0
        roles.wait()
    check_counts(job.directory, EVENTS)


@pytest.mark.long
def test_leat_checkpoint_waits_for_a_slow_link(tmp_path, hosts):
    job = Job(tmp_path, hosts, "async", **{"units: 2048": "units: 524288", "interval_s: 0.5": "interval_s: 1000",
                                           "cluster: {": "cluster: {heartbeat_timeout_s: 60, "})
    with Roles(tmp_path) as roles:
        where = job.coordinator(roles, job.text, "--directory", job.directory, "--workers", 1, "--ps", 1, "--pause-at", 1)
        job.start(roles, where, "ps", 1)
        job.start(roles, where, "worker", 3)
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        leat.wait_for(lambda: status(hosts, roles, where).get("phase") == "paused", "the pause")
        hosts.slow(1, "1mbit")
        begun = time.monotonic()
        saved = ask(hosts, roles, where, "checkpoint")
        assert saved.returncode == 0, saved.stderr
        assert time.monotonic() - begun > 12, "this link was not slow enough for a test"
        assert job.checkpoints()
        shown = re.findall(r"checkpoint 1: (\d+) MiB saved, waiting for the shards of ps 0", saved.stderr)
        assert len(set(shown)) >= 2 and shown == sorted(shown, key=int), saved.stderr
        hosts.fast(1)


def test_a_server_without_a_place_for_its_shards_is_refused(tmp_path, hosts):
    job = Job(tmp_path, hosts, "async")
    with Roles(tmp_path) as roles:
        roles.environment.pop("TMPDIR", None)
        where = job.coordinator(roles, job.text, "--directory", job.directory, "--workers", 1, "--ps", 1)
        name = roles.start("ps", "--coordinator", where, "--listen", hosts.addresses[1] + ":0", before=hosts.at(1))
        leat.wait_for(lambda: roles.processes[name].poll() is not None, "the end of the server")
        assert roles.processes.pop(name).returncode == 2
        lines = [line for line in roles.said(name).splitlines() if line.startswith("leat: ")]
        assert len(lines) == 1 and "--scratch" in lines[0] and str(job.directory) in lines[0], lines
