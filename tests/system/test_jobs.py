"""Complete jobs, run as a user runs them."""

# folders: job run/launcher run/roles show/report

import gzip
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import leat
from test_members import Roles

WANTED = {"events", "events_per_s", "steps", "loss", "auc", "staleness_mean", "wall_s", "aggregated_compute_s", "checkpoint"}


def test_a_short_demo(tmp_path):
    done = leat.run("demo", "--events", 60_000, "--rate", 0, "--json", cwd=tmp_path)
    result = leat.summary(done)
    assert WANTED | {"auc_possible", "accuracy"} <= result.keys()
    assert result["events"] == 60_000
    assert 0.5 < result["auc"] <= result["auc_possible"] < 1
    assert os.path.isdir(result["checkpoint"])
    assert len(done.stdout.strip().splitlines()) == 1, "with --json stdout contains only the object"


def test_plain_lines_when_there_is_no_terminal(tmp_path):
    done = leat.run("demo", "--events", 60_000, "--rate", 20_000, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "events" in done.stdout and "\x1b" not in done.stdout
    explained = done.stdout.splitlines()[:3]
    assert "60,000 events at 20,000 a second" in explained[0], "the bots' rate is said to be theirs"
    assert "AUC cover the last 300,000 events" in explained[1]
    assert "events trained (worker)" in explained[2]


# Asynchronous training learns a little less on a busy machine, where gradients are staler: two epochs.
@pytest.mark.parametrize("example, epochs", [("mnist", 2), ("mnist-allreduce", 1)])
def test_mnist_learns(tmp_path, example, epochs):
    folder = leat.data("mnist")
    job = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / f"{example}.yaml").read_text(),
                         **{"epochs: 10": f"epochs: {epochs}"})
    result = leat.summary(leat.run("train", job, "--data", folder, "--json", cwd=tmp_path, timeout=600))
    assert result["events"] == epochs * 60_000
    assert result["test_rows"] == 10_000
    assert result["test_accuracy"] > 0.93


def part_of_mnist(folder, train, test):
    """Copies the first images of both sets to files of the same names."""
    source = pathlib.Path(leat.data("mnist"))
    for name, count in [("train", train), ("t10k", test)]:
        for kind, head, width in [("images-idx3", 16, 784), ("labels-idx1", 8, 1)]:
            name_of_file = f"{name}-{kind}-ubyte.gz"
            content = gzip.decompress((source / name_of_file).read_bytes())
            content = content[:4] + count.to_bytes(4, "big") + content[8:head + count * width]
            (folder / name_of_file).write_bytes(gzip.compress(content, 1))


def test_lenet_learns(tmp_path):
    part_of_mnist(tmp_path, 6000, 1000)
    # A single epoch ends a little above 0.9, and a gradient of a stalled worker can take it below.
    job = leat.write_job(tmp_path / "lenet.yaml", (leat.EXAMPLES / "lenet.yaml").read_text(), **{"epochs: 4": "epochs: 2"})
    result = leat.summary(leat.run("train", job, "--data", tmp_path, "--json", cwd=tmp_path, timeout=600))
    assert result["events"] == 2 * 6000
    assert result["test_rows"] == 1000
    assert result["test_accuracy"] > 0.9


def some_shakespeare(folder, characters=100_000, epochs=6):
    """A job on the first characters, with a network that takes seconds."""
    text = pathlib.Path(leat.data("tinyshakespeare"), "input.txt").read_bytes()[:characters]
    (folder / "input.txt").write_bytes(text)
    return leat.write_job(
        folder / "job.yaml", (leat.EXAMPLES / "shakespeare.yaml").read_text(),
        **{"sequence: 128": "sequence: 32", "stride: 64": "stride: 16", "units: 256": "units: 64", "split_batches: 32": "split_batches: 8", "epochs: 6": f"epochs: {epochs}"})


def windows(characters, sequence, stride):
    return (characters - sequence - 1) // stride + 1


