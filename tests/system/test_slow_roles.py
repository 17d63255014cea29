"""Roles that are slow are not taken for dead: batches and starts take longer than a role may be silent. A role that is
alive, but hangs, is replaced."""

# folders: protocol run/roles

import ctypes
import os

import pytest

import leat
from test_members import Roles

STRATEGIES = ["async", "sync", "{type: ssp, staleness: 1}", "{type: averaging, period: 2}", "allreduce"]


def slow(folder, strategy, events, timeout_s, debug):
    """A job that counts events, in batches of 100."""
    servers = 0 if strategy == "allreduce" else 2
    return leat.write_job(
        folder / "slow.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
        **{"strategy: async": f"strategy: {strategy}", "events: 1000000": f"events: {events}", "units: 16384": "units: 64",
           "split_batches: 20": "split_batches: 2",
           "workers: 3, ps: 2": f"workers: 2, ps: {servers}, heartbeat_timeout_s: {timeout_s}",
           "interval_s: 5": f"interval_s: 5}}\ndebug: {{{debug}"})


# The second case has the default timeout, batches of 30 s and a server that takes 20 s to initialize.
@pytest.mark.parametrize("events, timeout_s, debug", [
    (800, 1, "step_ms: 3000, init_ms: 2000"),
    pytest.param(800, 5, "step_ms: 30000, init_ms: 20000", marks=pytest.mark.long)])
def test_batches_longer_than_the_heartbeat_timeout_evict_nobody(tmp_path, events, timeout_s, debug):
    jobs = {}
    for i, strategy in enumerate(STRATEGIES):
        folder = tmp_path / str(i)
        folder.mkdir()
        jobs[strategy] = leat.Job("train", slow(folder, strategy, events, timeout_s, debug), "--directory", folder / "j",
                                  directory=folder / "j")
    try:
        for strategy, job in jobs.items():
            assert job.wait(900) == 0, (strategy, job.text()[-2000:])
            summary = job.summary()
            assert summary["events"] == events and summary["evictions"] == 0, (strategy, summary)
            assert {x for v in leat.tensors(job.directory).values() for x in v} == {events}, strategy
    finally:
        for job in jobs.values():
            job.end()


# The first worker hangs in the 39th of 40 or a few more batches, and its replacement trains the others.
@pytest.mark.parametrize("strategy", ["async"] + [pytest.param(s, marks=pytest.mark.long) for s in [
    "sync", "{type: averaging, period: 2}"]])
def test_a_worker_that_is_alive_but_does_nothing_is_replaced(tmp_path, strategy):
    events = 4000
    job = slow(tmp_path, strategy, events, 5, "hang_after: 38")
    leat.write_job(job, job.read_text(), **{"workers: 2": "workers: 1, stuck_timeout_s: 3"})
    with leat.Job("train", job, "--directory", tmp_path / "j", directory=tmp_path / "j") as running:
        assert running.wait() == 0, running.text()[-2000:]
        text = running.text()
        assert "worker-0 is alive but has done nothing for too long; ending it" in text, text
        assert "worker-0 ended (signal 9); starting a replacement" in text, text
        assert running.summary()["events"] == events
    assert {x for values in leat.tensors(tmp_path / "j").values() for x in values} == {events}


