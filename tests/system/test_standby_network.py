"""Standby coordinators that share nothing but the network with the coordinator: each has its own directory."""

# folders: protocol net/rpc

import json
import signal
import subprocess
import time

import pytest

import leat
from test_members import Roles
from test_strategies import counting, values

EVENTS = 180_000
RATE = 30_000
TOKEN = {"LEAT_TOKEN": "known to all"}


def job(folder, strategy):
    return counting(folder, strategy, **{"events: 1000000": f"events: {EVENTS}", "interval_s: 5": "interval_s: 2",
                                         "topic: events": f"topic: events\n  log: {folder}/log"})


def status(address):
    done = leat.run("status", "--coordinator", address, "--json", env=TOKEN)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def check_nothing_again(directory, term):
    """Every event counts once, and was computed once."""
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["term"] >= term, summary
    assert summary["events"] == EVENTS, summary
    assert values(directory) == {float(EVENTS)}
    assert summary["since_start"]["events"] == EVENTS, summary
    for count in ["duplicates", "evictions", "regranted_leases"]:
        assert summary[count] == 0, (count, summary)


class Cluster:
    """A coordinator, and standbys with directories of their own."""

    def __init__(self, folder, roles, strategy, standbys):
        self.folder, self.roles = folder, roles
        self.addresses = [f"127.0.0.1:{port}" for port in leat.free_ports(1 + standbys)]
        self.directories = [folder / f"coordinator-{i}" for i in range(1 + standbys)]
        servers = [] if strategy == "allreduce" else ["ps"] * 3
        self.names = [roles.start("coordinator", job(folder, strategy), "--directory", self.directories[0], "--listen",
                                  self.addresses[0], "--rate", RATE // 2, "--ps", len(servers))]
        for role in [*servers, "worker", "worker", "worker", "bots"]:
            roles.start(role, "--coordinator", self.addresses[0])
        leat.wait_for(lambda: status(self.addresses[0]).get("events", 0) >= EVENTS // 20, "progress")
        for i in range(1, 1 + standbys):
            self.start_standby(i)

    def start_standby(self, index, leader=0):
        name = self.roles.start("coordinator", "--standby", self.addresses[leader], "--directory", self.directories[index],
                                "--listen", self.addresses[index])
        if index < len(self.names):
            self.names[index] = name
        else:
            self.names.append(name)
        leat.wait_for(lambda: "can take the job over" in self.roles.said(name), "a copy of the journal")

    def events(self, index):
        return status(self.addresses[index]).get("events", 0)


@pytest.mark.parametrize("strategy", ["async", "sync", "allreduce"])
def test_a_standby_takes_over_with_its_own_directory(tmp_path, strategy):
    with Roles(tmp_path) as roles:
        cluster = Cluster(tmp_path, roles, strategy, standbys=1)
        leat.wait_for(lambda: list(cluster.directories[1].glob("checkpoint-*/manifest.json")), "a copy of a checkpoint")
        before = cluster.events(0)
        roles.kill(cluster.names[0])
        killed = time.monotonic()
        leat.wait_for(lambda: cluster.events(1) > before, "progress with the standby")
        took = time.monotonic() - killed
        roles.wait()
        print(f"{strategy}: {took:.2f} s from the kill until progress was seen")
    assert "elected this standby" in roles.said(cluster.names[1])
    check_nothing_again(cluster.directories[1], 2)


def test_two_standbys_take_over_one_after_the_other(tmp_path):
    with Roles(tmp_path) as roles:
        cluster = Cluster(tmp_path, roles, "async", standbys=2)
        roles.kill(cluster.names[0])
        leat.wait_for(lambda: cluster.events(1) or cluster.events(2), "the first standby as coordinator")
        first = 1 if cluster.events(1) else 2
        other = 3 - first
        leat.wait_for(lambda: roles.said(cluster.names[other]).count("can take the job over") == 2,
                      "the other one has a copy of the new journal")
        before = cluster.events(first)
        roles.kill(cluster.names[first])
        leat.wait_for(lambda: cluster.events(other) > before, "progress with the other one")
        roles.wait()
    check_nothing_again(cluster.directories[other], 3)


def test_a_coordinator_that_was_stopped_changes_nothing(tmp_path):
    with Roles(tmp_path) as roles:
        cluster = Cluster(tmp_path, roles, "async", standbys=1)
        stopped = roles.processes.pop(cluster.names[0])
        try:
            stopped.send_signal(signal.SIGSTOP)
            leat.wait_for(lambda: cluster.events(1), "the standby as coordinator")
            before = cluster.events(1)
            leat.wait_for(lambda: cluster.events(1) > before, "progress with it")
            stopped.send_signal(signal.SIGCONT)
            roles.wait()
        finally:
            stopped.kill()
            stopped.wait()
    check_nothing_again(cluster.directories[1], 2)


def test_a_coordinator_that_is_restarted_asks_the_servers(tmp_path):
    with Roles(tmp_path) as roles:
        cluster = Cluster(tmp_path, roles, "async", standbys=1)
        # Either of the two is elected.
        roles.kill(cluster.names[0])
        roles.processes["ended"] = subprocess.Popen(["true"])  # names count the processes, and stay unique
        cluster.names[0] = roles.start("coordinator", "--resume", cluster.directories[0], "--listen", cluster.addresses[0])
        before = leat.wait_for(lambda: cluster.events(0) or cluster.events(1), "a coordinator")
        active = 0 if cluster.events(0) else 1
        leat.wait_for(lambda: cluster.events(active) > before, "progress")
        if active == 0:
            leat.wait_for(lambda: roles.said(cluster.names[1]).count("can take the job over") == 2, "the standby follows again")
            roles.kill(cluster.names[0])
            before = leat.wait_for(lambda: cluster.events(1), "the standby as coordinator")
            leat.wait_for(lambda: cluster.events(1) > before, "progress with the standby")
        else:
            # Its directory lacks what the standby has done since, and nobody calls it.
            assert "serves on" not in roles.said(cluster.names[0])
            roles.kill(cluster.names[0])
        roles.wait()
    check_nothing_again(cluster.directories[1], 2)


def test_bad_input(tmp_path):
    where = ["--standby", "127.0.0.1:1"]
    leat.refused(leat.run("coordinator", *where, "--resume", tmp_path / "a", "--directory", tmp_path / "b", env=TOKEN),
                 "either --resume with the directory of the running job, or --directory")
    leat.refused(leat.run("coordinator", job(tmp_path, "async"), *where, "--directory", tmp_path / "b", env=TOKEN),
                 "--standby needs --resume with the directory of the running job, or --directory")
    with Roles(tmp_path) as roles:
        address = roles.coordinator(counting(tmp_path, "async"), "--directory", tmp_path / "hidden")
        leat.refused(leat.run("coordinator", "--standby", address, "--directory", tmp_path / "b", env=TOKEN),
                     "the job's stream is in the coordinator's directory")
        roles.kill("coordinator-0")
    with Roles(tmp_path) as roles:
        address = roles.coordinator(job(tmp_path, "async"), "--directory", tmp_path / "job", "--rate", RATE)
        other = tmp_path / "other"
        other.mkdir()
        (other / "job.yaml").write_text("no job\n")
        for directory, why in [(tmp_path / "job", "is in use by process"), (other, "job.yaml")]:
            leat.refused(leat.run("coordinator", "--standby", address, "--directory", directory, env=TOKEN), why)