def test_an_lstm_learns_to_spell(tmp_path):
    job = some_shakespeare(tmp_path)
    result = leat.summary(leat.run("train", job, "--data", tmp_path, "--json", cwd=tmp_path, timeout=600))
    assert result["events"] == 6 * windows(90_000, 32, 16)
    assert result["test_rows"] == windows(10_000, 32, 32)
    # Nats per character: 4.17 is chance, 3.3 is achieved by the frequencies of the characters.
    assert 1.5 < result["test_loss"] < 2.5
    assert 1.5 < result["loss"] < 3
    assert 0.25 < result["test_accuracy"] < 0.6, "of the characters, not of the windows"
    assert result["peak_rss_mb"]["worker"] < 300


def test_a_job_on_text_is_stopped_and_resumed(tmp_path):
    epochs = 18
    job_file = some_shakespeare(tmp_path, epochs=epochs)
    directory = tmp_path / "job"
    events = epochs * windows(90_000, 32, 16)
    with leat.Job("train", job_file, "--data", tmp_path, "--directory", directory, "--pause-at", events // 2,
                  directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 3_000, "the first windows")
        job.interrupt()
        assert job.wait() == 0, job.text()
        assert job.summary()["events"] < events
    # With other windows the same offsets would mean other events.
    other = leat.write_job(tmp_path / "other.yaml", job_file.read_text(), **{"stride: 16": "stride: 8"})
    refused = leat.run("train", other, "--resume", directory)
    assert refused.returncode == 2 and "stream.windows" in refused.stderr, refused.stderr
    result = leat.summary(leat.run("train", "--resume", directory, "--json", timeout=600))
    assert result["events"] == events
    assert result["test_loss"] < 2.5


@pytest.mark.parametrize("example, old, new, parts", [
    ("shakespeare", "abcdefgh", "abcd@fgh", ["job.yaml:18", "input.txt", "'e' (0x65)", "not in the alphabet"]),
    ("shakespeare", "size: 65", "size: 64", ["job.yaml:21", "'text'", "65", "64"]),
    ("shakespeare", "- dense: {units: 65}", "- dense: {units: 64}", ["job.yaml:21", "65 classes", "64"]),
    ("shakespeare", "sequence: 128", "sequence: 2000000", ["job.yaml:13", "2000000"]),
    ("shakespeare", "part: [0.9, 1]", "part: [0.9999, 1]", ["input.txt", "112", "129"]),
    ("lenet", "filters: 32, kernel: 5, padding: same", "filters: 32, kernel: 29", ["job.yaml:23", "29x29", "28x28"]),
    ("lenet", "inputs: [28, 28, 1]", "inputs: [28, 28, 3]", ["job.yaml:21", "[28, 28, 3]", "784"]),
    ("lenet", "inputs: [28, 28, 1]", "inputs: 784", ["job.yaml:23", "784"]),
])
def test_jobs_on_sequences_and_images_that_are_wrong(tmp_path, example, old, new, parts):
    folder = leat.data("tinyshakespeare" if example == "shakespeare" else "mnist")
    leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / f"{example}.yaml").read_text(), **{old: new})
    done = leat.run("train", "job.yaml", "--data", folder, cwd=tmp_path)
    assert done.returncode == 2, (done.returncode, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("leat: "), done.stderr
    for part in parts:
        assert part in lines[0], (part, lines[0])
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


def test_characters_that_are_in_no_alphabet_are_kept_aside(tmp_path):
    job = some_shakespeare(tmp_path, 20_000)
    text = bytearray((tmp_path / "input.txt").read_bytes())
    text[16 * 100 + 20] = ord("@")  # in the windows of 33 characters that begin at 1600 and 1616
    (tmp_path / "input.txt").write_bytes(text)
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", leat.write_job(job, job.read_text(), **{"epochs: 6": "epochs: 1"}),
                                   "--data", tmp_path, "--directory", directory, "--json", timeout=600))
    assert result["dead_letters"] == 2
    kept = [json.loads(line) for f in (directory / "dead_letters").glob("*.jsonl") for line in f.read_text().splitlines()]
    assert {k["offset"] for k in kept} == {100, 101}
    assert all("'@' (0x40)" in k["reason"] for k in kept)


