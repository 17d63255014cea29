"""All-reduce with more than four members on one host, and jobs on two hosts."""

# folders: train/collective protocol

import json
import os
import random
import re
import signal
import subprocess

import pytest

import leat
from hosts import hosts_fixture
from test_strategies import counting, values

# A model of several 1 MB buckets, so that reduction overlaps computation.
LARGE_MODEL = {"- bias: {units: 16384}": "- bias: {units: 262144}" + 2 * "\n    - residual: {layers: [bias: {units: 262144}]}"}
SMALL_BATCHES = {"batch_size: 100, split_batches: 20": "batch_size: 4, split_batches: 4"}


class Roles:
    """Roles that a test starts one by one. All are killed at the end."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "LEAT_TOKEN": "known to all"}
        self.processes = {}
        self.started = 0

    def start(self, role, *arguments, before=()):
        """Starts a role. `before`: a command that execs the role. Returns the name of its log."""
        name = f"{role}-{self.started}"
        self.started += 1
        environment = self.environment
        if before and "--security" not in arguments:  # hosts whose network is trusted
            environment = {**environment, "LEAT_TRUSTED_NETWORK": "1"}
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(
                [*before, leat.PROGRAM, role, *map(str, arguments)], env=environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True)
        return name

    def kill(self, name):
        """Kills a role, and the command that entered its host."""
        process = self.processes.pop(name)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def said(self, name):
        return (self.folder / f"{name}.log").read_text()

    def coordinator(self, *arguments, before=()):
        """Starts the coordinator and returns its address."""
        name = self.start("coordinator", *arguments, before=before)
        found = leat.wait_for(
            lambda: re.search(r" serves on (\S+)\s", self.said(name)) or self.processes[name].poll() is not None,
            "the coordinator's address")
        assert found is not True, self.said(name)
        return found[1]

    def wait(self):
        """Waits until all roles have ended with status 0."""
        def over():
            for name, process in self.processes.items():
                assert process.poll() in [None, 0], name + ":\n" + self.said(name)[-2000:]
            return all(process.poll() == 0 for process in self.processes.values())
        leat.wait_for(over, "the end of all roles", 300)

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            for name in self.processes:
                print(f"{name}:\n{self.said(name)[-1500:]}")
        for name in list(self.processes):
            self.kill(name)


def check_counts(directory, events):
    """Checks the parameters that all members have saved: each is the number of events."""
    assert json.loads((directory / "summary.json").read_text())["events"] == events
    assert values(directory) == {float(events)}


# Members with different addresses act as different hosts: they compute on one thread and reduce on another.
@pytest.mark.parametrize("members", [5, 6])
@pytest.mark.parametrize("apart", [False, True])
def test_a_ring_counts_every_event_once(tmp_path, members, apart):
    events = 40 * members * 4
    directory = tmp_path / "job"
    job = counting(tmp_path, "allreduce", **{"units: 2048": "units: 16384", "events: 40000": f"events: {events}"})
    job = leat.write_job(job, job.read_text(), **LARGE_MODEL, **SMALL_BATCHES)
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", members)
        for member in range(members):
            roles.start("worker", "--coordinator", where, "--listen", f"127.0.0.{member + 1 if apart else 1}:0")
        roles.start("bots", "--coordinator", where)
        roles.wait()
    check_counts(directory, events)
    shards = list(max(directory.glob("checkpoint-*")).glob("*.safetensors"))
    assert len(shards) == members, "each member saves a part of the state"


hosts = hosts_fixture(2)


@pytest.mark.parametrize("strategy, servers", [("allreduce", 0), ("{type: allreduce, deterministic: true}", 0),
                                               ("async", 2), ("sync", 2)])
def test_two_hosts_count_every_event_once(tmp_path, hosts, strategy, servers):
    events, workers, units = 12_000, 4, 65_536
    directory = tmp_path / "job"
    job = counting(tmp_path, strategy, **{"events: 40000": f"events: {events}", "units: 2048": f"units: {units}"})
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", workers, "--ps", servers, "--listen",
                                  hosts.addresses[0] + ":0", before=hosts.at(0))
        for role in ["ps"] * servers + ["worker"] * workers:
            host = len(roles.processes) % 2
            roles.start(role, "--coordinator", where, "--listen", hosts.addresses[host] + ":0", before=hosts.at(host))
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        roles.wait()
        # In each step, or in each host's batches, all values cross the cable.
        steps = events // (100 * workers)
        for host in [0, 1]:
            assert hosts.bytes_received(host) > steps * units * 4 / 2, "too little traffic between the hosts"
    check_counts(directory, events)
    members = json.loads((directory / "summary.json").read_text())["members"]
    assert {m.get("host") for m in members if m["role"] in ("ps", "worker")} <= {"leat-a", "leat-b", None}


def refused(roles, name, expected=2):
    """Waits until a role has ended with this exit status and one line that begins with "leat: ", and returns the line."""
    status = leat.wait_for(lambda: roles.processes[name].poll() is not None, name) and roles.processes[name].poll()
    lines = [line for line in roles.said(name).splitlines() if line.startswith("leat: ")]
    assert status == expected and len(lines) == 1, (status, roles.said(name))
    del roles.processes[name]
    return lines[0]


def test_an_address_that_another_host_cannot_reach_is_refused_with_a_better_one(tmp_path, hosts):
    events = 12_000
    directory = tmp_path / "job"
    job = counting(tmp_path, "async", **{"events: 40000": f"events: {events}"})
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", 1, "--ps", 2, "--listen", "0.0.0.0:0",
                                  "--advertise", hosts.addresses[0], before=hosts.at(0))
        assert where.startswith(hosts.addresses[0] + ":")
        for listen in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"]:
            line = refused(roles, roles.start("ps", "--coordinator", where, "--listen", listen, before=hosts.at(1)))
            port = re.search(re.escape(listen[:-1]) + r"(\d+),", line)[1]
            assert f"--advertise {hosts.addresses[1]}:{port}" in line, line
        # On the coordinator's own host, loopback is good until a role on another host comes.
        local = roles.start("ps", "--coordinator", where, before=hosts.at(0))
        leat.wait_for(lambda: "joined as node" in roles.said(local), "the server on the first host")
        line = refused(roles, roles.start("worker", "--coordinator", where, before=hosts.at(1)), 75)
        assert "ps 0 (node " in line and "host leat-a" in line and "this worker on host leat-b cannot reach" in line
        roles.kill(local)
        for host in [0, 1]:
            roles.start("ps", "--coordinator", where, "--listen", "0.0.0.0:0", "--advertise", hosts.addresses[host],
                        before=hosts.at(host))
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        worker = roles.start("worker", "--coordinator", where, before=hosts.at(1))
        roles.wait()
        assert "joined as node" in roles.said(worker)
    check_counts(directory, events)


def test_two_servers_with_one_advertised_address_do_not_evict_each_other(tmp_path):
    job = counting(tmp_path, "async")
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", tmp_path / "job", "--workers", 1, "--ps", 2)
        first = roles.start("ps", "--coordinator", where, "--advertise", "127.0.0.1:7")
        leat.wait_for(lambda: "joined as node" in roles.said(first), "the first server")
        one, two = roles.processes[first].pid, roles.start("ps", "--coordinator", where, "--advertise", "127.0.0.1:7")
        line = refused(roles, two, 75)
        assert f"of ps 0 (node 1, host {os.uname().nodename}, pid {one})" in line and "--advertise" in line, line
        assert "pid" in line.split(" has the address ")[0], "both are named"
        status = json.loads(leat.run("status", "--coordinator", where, "--json", env=roles.environment).stdout)
        assert status["evictions"] == 0 and roles.processes[first].poll() is None
        assert "evicted" not in roles.said(first)


@pytest.mark.parametrize("advertise, part", [("0.0.0.0", "wildcard"), ("[::]:7", "wildcard"), ("127.0.0.1:0", "port 0"),
                                             ("a b", "not host:port"), ("host:x", "not host:port")])
def test_an_address_that_cannot_be_advertised(tmp_path, advertise, part):
    done = leat.run("ps", "--coordinator", "127.0.0.1:1", "--advertise", advertise, env={"LEAT_TOKEN": "x"})
    leat.refused(done, advertise, part)


def cycles(few, many):
    return [few, pytest.param(many, marks=pytest.mark.long)]


@pytest.mark.parametrize("terminations", cycles(10, 200))
@pytest.mark.parametrize("strategy", ["allreduce", "{type: allreduce, deterministic: true}"])
def test_a_member_that_leaves_takes_no_gradient_with_it(tmp_path, strategy, terminations):
    """Members on the same host read gradients in each other's memory. A member that leaves after it has finished a step gives up
    its memory only when the others have finished the step, too."""
    directory = tmp_path / "job"
    job_file = counting(tmp_path, strategy, **{"events: 40000": "events: 16000000, rate: 30000", "units: 2048": "units: 262144"})
    rng = random.Random(11)
    with leat.Job("train", job_file, "--directory", directory, "--workers", 2, directory=directory) as job:
        where, environment = job.address(), {**os.environ, "LEAT_TOKEN": job.token()}
        for i in range(terminations):
            log = tmp_path / f"worker-{i}.log"
            with open(log, "w") as file:
                member = subprocess.Popen([leat.PROGRAM, "worker", "--coordinator", where], env=environment, stdout=file,
                                          stderr=subprocess.STDOUT)
            try:
                leat.wait_for(lambda: re.search(r"group \d+: rank \d of 3", log.read_text()), "a group of three")
                begin = job.status()["events"]
                leat.wait_for(lambda: job.status()["events"] > begin + rng.randrange(2000), "steps of the group")
                member.terminate()
                assert member.wait(60) == 0, log.read_text()
            finally:
                member.kill()
                member.wait()
        job.interrupt()
        assert job.wait() == 0, job.text()
        events = job.summary()["events"]
    assert 0 < events < 16_000_000, "the stream outlasted the terminations"
    assert values(directory) == {float(events)}
