"""A user's error is reported in one line with its place and values and exit status 2. Nothing is written."""

# folders: job run/launcher

import os
import pathlib
import re
import socket
import subprocess

import pytest

import leat

GOOD = """name: small
stream: {topic: events, bots: {events: 3000}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model:
  layers:
    - dense: {units: 4, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
strategy: async
train: {batch_size: 50, split_batches: 10}
cluster: {workers: 1, ps: 1}
"""


@pytest.mark.parametrize("old, new, parts", [
    ("optimizer:", "optimiser:", ["job.yaml:9", "optimiser", "optimizer"]),
    ("- dense: {units: 2}", "- dens: {units: 2}", ["job.yaml:7", "dens", "dense"]),
    ("strategy: async", "strategy: asinc", ["job.yaml:10", "asinc", "async"]),
    ("type: sgd", "type: sdg", ["job.yaml:9", "sdg", "sgd"]),
    ("{type: number}", "{type: nmber}", ["job.yaml:3", "nmber", "number"]),
    ("{type: number}", "{type: number, scale: runing}", ["job.yaml:3", "runing", "running"]),
    ("{type: number}", "{type: number, length: 3, scale: running}", ["job.yaml:3", "'amount' is a list", "scale: running"]),
    ("activation: relu", "activation: rellu", ["job.yaml:6", "rellu", "relu"]),
    ("units: 2}", "units: 3, unts: 1}", ["job.yaml:7", "unts", "units"]),
    ("  loss: softmax_cross_entropy", "  inputs: 5\n  loss: softmax_cross_entropy", ["5", "1"]),
    ("units: 2}", "units: 1}", ["softmax_cross_entropy", "1"]),
    ("batch_size: 50", "batch_size: 0", ["job.yaml:11", "batch_size", "0"]),
    ("learning_rate: 0.1", "learning_rate: -1", ["job.yaml:9", "learning_rate", "-1"]),
    ("ps: 1}", "ps: 1, replicas: 2}", ["job.yaml:12", "replicas is 2, and the job has 1 server"]),
    ("ps: 1}", "ps: 2, replicas: 3}", ["job.yaml:12", "replicas is 3"]),
    ("ps: 1}", "ps: 2, placement: gredy}", ["job.yaml:12", "gredy", "greedy"]),
    ("ps: 1}", "ps: 2, placement: {type: weighted, weights: [1, 2, 3]}}", ["job.yaml:12", "3 weights for 2 servers"]),
    ("ps: 1}", "ps: 2, placement: {type: greedy, exclude: [0, 1]}}", ["job.yaml:12", "no server of 2 servers"]),
])
def test_a_job_that_is_wrong(tmp_path, old, new, parts):
    assert old in GOOD
    (tmp_path / "job.yaml").write_text(GOOD.replace(old, new, 1))
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), *parts)
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


@pytest.mark.parametrize("strategy, workers, parts", [
    ("{type: sync, staleness: 2}", 2, ["staleness", "sync", "ssp"]),
    ("{type: sync, backup: 2}", 2, ["backup is 2 with 2 workers"]),
    ("{type: sync, lanes: 2}", 3, ["lanes is 2", "fewer than the 3 workers"]),
    ("{type: averaging, period: 0}", 2, ["period is 0"]),
    ("{type: averaging, period: 11}", 2, ["period is 11", "train.split_batches"]),
    ("{type: averaging, momentum: 1.5}", 2, ["momentum is 1.5"]),
    ("{type: downpour, n_fetch: 0}", 2, ["n_fetch is 0"]),
    ("{type: ssp, staleness: -2}", 2, ["staleness is -2"]),
    ("{type: async, staleness_aware: 3}", 2, ["staleness_aware"]),
    ("allreduce", 1, ["it needs 2 or more"]),
    ("{type: allreduce, transport: smoke}", 2, ["smoke"]),
    ("{type: allreduce, transport: mpi}", 3, ["mpirun -np 3 leat worker", "leat coordinator"]),
])
def test_a_strategy_that_makes_no_sense(tmp_path, strategy, workers, parts):
    leat.write_job(tmp_path / "job.yaml", GOOD, **{"strategy: async": f"strategy: {strategy}"})
    leat.refused(leat.run("train", "job.yaml", "--workers", workers, cwd=tmp_path), "job.yaml:10: ", *parts)
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


def test_averaging_with_an_optimizer_that_keeps_something(tmp_path):
    leat.write_job(tmp_path / "job.yaml", GOOD, **{"strategy: async": "strategy: averaging", "type: sgd": "type: adam"})
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), "job.yaml:9: ", "averaging goes with sgd", "adam")


