"""Every strategy counts every event once. Deterministic ones give the same bits despite losses and resumptions."""

# folders: protocol train/step

import hashlib
import json
import os
import random
import re
import signal
import struct
import subprocess

import pytest

import leat

EVENTS = 40_000
ROWS = 12_000
EPOCHS = 8  # epochs of jobs with losses or stops
STRATEGIES = ["async", "sync", "{type: sync, backup: 1}", "{type: ssp, staleness: 2}", "downpour",
              "averaging", "allreduce", "{type: allreduce, deterministic: true}"]
SYNC = "{type: sync, lanes: 8}"
RING = "{type: allreduce, deterministic: true, lanes: 8}"


def counting(folder, strategy, **changes):
    """A job whose parameters are the number of applied events."""
    return leat.write_job(
        folder / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
        **{"strategy: async": f"strategy: {strategy}", "events: 1000000": f"events: {EVENTS}", "units: 16384": "units: 2048",
           "interval_s: 5": "interval_s: 0.5", **changes})


def values(directory):
    return {x for v in leat.tensors(directory).values() for x in v}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows of two classes that a small network can separate."""
    made = tmp_path_factory.mktemp("rows")
    rng = random.Random(5)
    with open(made / "rows.csv", "w") as file:
        for _ in range(ROWS):
            x = [rng.gauss(0, 1) for _ in range(8)]
            file.write(",".join(f"{v:.4f}" for v in x) + f",{int(x[0] * x[1] + x[2] > x[3])}\n")
    return made


def classifying(folder, strategy, epochs=1, **changes):
    fields = ", ".join(f"x{i}: {{type: number}}" for i in range(8))
    text = f"""name: classes
seed: 3
stream: {{epochs: {epochs}, files: {{format: csv, paths: [rows.csv], partitions: 3}}}}
schema: {{format: csv, fields: {{{fields}, y: {{type: number, role: label}}}}}}
model:
  layers:
    - dense: {{units: 32, activation: relu}}
    - dense: {{units: 16, activation: relu}}
    - dense: {{units: 2}}
  loss: softmax_cross_entropy
optimizer: {{type: momentum, learning_rate: 0.05, momentum: 0.9}}
strategy: {strategy}
train: {{batch_size: 32, split_batches: 6}}
cluster: {{workers: 3, ps: 1}}
checkpoint: {{interval_s: 0.4}}
"""
    return leat.write_job(folder / "classes.yaml", text, **changes)


def digest(directory):
    """A digest of the newest checkpoint, including the optimizer's state."""
    found = leat.tensors(directory)
    content = hashlib.sha256()
    for name in sorted(found):
        content.update(name.encode() + struct.pack(f"<{len(found[name])}f", *found[name]))
    return content.hexdigest()


def train(folder, directory, job, *arguments):
    return leat.summary(leat.run("train", job, "--data", folder, "--directory", directory, "--json", *arguments))


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    """Returns a function: the digest of the result of an undisturbed job with a number of epochs."""
    known = {}

    def look(epochs):
        if epochs not in known:
            directory = tmp_path_factory.mktemp("undisturbed") / "job"
            train(folder, directory, classifying(folder, RING, epochs), "--workers", 2)
            known[epochs] = digest(directory)
        return known[epochs]
    return look


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_event_counts_once(tmp_path, strategy):
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", counting(tmp_path, strategy), "--directory", directory, "--json"))
    assert result["events"] == EVENTS
    assert result["strategy"] in strategy
    assert values(directory) == {float(EVENTS)}
    stale = len(result["staleness"]) - 1
    if "sync" in strategy.replace("async", "") or "averaging" in strategy:
        assert stale <= 0, "a strategy that waits for all workers has no staleness"
    if "ssp" in strategy:
        assert stale <= 2


@pytest.mark.parametrize("strategy", ["async", "sync", "{type: ssp, staleness: 2}", "allreduce"])
def test_a_mean_counts_updates(tmp_path, strategy):
    """With a mean instead of a sum, the gradient of each batch is -1, and so is the mean of several."""
    directory = tmp_path / "job"
    job = counting(tmp_path, strategy, **{"reduction: sum": "reduction: mean"})
    result = leat.summary(leat.run("train", job, "--directory", directory, "--json"))
    assert result["events"] == EVENTS
    updates = result["steps"] if strategy == "async" else result["step"]
    batches = EVENTS / 100
    assert batches / 3 <= updates < batches / (1 if strategy == "async" else 3) + 10
    for value in values(directory):
        assert value == pytest.approx(updates, rel=1e-5)


