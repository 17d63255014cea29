"""A coordinator that is killed, or stopped and replaced, while the other roles go on: nothing is trained again."""

# folders: protocol run/roles

import json
import os
import signal

import pytest

import leat
from test_members import Roles
from test_strategies import counting, values

EVENTS = 300_000
RATE = 30_000
KILLS = 4


def job(folder, strategy):
    return counting(folder, strategy, **{"events: 1000000": f"events: {EVENTS}", "interval_s: 5": "interval_s: 2"})


def check_nothing_again(directory, coordinators):
    """Every event counts once, and was computed once."""
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["term"] == coordinators, summary
    assert summary["events"] == EVENTS, summary
    assert values(directory) == {float(EVENTS)}
    assert summary["since_start"]["events"] == EVENTS, summary
    for count in ["duplicates", "evictions", "regranted_leases"]:
        assert summary[count] == 0, (count, summary)


@pytest.mark.parametrize("strategy", ["async", "sync", "allreduce"])
def test_a_coordinator_is_killed_again_and_again(tmp_path, strategy):
    directory = tmp_path / "job"
    with leat.Job("train", job(tmp_path, strategy), "--directory", directory, "--rate", RATE, directory=directory) as running:
        for kill in range(KILLS):
            target = EVENTS * (kill + 1) // (KILLS + 2)
            leat.wait_for(lambda: running.status().get("events", 0) >= target, "progress")
            os.kill(running.pids("coordinator")[0], signal.SIGKILL)
            leat.wait_for(lambda: running.status().get("term", 0) == kill + 2, "another coordinator")
        assert running.wait() == 0, running.text()[-2000:]
        assert running.text().count("starting it again, the job goes on") == KILLS
        assert running.text().count("starting a replacement") == 0
    check_nothing_again(directory, KILLS + 1)


def test_a_coordinator_that_is_stopped_is_replaced_at_another_address(tmp_path):
    directory = tmp_path / "job"
    first, second = [f"127.0.0.1:{port}" for port in leat.free_ports(2)]

    def status(address):
        done = leat.run("status", "--coordinator", address, "--json", env={"LEAT_TOKEN": "known to all"})
        return json.loads(done.stdout) if done.returncode == 0 else {}

    with Roles(tmp_path) as roles:
        roles.start("coordinator", job(tmp_path, "async"), "--directory", directory, "--listen", first, "--rate", RATE)
        for role in ["ps", "ps", "worker", "worker", "worker", "bots"]:
            roles.start(role, "--coordinator", f"{first},{second}")
        leat.wait_for(lambda: status(first).get("events", 0) >= EVENTS // 6, "progress")
        stopped = roles.processes.pop("coordinator-0")
        try:
            stopped.send_signal(signal.SIGSTOP)
            refused = leat.run("coordinator", "--resume", directory, "--listen", second, env={"LEAT_TOKEN": "known to all"})
            leat.refused(refused, "is in use by process")
            roles.start("coordinator", "--resume", directory, "--take-over", "--listen", second)
            before = leat.wait_for(lambda: status(second).get("events", 0), "the other coordinator")
            leat.wait_for(lambda: status(second).get("events", 0) > before, "progress with it")
            stopped.send_signal(signal.SIGCONT)
            assert stopped.wait(60) == 1
        finally:
            stopped.kill()
        assert "another coordinator has taken over" in roles.said("coordinator-0")
        roles.wait()
    check_nothing_again(directory, 2)


def test_take_over_needs_the_directory(tmp_path):
    leat.refused(leat.run("coordinator", job(tmp_path, "async"), "--directory", tmp_path / "job", "--take-over",
                          env={"LEAT_TOKEN": "t"}), "--take-over needs --resume")


def test_standbys_take_over_one_after_the_other(tmp_path):
    directory = tmp_path / "job"
    addresses = [f"127.0.0.1:{port}" for port in leat.free_ports(3)]

    def status(address):
        done = leat.run("status", "--coordinator", address, "--json", env={"LEAT_TOKEN": "known to all"})
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def standbys(address):
        return [m for m in status(address).get("members", []) if m["role"] == "standby"]

    with Roles(tmp_path) as roles:
        leader = roles.start("coordinator", job(tmp_path, "async"), "--directory", directory, "--listen", addresses[0],
                             "--rate", RATE // 2)
        for role in ["ps", "ps", "worker", "worker", "worker", "bots"]:
            roles.start(role, "--coordinator", addresses[0])
        names = []
        for count, address in enumerate([*addresses[1:], "127.0.0.1:0"]):
            names.append(roles.start("coordinator", "--standby", addresses[0], "--resume", directory, "--listen", address))
            leat.wait_for(lambda: len(standbys(addresses[0])) == count + 1, "a standby")
        roles.processes[names[-1]].terminate()
        assert roles.processes[names[-1]].wait(60) == 0
        events = status(addresses[0])["events"]
        leat.wait_for(lambda: status(addresses[0])["events"] > events, "progress with standbys")
        roles.kill(leader)
        # The other standby finds the new coordinator as the roles do.
        leat.wait_for(lambda: len(standbys(addresses[1])) == 1, "the first standby as coordinator")
        assert "takes the job over" not in roles.said(names[1])
        events = status(addresses[1])["events"]
        leat.wait_for(lambda: status(addresses[1])["events"] > events, "progress with the first standby")
        roles.kill(names[0])
        leat.wait_for(lambda: status(addresses[2]).get("events", 0) > events, "progress with the second standby")
        roles.wait()
    check_nothing_again(directory, 3)


def test_a_standby_needs_the_directory_of_the_job(tmp_path):
    leat.refused(leat.run("coordinator", "--standby", "127.0.0.1:1", env={"LEAT_TOKEN": "t"}),
                 "needs a job file, or --resume")
    leat.refused(leat.run("coordinator", job(tmp_path, "async"), "--directory", tmp_path / "job", "--standby",
                          "127.0.0.1:1", env={"LEAT_TOKEN": "t"}), "--standby needs --resume")
