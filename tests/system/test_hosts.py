"""Jobs on emulated hosts: a worker that is cut off from a server holds up nobody, and every event counts once."""

# folders: protocol net

import json
import subprocess
import time

import pytest

import leat
from hosts import hosts_fixture
from test_members import Roles, check_counts
from test_strategies import counting


hosts = hosts_fixture(5)


def ask(hosts, roles, where, *command):
    """Runs a command against the coordinator, on its host."""
    return subprocess.run([*hosts.at(0), leat.PROGRAM, command[0], "--coordinator", where, *command[1:]],
                          env=roles.environment, capture_output=True, text=True, timeout=60)


def status(hosts, roles, where):
    done = ask(hosts, roles, where, "status", "--json")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def test_hosts_share_nothing_but_the_network(tmp_path, hosts):
    hosts.hide(1, tmp_path)
    (tmp_path / "file").write_text("on host 0 only")
    seen = [subprocess.run([*hosts.at(host), "sh", "-c", f"ls {tmp_path}; hostname; ls /proc | grep -c '^[0-9]'"],
                           capture_output=True, text=True).stdout.split() for host in (0, 1)]
    assert seen[0][:2] == ["file", "leat-a"] and seen[1][0] == "leat-b", seen
    assert all(int(s[-1]) < 10 for s in seen), "a host sees the processes of others"


def unreachable(hosts, roles, where):
    """The pairs that the status names: (role, host, unreachable members)."""
    return [(m["role"], m["host"], m["unreachable"]) for m in status(hosts, roles, where).get("members", [])
            if m.get("unreachable")]


def check_named_in_time(hosts, roles, where, a, b):
    """Two hosts are cut off from each other from now on: the pair is named within ten seconds."""
    began = time.monotonic()
    pairs = leat.wait_for(lambda: unreachable(hosts, roles, where), "the name of the pair")
    took = time.monotonic() - began
    assert took < 10, f"named after {took:.1f} s"
    assert {host for _, host, _ in pairs} <= {hosts.name(a), hosts.name(b)}, pairs


@pytest.mark.parametrize("strategy", ["async"] + [pytest.param(s, marks=pytest.mark.long) for s in [
    "sync", "{type: ssp, staleness: 2}"]])
def test_a_worker_cut_off_from_a_server_is_named_and_holds_up_nobody(tmp_path, hosts, strategy):
    events = 24_000
    directory = tmp_path / "job"
    # The other worker is slow enough to leave it something to do.
    job = counting(tmp_path, strategy, **{"events: 40000": f"events: {events}", "split_batches: 20": "split_batches: 5",
                                          "interval_s: 0.5}": "interval_s: 0.5}\ndebug: {step_ms: 40}"})
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", 2, "--ps", 2, "--pause-at", events // 2,
                                  "--listen", hosts.addresses[0] + ":0", before=hosts.at(0))
        for host, role in enumerate(["ps", "ps", "worker", "worker"], 1):
            roles.start(role, "--coordinator", where, "--listen", hosts.addresses[host] + ":0", before=hosts.at(host))
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        leat.wait_for(lambda: status(hosts, roles, where).get("events", 0) >= events // 2, "the first half")
        members = status(hosts, roles, where)["members"]
        server = next(m for m in members if m["role"] == "ps" and m["host"] == hosts.name(2))
        hosts.cut(2, 4)
        assert ask(hosts, roles, where, "continue").returncode == 0
        began = time.monotonic()

        def named():
            current = status(hosts, roles, where)
            return [m for m in current.get("members", []) if m.get("unreachable")] or current == {}

        pairs = leat.wait_for(named, "the name of the pair")
        took = time.monotonic() - began
        if pairs is not True:
            assert [(m["role"], m["host"], m["unreachable"]) for m in pairs] == [
                ("worker", hosts.name(4), [f"ps {server['index']}"])]
            assert took < 10, f"named after {took:.1f} s"
        leat.wait_for(lambda: (directory / "summary.json").exists(), "the end of the job", 300)
        hosts.mend(2, 4)
        roles.wait()
    check_counts(directory, events)
    log = "\n".join(p.read_text() for p in tmp_path.glob("coordinator-*.log"))
    assert f"cannot reach ps {server['index']}" in log, log[-2000:]


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["async", "sync", "{type: ssp, staleness: 2}", "downpour", "averaging", "allreduce"])
def test_a_pair_that_has_never_been_connected_is_named(tmp_path, hosts, strategy):
    events, rate = 15_000, 600
    directory = tmp_path / "job"
    alone = strategy == "allreduce"  # without servers
    placed = ["worker"] * 3 if alone else ["ps", "ps", "worker", "worker"]
    job = counting(tmp_path, strategy, **{
        "events: 40000": f"events: {events}, rate: {rate}", "split_batches: 20": "split_batches: 8",
        "units: 2048": f"units: {65536 if alone else 2048}"})
    a, b = (2, 3) if alone else (2, 4)
    hosts.cut(a, b)
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", placed.count("worker"), "--ps",
                                  placed.count("ps"), "--listen", hosts.addresses[0] + ":0", before=hosts.at(0))
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        for host, role in enumerate(placed, 1):
            roles.start(role, "--coordinator", where, "--listen", hosts.addresses[host] + ":0", before=hosts.at(host))

        def begins():
            now = status(hosts, roles, where)
            here = [m for m in now.get("members", []) if m["role"] in placed]
            return len(here) == len(placed) and (alone or now["leases"] > 0)

        leat.wait_for(begins, "members with work")
        check_named_in_time(hosts, roles, where, a, b)
        leat.wait_for(lambda: (directory / "summary.json").exists(), "the end of the job", 300)
        hosts.mend(a, b)
        roles.wait()
    check_counts(directory, events)