def test_a_job_file_that_is_not_there(tmp_path):
    leat.refused(leat.run("train", "nothing.yaml", cwd=tmp_path), "nothing.yaml")
    assert not os.listdir(tmp_path)


def test_an_unknown_command():
    leat.refused(leat.run("trian"), "trian", "train")


def test_little_address_space(tmp_path):
    leat.write_job(tmp_path / "job.yaml", GOOD)
    limited = 'ulimit -v 400000; exec "$0" train job.yaml'
    done = subprocess.run(["sh", "-c", limited, leat.PROGRAM], cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False)
    leat.refused(done, "the address space of a process is limited to 409 MB", "ulimit -v")
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


def test_a_limit_of_file_sizes(tmp_path):
    leat.write_job(tmp_path / "job.yaml", GOOD)
    limited = 'ulimit -f 8; exec "$0" train job.yaml'
    done = subprocess.run(["sh", "-c", limited, leat.PROGRAM], cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False)
    leat.refused(done, "File too large", status=75)


def test_a_limit_of_open_files(tmp_path):
    leat.write_job(tmp_path / "job.yaml", GOOD)
    limited = 'ulimit -n 8; exec "$0" train job.yaml'
    done = subprocess.run(["sh", "-c", limited, leat.PROGRAM], cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 75 and re.search("^leat: .*(Too many open files|ulimit -n)", done.stderr), (done.returncode, done.stderr)


@pytest.mark.parametrize("command, option, value", [
    ("train", "--resume", ""), ("coordinator", "--standby", ""), ("serve --directory .", "--refresh", "nan"),
    ("serve --directory .", "--timeout", "-NaN"), ("train", "--rate", "NAN"), ("submit --pool x", "--share", "nan")])
def test_values_that_are_none(tmp_path, command, option, value):
    """An empty one is mostly a shell's variable that is not set."""
    done = leat.run(*command.split(), option, value, cwd=tmp_path)
    leat.refused(done, option, f"{value} is not a number" if value else "its value is empty")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("command, option", [
    ("demo", "--max-time"), ("coordinator", "--max-time"), ("train", "--events"), ("train", "--pause-at"),
    ("coordinator", "--transfer-port"), ("serve --directory .", "--refresh"), ("publish x --topic x", "--seed")])
def test_negative_numbers(tmp_path, command, option):
    leat.refused(leat.run(*command.split(), option, "-1", cwd=tmp_path), option, "-1")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("command", [
    "train {job}", "train {job} --data {data}", "train {job} --data {data} --directory x", "demo --events 10",
    "coordinator {job} --data {data} --directory x", "simulate {job}", "graph {job}", "pool --directory x",
    "agent --directory x --pool 127.0.0.1:1", "soak --directory x", "cert init x"])
def test_a_working_directory_that_has_been_deleted(tmp_path, command):
    job = leat.write_job(tmp_path / "job.yaml", GOOD)
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir {gone}; exec "$0" {command.format(job=job, data=tmp_path)}'
    done = subprocess.run(["sh", "-c", script, leat.PROGRAM], cwd=gone, text=True, capture_output=True, timeout=60, check=False,
                          env={**os.environ, "LEAT_TOKEN": "known to all"})
    leat.refused(done, f"the working directory {gone} has been deleted; '", "' is relative to it")
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


def mnist_job(folder):
    pathlib.Path(folder, "job.yaml").write_text((leat.EXAMPLES / "mnist.yaml").read_text().replace(".gz", ""))


def idx(magic, *sizes, content=b""):
    return magic.to_bytes(4, "big") + b"".join(s.to_bytes(4, "big") for s in sizes) + content


@pytest.mark.parametrize("images, labels, parts", [
    (None, idx(2049, 2, content=b"\1\2"), ["train-images-idx3-ubyte"]),
    (idx(2051, 2, 28, 28, content=b"\0" * 784), idx(2049, 2, content=b"\1\2"), ["train-images-idx3-ubyte"]),
    (idx(0x12345678, 2, 28, 28, content=b"\0" * 1568), idx(2049, 2, content=b"\1\2"), ["train-images-idx3-ubyte", "magic"]),
    (idx(2051, 2, 28, 28, content=b"\0" * 1568), idx(2049, 3, content=b"\1\2\3"), ["2", "3"]),
])
def test_data_files_that_are_wrong(tmp_path, images, labels, parts):
    mnist_job(tmp_path)
    for name in ["train", "t10k"]:
        if images is not None:
            (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(images)
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(labels)
    before = sorted(os.listdir(tmp_path))
    line = leat.refused(leat.run("train", "job.yaml", "--data", ".", cwd=tmp_path))
    for part in parts:
        assert part in line.replace("t10k", "train"), line
    assert sorted(os.listdir(tmp_path)) == before


def test_data_that_do_not_fit_are_said_by_whoever_reads_first(tmp_path):
    (tmp_path / "rows.csv").write_text("much,1\n" * 3000)
    leat.write_job(tmp_path / "job.yaml", GOOD, **{
        "stream: {topic: events, bots: {events: 3000}}": "stream: {files: {format: csv, paths: [rows.csv]}}",
        "format: json": "format: csv"})
    said = leat.refused(leat.run("train", "job.yaml", "--data", ".", cwd=tmp_path), "job.yaml:3: ", "rows.csv", "is not a number")
    done = leat.run("coordinator", "job.yaml", "--data", ".", "--directory", "made", cwd=tmp_path,
                    env={"LEAT_TOKEN": "x"}, timeout=300)
    assert leat.refused(done) == said
    assert not (tmp_path / "made/job.yaml").exists()


def test_a_topic_that_is_not_there(tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD.replace(", bots: {events: 3000}", f", log: {tmp_path}/log"))
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), "events", "log")
    assert os.listdir(tmp_path) == ["job.yaml"]