@pytest.mark.long
def test_a_role_that_hangs_fails_its_liveness_probe(tmp_path):
    """A worker whose loop stands still for a minute; those that wait for it, and one with long batches, do not."""
    metrics = {name: f"127.0.0.1:{leat.free_port()}" for name in ("coordinator", "ps", "worker", "slow")}

    def health(name):
        return leat.run("health", metrics[name])

    def run(roles, folder, name, debug):
        job = slow(folder, "async", 4000, 5, debug)
        leat.write_job(job, job.read_text(), **{"workers: 2, ps: 2": "workers: 1, ps: 1, stuck_timeout_s: 3600"})
        where = roles.coordinator(job, "--directory", folder / "j", *(["--metrics", metrics["coordinator"]] if name == "worker" else []))
        roles.start("ps", "--coordinator", where, *(["--metrics", metrics["ps"]] if name == "worker" else []))
        roles.start("worker", "--coordinator", where, "--metrics", metrics[name])
        roles.start("bots", "--coordinator", where)

    (tmp_path / "slow").mkdir()
    with Roles(tmp_path / "slow") as others, Roles(tmp_path) as roles:
        run(others, tmp_path / "slow", "slow", "step_ms: 20000")
        run(roles, tmp_path, "worker", "hang_after: 5")
        leat.wait_for(lambda: health("worker").returncode == 1, "the probe that fails", 240)
        assert "it hangs" in health("worker").stderr
        for name in ("coordinator", "ps", "slow"):
            assert health(name).returncode == 0, (name, health(name).stderr)


def freeze(pid):
    """Stops one thread of a role, as if it hung; the others, such as its listener's, go on. It lasts until the role ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (0x4206, 0x4207):  # PTRACE_SEIZE, PTRACE_INTERRUPT
        assert libc.ptrace(request, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(pid, 0)  # it has stopped; a later wait is for its end


@pytest.mark.long
def test_every_role_that_hangs_fails_its_liveness_probe(tmp_path):
    """Coordinator, server, standbys and `leat serve`: the thread of each one's loop stands still."""
    names = ["alone", "coordinator", "ps", "standby", "network standby", "serve"]
    metrics = dict(zip(names, (f"127.0.0.1:{port}" for port in leat.free_ports(len(names)))))

    def health(name):
        return leat.run("health", metrics[name]).returncode

    (tmp_path / "alone").mkdir()
    with Roles(tmp_path / "alone") as others, Roles(tmp_path) as roles:
        job = slow(tmp_path, "async", 400_000, 5, "step_ms: 20")
        leat.write_job(job, job.read_text(), **{"workers: 2, ps: 2": "workers: 1, ps: 1", "  topic: events":
                                                f"  topic: events\n  log: {tmp_path}/log"})
        directory = tmp_path / "j"
        others.coordinator(job, "--directory", tmp_path / "alone/j", "--metrics", metrics["alone"])
        where = roles.coordinator(job, "--directory", directory, "--metrics", metrics["coordinator"])
        pids = {"alone": others.processes["coordinator-0"].pid}

        def start(name, role, *arguments):
            pids[name] = roles.processes[roles.start(role, *arguments, "--metrics", metrics[name])].pid

        start("ps", "ps", "--coordinator", where)
        start("standby", "coordinator", "--standby", where, "--resume", directory)
        start("network standby", "coordinator", "--standby", where, "--directory", tmp_path / "own")
        start("serve", "serve", "--directory", directory, "--listen", "127.0.0.1:0")
        for name in names:
            leat.wait_for(lambda: health(name) == 0, f"the health of {name}")
        for standby in ("coordinator-2", "coordinator-3"):
            leat.wait_for(lambda: " joined as node " in roles.said(standby), standby)
        for name in pids:
            freeze(pids[name])
        for name in pids:
            leat.wait_for(lambda: health(name) == 1, f"the probe of {name} that fails", 240)
        assert health("coordinator") == 0, "it asks a server that hangs, and does not hang"


# The members of a group are overdue after 5 s, and evicted. Later their processes are stuck.
@pytest.mark.long
def test_members_that_were_evicted_and_do_nothing_are_replaced(tmp_path):
    job = slow(tmp_path, "allreduce", 8000, 5, "hang_after: 20")
    leat.write_job(job, job.read_text(), **{"workers: 2": "workers: 2, stuck_timeout_s: 12, lease_timeout_s: 5"})
    with leat.Job("train", job, "--directory", tmp_path / "j", directory=tmp_path / "j") as running:
        for worker in range(2):
            leat.wait_for(lambda line=f"worker-{worker} ended (signal 9); starting a replacement": line in running.text(),
                          "the replacement")
        assert running.status()["evictions"] >= 1