def test_of_two_members_that_cannot_reach_each_other_one_leaves(tmp_path, hosts):
    events = 12_000
    directory = tmp_path / "job"
    # Gradients of 256 KiB go around the ring, where all three pairs speak. Smaller ones need only two of the pairs.
    job = counting(tmp_path, "allreduce", **{"events: 40000": f"events: {events}", "units: 2048": "units: 65536"})
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", 3, "--pause-at", events // 2,
                                  "--listen", hosts.addresses[0] + ":0", before=hosts.at(0))
        for host in [1, 2, 3]:
            roles.start("worker", "--coordinator", where, "--listen", hosts.addresses[host] + ":0", before=hosts.at(host))
        roles.start("bots", "--coordinator", where, before=hosts.at(0))
        leat.wait_for(lambda: status(hosts, roles, where).get("events", 0) >= events // 2, "the first half")
        hosts.cut(2, 3)
        assert ask(hosts, roles, where, "continue").returncode == 0
        leat.wait_for(lambda: (directory / "summary.json").exists(), "the end of the job", 300)
        roles.wait()
    check_counts(directory, events)
    assert json.loads((directory / "summary.json").read_text())["evictions"] == 1
    log = "\n".join(p.read_text() for p in tmp_path.glob("coordinator-*.log"))
    assert "cannot reach worker" in log, log[-2000:]


# A cut that lasts longer than the heartbeat timeout evicts the role, which joins again.
@pytest.mark.long
@pytest.mark.parametrize("strategy", ["async", "sync", "{type: ssp, staleness: 2}", "downpour", "averaging", "allreduce"])
def test_links_that_are_cut_for_a_while_and_a_pair_for_ever(tmp_path, hosts, strategy):
    alone = strategy == "allreduce"  # without servers
    placed = ["worker"] * 3 if alone else ["ps", "ps", "worker", "worker"]
    cuts = [(host, seconds) for host in range(1 if alone else 0, len(placed) + 1) for seconds in (1, 5, 30)]
    rate = 600
    events = rate * (sum(seconds + 6 for _, seconds in cuts) + 40)
    directory = tmp_path / "coordinator" / "job"
    directory.parent.mkdir()
    job = counting(tmp_path, strategy, **{
        "events: 40000": f"events: {events}, rate: {rate}", "split_batches: 20": "split_batches: 8",
        "units: 2048": f"units: {65536 if alone else 2048}", "interval_s: 0.5": "interval_s: 2"})
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", placed.count("worker"), "--ps",
                                  placed.count("ps"), "--listen", hosts.addresses[0] + ":0", before=hosts.at(0))
        for host, role in enumerate(placed, 1):
            hosts.hide(host, directory.parent)  # the stream comes from the coordinator's feed
            roles.start(role, "--coordinator", where, "--listen", hosts.addresses[host] + ":0",
                        "--scratch", tmp_path / "scratch", before=hosts.at(host))
        roles.start("bots", "--coordinator", where, before=hosts.at(0))

        def trains_with_all():
            before = status(hosts, roles, where)
            here = sorted(m["role"] for m in before.get("members", []) if m["role"] in placed and m.get("host"))
            return here == sorted(placed) and not unreachable(hosts, roles, where) and before["events"]

        for host, seconds in cuts:
            count = leat.wait_for(trains_with_all, f"the members before host {host} is cut for {seconds} s")
            leat.wait_for(lambda: status(hosts, roles, where).get("events", 0) > count, "progress")
            evictions = status(hosts, roles, where)["evictions"]
            hosts.isolate(host)
            began = time.monotonic()
            leat.wait_for(lambda: time.monotonic() - began >= seconds, "the end of the cut")
            hosts.rejoin(host)
            if seconds == 1:
                assert status(hosts, roles, where)["evictions"] == evictions
        leat.wait_for(trains_with_all, "the members after all cuts")
        a, b = (2, 3) if alone else (1, 4)  # a server that has come back holds no slices

        def done():
            return next((m["done"] for m in status(hosts, roles, where)["members"] if m.get("host") == hosts.name(b)), 0)

        leat.wait_for(lambda: done() > 0, "a worker that is connected to the server")
        hosts.cut(a, b)
        check_named_in_time(hosts, roles, where, a, b)
        leat.wait_for(lambda: (directory / "summary.json").exists(), "the end of the job", 300)
        hosts.mend(a, b)
        roles.wait()
    check_counts(directory, events)