@pytest.mark.parametrize("strategy, servers, workers", [
    *((SYNC, ps, n) for ps in [1, 2] for n in [1, 2, 3, 4, 8]), *((RING, 1, n) for n in [2, 3, 4, 8])])
def test_the_same_bits_for_any_number_of_workers(tmp_path, folder, undisturbed, strategy, servers, workers):
    directory = tmp_path / "job"
    result = train(folder, directory, classifying(folder, strategy), "--workers", workers, "--ps", servers)
    assert result["events"] == ROWS
    assert digest(directory) == undisturbed(1)


def test_the_same_bits_of_an_average(tmp_path, folder):
    job = classifying(folder, "{type: averaging, period: 3, lanes: 8}",
                      **{"type: momentum": "type: sgd", ", momentum: 0.9": ""})
    found = {}
    for workers in [1, 3, 8]:
        directory = tmp_path / str(workers)
        train(folder, directory, job, "--workers", workers, "--ps", 2)
        found[workers] = digest(directory)
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("strategy, victim", [(SYNC, "worker"), (SYNC, "ps"), (RING, "worker")])
def test_a_death_changes_no_bit(tmp_path, folder, undisturbed, strategy, victim):
    job = classifying(folder, strategy, EPOCHS)
    with leat.Job("train", job, "--data", folder, "--ps", 2, "--directory", tmp_path / "job",
                  "--pause-at", EPOCHS * ROWS * 3 // 4, directory=tmp_path / "job") as running:
        leat.wait_for(lambda: running.status().get("events", 0) > ROWS / 2, "the first events")
        os.kill(running.pids(victim)[0], signal.SIGKILL)
        leat.wait_for(lambda: "starting a replacement" in running.text(), "another in its place")
        running.go_on()
        assert running.wait() == 0, running.text()
        assert running.summary()["events"] == EPOCHS * ROWS
    assert digest(tmp_path / "job") == undisturbed(EPOCHS)


@pytest.mark.parametrize("strategy, victim, kills", [
    ("{type: sync, backup: 1}", "worker", 5), ("{type: ssp, staleness: 2}", "worker", 5), ("{type: ssp, staleness: 2}", "ps", 1),
    ("averaging", "worker", 5), ("averaging", "ps", 1), ("downpour", "worker", 5), ("allreduce", "worker", 5)])
def test_deaths_cost_no_event(tmp_path, strategy, victim, kills):
    directory = tmp_path / "job"
    job = counting(tmp_path, strategy, **{f"events: {EVENTS}": f"events: {EVENTS}, rate: 20000", "units: 2048": "units: 65536"})
    rng = random.Random(7)
    with leat.Job("train", job, "--directory", directory, "--pause-at", EVENTS * 3 // 4, directory=directory) as running:
        for kill in range(kills):
            # The kills spread over the stream, each after the last victim has been replaced.
            leat.wait_for(lambda: running.status().get("events", 0) > EVENTS / 10 * (kill + 1), "progress")
            os.kill(rng.choice(leat.wait_for(lambda: running.pids(victim), "a victim")), signal.SIGKILL)
        leat.wait_for(lambda: running.text().count("starting a replacement") >= kills - 1, "others in their places")
        running.go_on()
        assert running.wait() == 0, running.text()
        assert running.summary()["events"] == EVENTS
    assert values(directory) == {float(EVENTS)}


def stopped(job, folder, directory, events):
    """Trains a part of a job, at most `events`, and stops it."""
    with leat.Job("train", job, "--data", folder, "--directory", directory, "--pause-at", events,
                  directory=directory) as running:
        leat.wait_for(lambda: running.status().get("events", 0) > ROWS / 2, "the first events")
        running.interrupt()
        assert running.wait() == 0, running.text()
        return running.summary()


@pytest.mark.parametrize("first, then", [(SYNC, SYNC), (RING, RING), (SYNC, RING), (RING, SYNC)])
def test_a_stop_changes_no_bit(tmp_path, folder, undisturbed, first, then):
    directory = tmp_path / "job"
    before = stopped(classifying(folder, first, EPOCHS), folder, directory, EPOCHS * ROWS * 3 // 4)
    assert 0 < before["events"] < EPOCHS * ROWS, "nothing was left to resume"
    job = classifying(folder, then, EPOCHS)
    result = leat.summary(leat.run("train", job, "--data", folder, "--resume", directory, "--workers", 2, "--json"))
    assert result["events"] == EPOCHS * ROWS
    assert digest(directory) == undisturbed(EPOCHS)


@pytest.mark.parametrize("first, then", [
    ("sync", "allreduce"), ("allreduce", "{type: ssp, staleness: 2}"), ("async", "{type: downpour, n_push: 1}"),
    ("averaging", "averaging"), ("{type: sync, backup: 1}", "{type: sync, backup: 1}")])
def test_a_stop_costs_no_event(tmp_path, first, then):
    directory = tmp_path / "job"
    rate = {f"events: {EVENTS}": f"events: {EVENTS}, rate: 20000"}
    with leat.Job("train", counting(tmp_path, first, **rate), "--directory", directory, "--pause-at", EVENTS * 3 // 4,
                  directory=directory) as running:
        leat.wait_for(lambda: running.status().get("events", 0) > EVENTS / 8, "the first events")
        running.interrupt()
        assert running.wait() == 0, running.text()
        assert running.summary()["events"] < EVENTS, "nothing was left to resume"
    job = counting(tmp_path, then, **rate)
    result = leat.summary(leat.run("train", job, "--resume", directory, "--rate", 0, "--json"))
    assert result["events"] == EVENTS
    assert values(directory) == {float(EVENTS)}


@pytest.mark.parametrize("strategy", ["sync", "async", "allreduce", RING])
def test_gradients_that_are_not_finite_end_the_job(tmp_path, folder, strategy):
    job = classifying(folder, strategy,
                      **{"learning_rate: 0.05": "learning_rate: 1.0e+6", "activation: relu": "activation: none"})
    done = leat.run("train", job, "--data", folder, "--directory", tmp_path / "job", cwd=tmp_path)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    # The count comes with a heartbeat, so it may exceed five.
    match = re.search(r"(\d+) gradients in a row were not finite: the last by worker \d \(node \d+\), "
                      r"partition [0-2] offsets (\d+) to (\d+); lower the learning rate", last)
    assert match, done.stderr
    count, begin, end = map(int, match.groups())
    assert count >= 5 and 0 <= begin < end <= ROWS


@pytest.mark.parametrize("strategy, roles", [
    ("sync", ["ps", "ps", "worker", "worker", "worker", "bots"]), ("allreduce", ["worker", "worker", "worker", "bots"])])
def test_roles_started_by_hand(tmp_path, strategy, roles):
    directory = tmp_path / "job"
    environment = {**os.environ, "LEAT_TOKEN": "known to all"}
    job = counting(tmp_path, strategy, **{f"events: {EVENTS}": f"events: {EVENTS}, rate: 20000"})
    processes = []

    def start(*arguments):
        log = tmp_path / f"{arguments[0]}-{len(processes)}.log"
        with open(log, "w") as out:
            processes.append(subprocess.Popen([leat.PROGRAM, *map(str, arguments)], env=environment, stdout=out, stderr=out,
                                              stdin=subprocess.DEVNULL))
        return log

    try:
        log = start("coordinator", job, "--directory", directory, "--pause-at", EVENTS // 2)
        where = leat.wait_for(lambda: re.search(r" on (\S+)\s", log.read_text()), "the coordinator's address")[1]
        for role in roles:
            start(role, "--coordinator", where)

        def events():
            done = leat.run("status", "--coordinator", where, "--json", env=environment)
            return json.loads(done.stdout)["events"] if done.returncode == 0 else 0
        leat.wait_for(lambda: events() > EVENTS / 8, "the first events")
        if "ps" not in roles:
            refused = leat.run("ps", "--coordinator", where, env=environment)
            assert refused.returncode == 2 and "leat: the job has no servers" in refused.stderr, refused.stderr
        start("worker", "--coordinator", where)  # a late worker
        processes[-3].kill()  # a lost worker
        assert leat.run("continue", "--coordinator", where, env=environment).returncode == 0
        assert [p.wait(300) for p in processes if p is not processes[-3]] == [0] * (len(processes) - 1), log.read_text()
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    assert values(directory) == {float(EVENTS)}