def test_a_topic_that_is_empty(tmp_path):
    # At this rate the bots create the topic and leave it empty.
    with leat.Job("demo", "--rate", "0.001", "--directory", tmp_path / "made", directory=tmp_path / "made") as job:
        leat.wait_for(lambda: job.status().get("phase") == "running", "the topic")
        job.interrupt()
        assert job.wait() == 0, job.text()
    log = tmp_path / "made/log"
    demo = (leat.EXAMPLES / "demo.yaml").read_text()
    (tmp_path / "job.yaml").write_text(demo.replace("bots: {events: 2000000, rate: 40000}", f"log: {log}"))
    before = sorted(os.listdir(tmp_path))
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), "payments", str(log), "empty")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_port_in_use(tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        leat.refused(leat.run("train", "job.yaml", "--listen", address, cwd=tmp_path), address, status=75)


@pytest.mark.parametrize("directory", ["/proc/leat", "/dev/null/job"])
def test_a_directory_that_cannot_be_written(tmp_path, directory):
    (tmp_path / "job.yaml").write_text(GOOD)
    leat.refused(leat.run("train", "job.yaml", "--directory", directory, cwd=tmp_path), directory)


# Roles wait for it for a minute.
@pytest.mark.parametrize("role", ["status", *(["worker", "ps", "bots"] if os.environ.get("LEAT_LONG") == "1" else [])])
def test_a_coordinator_that_is_not_there(tmp_path, role):
    with leat.nobodys_address() as address:
        leat.refused(leat.run(role, "--coordinator", address, env={"LEAT_TOKEN": "x"}, timeout=300), address, status=75)


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
@pytest.mark.parametrize("command", ["train", "status", "worker"])
def test_a_token_file_that_others_can_read(tmp_path, command, mode):
    (tmp_path / "job.yaml").write_text(GOOD)
    token = tmp_path / ".config/leat/token"
    token.parent.mkdir(parents=True)
    token.write_text("f00d\n")
    token.chmod(mode)
    arguments = ["job.yaml"] if command == "train" else ["--coordinator", "127.0.0.1:1"]
    done = leat.run(command, *arguments, cwd=tmp_path, env={"HOME": str(tmp_path), "LEAT_TOKEN": ""})
    leat.refused(done, str(token), f"mode {mode:o}", "chmod 600")
    assert "f00d" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == [".config", "job.yaml"]


def test_no_token_file_is_made_without_a_home(tmp_path):
    before = set(os.listdir("/tmp"))
    done = leat.run("status", "--coordinator", "127.0.0.1:1", cwd=tmp_path, env={"HOME": "", "LEAT_TOKEN": ""})
    leat.refused(done, "no home directory", "LEAT_TOKEN")
    assert os.listdir(tmp_path) == [] and ".config" not in set(os.listdir("/tmp")) - before


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a small finished job, which tests copy and damage."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "job.yaml").write_text(GOOD)
    leat.summary(leat.run("train", "job.yaml", "--directory", "job", "--json", cwd=folder))
    return folder


def content_of(directory):
    return {p: p.read_bytes() for p in sorted(pathlib.Path(directory).rglob("*")) if p.is_file()}


# A checkpoint whose manifest is missing was never completed, so it is not damaged.
@pytest.mark.parametrize("what, damage", [("manifest.json", "truncated"), ("manifest.json", "flipped"), ("*.safetensors", "truncated"),
                                          ("*.safetensors", "flipped"), ("*.safetensors", "missing")])
def test_a_checkpoint_that_is_damaged(finished, tmp_path, what, damage):
    import shutil
    shutil.copytree(finished, tmp_path / "copy")
    directory = tmp_path / "copy/job"
    newest = max(directory.glob("checkpoint-*"))
    file = next(newest.glob(what))
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[:len(content) // 2])
    else:
        content[len(content) // 2] ^= 0x10
        file.write_bytes(content)
    before = content_of(directory)
    leat.refused(leat.run("train", "--resume", directory, cwd=tmp_path), file.name)
    assert content_of(directory) == before, "something was written"


def test_a_job_that_differs_from_its_checkpoint(finished, tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD.replace("units: 4", "units: 5"))
    before = content_of(finished)
    leat.refused(leat.run("train", "job.yaml", "--resume", finished / "job", cwd=tmp_path), "model", str(finished / "job"))
    assert content_of(finished) == before


def test_a_strategy_that_cannot_go_on_with_the_checkpoint(finished, tmp_path):
    leat.write_job(tmp_path / "job.yaml", GOOD, **{"strategy: async": "strategy: sync"})
    before = content_of(finished)
    leat.refused(leat.run("train", "job.yaml", "--resume", finished / "job", cwd=tmp_path), "strategy", str(finished / "job"))
    assert content_of(finished) == before


def test_resuming_with_another_directory(finished):
    before = content_of(finished)
    for job in ([], ["job.yaml"]):
        leat.refused(leat.run("train", *job, "--resume", "job", "--directory", "x1", cwd=finished),
                     "--resume job continues in that directory; --directory x1 is another one")
    assert content_of(finished) == before and not (finished / "x1").exists()


def test_resuming_what_is_no_job(tmp_path):
    leat.refused(leat.run("train", "--resume", tmp_path), str(tmp_path))
    assert not os.listdir(tmp_path)


def test_a_directory_that_holds_a_job_already(finished):
    leat.refused(leat.run("train", "job.yaml", "--directory", "job", cwd=finished), "job", "--resume")


@pytest.mark.parametrize("role", ["worker", "ps", "bots"])
def test_a_role_that_comes_back_to_another_job(tmp_path, role):
    """A role's coordinator is killed. The resumed job, and then another job, take over its address."""
    leat.write_job(tmp_path / "first.yaml", GOOD, **{"events: 3000": "events: 1000000, rate: 500"})
    leat.write_job(tmp_path / "other.yaml", GOOD, **{"units: 4": "units: 5"})
    leat.write_job(tmp_path / "changed.yaml", GOOD, **{"learning_rate: 0.1": "learning_rate: 0.2", "events: 3000": "events: 3000, rate: 500"})
    environment = {**os.environ, "LEAT_TOKEN": "known to all"}
    running = []

    def start(name, *words):
        with open(tmp_path / f"{name}.log", "w") as log:
            running.append(subprocess.Popen([leat.PROGRAM, *map(str, words)], env=environment, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL))
        return running[-1]

    def said(name):
        return (tmp_path / f"{name}.log").read_text()

    try:
        first = start("first", "coordinator", tmp_path / "first.yaml", "--directory", tmp_path / "first")
        address = leat.wait_for(lambda: re.search(r" serves on (\S+)\s", said("first")), "the coordinator")[1]
        who = start(role, role, "--coordinator", address)
        leat.wait_for(lambda: f"{role} 0 joined" in said("first"), "the role")
        first.kill()
        first.wait()
        again = start("again", "coordinator", tmp_path / "changed.yaml", "--resume", tmp_path / "first", "--listen", address)
        leat.wait_for(lambda: f"{role} 0 joined" in said("again"), "the role joining again")
        again.kill()
        again.wait()
        start("other", "coordinator", tmp_path / "other.yaml", "--directory", tmp_path / "other", "--listen", address)
        assert who.wait(60) == 2, said(role)
        last = said(role).strip().splitlines()[-1]
        assert re.match(rf"leat: this {role} was started for job [0-9a-f]{{16}}, the coordinator has job [0-9a-f]{{16}}$", last)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()