def test_ctrl_c_ends_with_a_checkpoint_and_resume_goes_on(tmp_path):
    directory = tmp_path / "job"
    with leat.Job("demo", "--events", 300_000, "--rate", 30_000, "--directory", directory, "--pause-at", 150_000,
                  directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 20_000, "20,000 events")
        job.interrupt()
        assert job.wait() == 0, job.text()
        before = job.summary()
        assert not job.children()
    assert 20_000 < before["events"] < 300_000
    result = leat.summary(leat.run("demo", "--resume", directory, "--rate", 0, "--json"))
    assert result["events"] == 300_000


def test_a_job_stops_when_its_time_is_over(tmp_path):
    directory = tmp_path / "job"
    before = leat.summary(leat.run("demo", "--events", 100_000_000, "--rate", 20_000, "--max-time", 5, "--directory", directory,
                                   "--json"))
    assert before["events"] < 100_000_000
    assert os.path.isdir(before["checkpoint"])
    assert "--max-time" in (directory / "logs/coordinator.log").read_text()
    leat.refused(leat.run("demo", "--max-time", "-1"), "--max-time")


def test_a_second_ctrl_c_kills_the_job(tmp_path):
    directory = tmp_path / "job"
    with leat.Job("demo", "--events", 300_000, "--rate", 1000, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        os.kill(job.pids("coordinator")[0], signal.SIGSTOP)  # it never ends in order
        job.interrupt()
        leat.wait_for(lambda: "Ctrl-C again to kill" in job.text(), "the first Ctrl-C")
        job.interrupt()
        assert job.wait() == 130, job.text()
        assert not job.children()
        assert job.text().splitlines()[-1].startswith("leat: killed before the final checkpoint"), job.text()


def test_a_killed_server_comes_back_from_its_checkpoint(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 200000, rate: 40000", "interval_s: 5": "interval_s: 0.5"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 150_000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("checkpoint"), "a checkpoint")
        os.kill(job.pids("ps")[0], signal.SIGKILL)
        leat.wait_for(lambda: "starting a replacement" in job.text(), "another server")
        job.go_on()
        assert job.wait() == 0, job.text()
        assert job.summary()["events"] == 200_000
    assert {x for v in leat.tensors(directory).values() for x in v} == {200_000.0}


def test_a_paused_worker_holds_nobody_up_and_comes_back(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 300000, rate: 30000"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 250_000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 5_000, "the first events")
        paused = job.pids("worker")[0]
        os.kill(paused, signal.SIGSTOP)
        leat.wait_for(lambda: job.status().get("evictions", 0) > 0, "its eviction")
        os.kill(paused, signal.SIGCONT)
        job.go_on()
        assert job.wait() == 0, job.text()
    assert {x for v in leat.tensors(directory).values() for x in v} == {300_000.0}


CSV_JOB = """
name: csv
stream: {files: {format: csv, paths: [rows.csv], partitions: 2}}
schema: {format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
train: {batch_size: 100, split_batches: 10}
"""


def test_records_that_do_not_fit_are_kept_aside(tmp_path):
    rows = [f"{i % 7}.5,{i % 2}" for i in range(20_000)]
    rows[123] = "abc,1"
    rows[4567] = "1.5"
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "job.yaml").write_text(CSV_JOB + "cluster: {workers: 2, ps: 1}\n")
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", tmp_path / "job.yaml", "--data", tmp_path, "--directory", directory, "--json"))
    assert result["dead_letters"] == 2
    assert result["events"] == 19_998
    kept = [json.loads(line) for f in (directory / "dead_letters").glob("*.jsonl") for line in f.read_text().splitlines()]
    assert {(k["partition"], k["offset"]) for k in kept} == {(0, 123), (0, 4567)}
    assert "abc" in next(k for k in kept if k["offset"] == 123)["reason"]


def test_an_evaluation_whose_file_is_gone_is_the_users_mistake(tmp_path):
    (tmp_path / "rows.csv").write_text("".join(f"{i % 7}.5,{i % 2}\n" for i in range(20_000)))
    (tmp_path / "test.csv").write_text("1.5,1\n")
    (tmp_path / "job.yaml").write_text(CSV_JOB + "cluster: {workers: 1, ps: 1}\n"
                                       "evaluate: {files: {format: csv, paths: [test.csv]}}\n")
    directory = tmp_path / "job"
    with leat.Job("train", tmp_path / "job.yaml", "--data", tmp_path, "--directory", directory, "--pause-at", 10_000,
                  directory=directory) as job:
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        (tmp_path / "test.csv").unlink()
        job.go_on()
        assert job.wait() == 2, job.text()
        assert "leat: evaluation: " in job.text() and "test.csv" in job.text()


def test_roles_need_the_coordinators_address_and_nothing_else(tmp_path):
    directory = tmp_path / "job"
    environment = {"HOME": str(tmp_path)}  # the token's file is made there
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 50000"})
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
            said = re.search(r" on (\S+)\s", open(log).read())
            return said and said[1]
        where = leat.wait_for(address, "the coordinator")
        for role in ["ps", "ps", "worker", "worker", "bots"]:
            start(role, "--coordinator", where)
        for process in processes:
            assert process.wait(300) == 0, open(tmp_path / "coordinator-0.log").read()[-2000:]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert {x for v in leat.tensors(directory).values() for x in v} == {50_000.0}


@pytest.mark.parametrize("role", ["ps", "worker", "bots"])
def test_a_role_that_is_told_to_leave_before_it_has_joined_leaves(tmp_path, role):
    with Roles(tmp_path) as roles:
        name = roles.start(role, "--coordinator", f"127.0.0.1:{leat.free_port()}")
        process = roles.processes[name]

        def handles_signals():
            blocked = re.search(r"^SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text(), re.M)
            return int(blocked[1], 16) >> (signal.SIGTERM - 1) & 1
        leat.wait_for(handles_signals, "signals that do not kill it")
        process.terminate()
        assert process.wait(60) == 0, roles.said(name)
        assert "told to leave before it had joined the job" in roles.said(name)


def test_roles_do_not_look_for_a_job_that_was_stopped_before_they_joined(tmp_path):
    directory = tmp_path / "job"
    with leat.Job("demo", "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.pids("worker"), "the roles")
        job.interrupt()
        assert job.wait() == 0, job.text()
    for log in (directory / "logs").iterdir():
        assert "could not be reached within" not in log.read_text(), log


def test_another_terminal_can_watch_and_stop_a_job(tmp_path):
    directory = tmp_path / "job"
    home = {**os.environ, "HOME": str(tmp_path), "LEAT_TOKEN": ""}  # the token is in a file of the user's
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text())
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 50_000, directory=directory, env=home) as job:
        where = job.address()
        status = json.loads(leat.run("status", "--coordinator", where, "--json", env=home).stdout)
        assert status["directory"] == str(directory)
        refused = leat.run("stop", "--coordinator", where, env={"LEAT_TOKEN": "another"})
        assert "token" in leat.refused(refused, where)
        assert leat.run("stop", "--coordinator", where, env=home).returncode == 0
        assert job.wait() == 0
    assert job.summary()["events"] < 1_000_000


def test_a_job_that_was_killed_is_resumed_exactly(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 200000, rate: 40000", "interval_s: 5": "interval_s: 0.5"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 150_000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("checkpoint"), "a checkpoint")
        wanted = min(job.status()["events"] + 5_000, 150_000)
        leat.wait_for(lambda: job.status().get("events", 0) >= wanted, "events behind the checkpoint")
        job.kill()
    result = leat.summary(leat.run("train", "--resume", directory, "--rate", 0, "--workers", 2, "--ps", 1, "--json"))
    assert result["events"] == 200_000
    assert {x for v in leat.tensors(directory).values() for x in v} == {200_000.0}
