"""Whole jobs as a user runs them."""

import json
import os
import signal

import leat

WANTED = {"events", "events_per_s", "steps", "loss", "auc", "staleness_mean", "wall_s", "aggregated_compute_s", "checkpoint"}


def test_a_short_demo(tmp_path):
    done = leat.run("demo", "--events", 60_000, "--rate", 0, "--json", cwd=tmp_path)
    result = leat.summary(done)
    assert WANTED | {"auc_possible", "accuracy"} <= result.keys()
    assert result["events"] == 60_000
    assert 0.5 < result["auc"] <= result["auc_possible"] < 1
    assert os.path.isdir(result["checkpoint"])
    assert len(done.stdout.strip().splitlines()) == 1, "with --json stdout holds the object alone"


def test_plain_lines_when_there_is_no_terminal(tmp_path):
    done = leat.run("demo", "--events", 60_000, "--rate", 20_000, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "events" in done.stdout and "\x1b" not in done.stdout


def test_mnist_learns(tmp_path):
    folder = leat.data("mnist")
    job = leat.write_job(tmp_path / "mnist.yaml", (leat.EXAMPLES / "mnist.yaml").read_text(), **{"epochs: 10": "epochs: 1"})
    result = leat.summary(leat.run("train", job, "--data", folder, "--json", cwd=tmp_path, timeout=240))
    assert result["events"] == 60_000
    assert result["test_rows"] == 10_000
    assert result["test_accuracy"] > 0.93


def test_ctrl_c_ends_with_a_checkpoint_and_resume_goes_on(tmp_path):
    directory = tmp_path / "job"
    with leat.Job("demo", "--events", 300_000, "--rate", 30_000, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 20_000, "20,000 events")
        job.interrupt()
        assert job.wait() == 0, job.text()
        before = job.summary()
        assert not job.children()
    assert 20_000 < before["events"] < 300_000
    result = leat.summary(leat.run("demo", "--resume", directory, "--rate", 0, "--json"))
    assert result["events"] == 300_000


def test_a_killed_server_comes_back_from_its_checkpoint(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 200000, rate: 40000", "interval_s: 5": "interval_s: 0.5"})
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("checkpoint"), "a checkpoint")
        os.kill(job.pids("ps")[0], signal.SIGKILL)
        assert job.wait(180) == 0, job.text()
        assert job.summary()["events"] == 200_000
    assert {x for v in leat.tensors(directory).values() for x in v} == {200_000.0}


def test_a_paused_worker_holds_nobody_up_and_comes_back(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 300000, rate: 30000"})
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 5_000, "the first events")
        paused = job.pids("worker")[0]
        os.kill(paused, signal.SIGSTOP)
        leat.wait_for(lambda: job.status().get("evictions", 0) > 0, "its eviction")
        os.kill(paused, signal.SIGCONT)
        assert job.wait(180) == 0, job.text()
    assert {x for v in leat.tensors(directory).values() for x in v} == {300_000.0}


def test_records_that_do_not_fit_are_kept_aside(tmp_path):
    rows = [f"{i % 7}.5,{i % 2}" for i in range(20_000)]
    rows[123] = "abc,1"
    rows[4567] = "1.5"
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "job.yaml").write_text("""
name: csv
stream: {files: {format: csv, paths: [rows.csv], partitions: 2}}
schema: {format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
train: {batch_size: 100, split_batches: 10}
cluster: {workers: 2, ps: 1}
""")
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", tmp_path / "job.yaml", "--data", tmp_path, "--directory", directory, "--json"))
    assert result["dead_letters"] == 2
    assert result["events"] == 19_998
    kept = [json.loads(line) for f in (directory / "dead_letters").glob("*.jsonl") for line in f.read_text().splitlines()]
    assert {(k["partition"], k["offset"]) for k in kept} == {(0, 123), (0, 4567)}
    assert "abc" in next(k for k in kept if k["offset"] == 123)["reason"]


def test_roles_need_the_coordinators_address_and_nothing_else(tmp_path):
    directory = tmp_path / "job"
    environment = {"HOME": str(tmp_path)}  # the token's file is made there
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 50000"})
    import subprocess
    processes = []
    environment = {**os.environ, **environment}
    environment.pop("LEAT_TOKEN", None)

    def start(*arguments):
        out = open(tmp_path / f"{arguments[0]}-{len(processes)}.log", "w")
        processes.append(subprocess.Popen([leat.PROGRAM, *map(str, arguments)], env=environment, stdout=out, stderr=out,
                                          stdin=subprocess.DEVNULL))
        return out.name

    try:
        log = start("coordinator", job_file, "--directory", directory)

        def address():
            words = open(log).read().split()
            return words[words.index("on") + 1] if "on" in words and not open(log).read().endswith("on") else None
        where = leat.wait_for(address, "the coordinator")
        for role in ["ps", "ps", "worker", "worker", "bots"]:
            start(role, "--coordinator", where)
        for process in processes:
            assert process.wait(120) == 0, open(tmp_path / "coordinator-0.log").read()[-2000:]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert {x for v in leat.tensors(directory).values() for x in v} == {50_000.0}


def test_a_job_whose_coordinator_was_killed_is_resumed_exactly(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 200000, rate: 40000", "interval_s: 5": "interval_s: 0.5"})
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("checkpoint"), "a checkpoint")
        before = job.status()["events"]
        leat.wait_for(lambda: job.status().get("events", 0) > before + 5_000, "events behind the checkpoint")
        os.kill(job.pids("coordinator")[0], signal.SIGKILL)
        assert job.wait() == 1
        assert "coordinator" in job.text().splitlines()[-1]
        assert not job.children()
    result = leat.summary(leat.run("train", "--resume", directory, "--rate", 0, "--workers", 2, "--ps", 1, "--json"))
    assert result["events"] == 200_000
    assert {x for v in leat.tensors(directory).values() for x in v} == {200_000.0}
