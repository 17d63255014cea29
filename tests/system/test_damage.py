"""A damaged checkpoint is passed over: the one before takes its place, every event counts once, and the damaged one is kept aside."""

# folders: storage/checkpoint

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

import leat

EVENTS = 100_000
PAUSE = 60_000


def start(directory):
    """A job that makes checkpoints on demand only."""
    job_file = leat.write_job(directory.with_suffix(".yaml"), (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"interval_s: 5": "interval_s: 100000"})
    return leat.Job("train", job_file, "--directory", directory, "--events", EVENTS, "--rate", 40_000, "--pause-at", PAUSE,
                    directory=directory)


def make_two_checkpoints(job):
    """The job is then paused, and has trained more since the first of them."""
    leat.wait_for(lambda: job.status().get("events", 0) > 10_000, "the first events")
    job.command("checkpoint")
    leat.wait_for(lambda: job.status().get("phase") == "paused" and job.status().get("events", 0) >= PAUSE, "the pause")
    job.command("checkpoint")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a job that was stopped and has two checkpoints, which tests copy and damage."""
    folder = tmp_path_factory.mktemp("stopped")
    with start(folder / "job") as job:
        make_two_checkpoints(job)
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    assert len(leat.checkpoints(folder / "job")) == 2
    return folder


@pytest.fixture
def directory(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "copy")
    return tmp_path / "copy/job"


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def damage(checkpoint, what, how):
    file = sorted(checkpoint.glob(what))[0]
    if how == "missing":
        file.unlink()
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        flip(file)
    return file


def content_of(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(pathlib.Path(directory).rglob("*")) if p.is_file()}


def expect_exact(directory, summary):
    assert summary["events"] == EVENTS, summary
    wrong = {name: set(v) for name, v in leat.tensors(directory).items() if set(v) != {float(EVENTS)}}
    assert not wrong, wrong


@pytest.mark.parametrize("what, how", [("manifest.json", "flipped"), ("*.safetensors", "truncated"), ("*.safetensors", "missing")])
def test_the_job_goes_on_from_the_checkpoint_before(directory, what, how):
    older, newest = leat.checkpoints(directory)
    file = damage(newest, what, how)
    damaged = content_of(newest)
    done = leat.run("train", "--resume", directory, "--json")
    expect_exact(directory, leat.summary(done))
    aside = newest.with_name(newest.name + ".damaged")
    said = [line for line in done.stderr.splitlines() if "is used instead" in line]
    assert len(said) == 1 and str(file) in said[0] and str(aside) in said[0], done.stderr
    assert f"checkpoint {int(older.name[-6:])} is used instead" in said[0]
    assert content_of(aside) == damaged
    assert newest not in leat.checkpoints(directory), "its number is given again"


NETWORK = """name: network
stream: {topic: events, bots: {events: 6000}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
cluster: {workers: 1, ps: 1}
checkpoint: {interval_s: 100000}
"""


def test_export_uses_the_checkpoint_before_and_changes_nothing(tmp_path):
    (tmp_path / "job.yaml").write_text(NETWORK)
    directory = tmp_path / "job"

    def export():
        done = leat.run("export", "--directory", directory, "--to", tmp_path / "model.onnx")
        assert done.returncode == 0, done.stderr
        return (tmp_path / "model.onnx").read_bytes(), done.stderr

    with leat.Job("train", tmp_path / "job.yaml", "--directory", directory, "--pause-at", 3000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("phase") == "paused" and job.status().get("events", 0) >= 3000, "the pause")
        job.command("checkpoint")
        first, said = export()
        assert said == ""
        job.go_on()
        assert job.wait() == 0, job.text()[-2000:]
    older, newest = leat.checkpoints(directory)
    assert export()[0] != first
    file = damage(newest, "*.safetensors", "flipped")
    before = content_of(directory)
    again, said = export()
    assert again == first
    lines = said.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"leat: warning: {file}: ") and lines[0].endswith("checkpoint 1 is used instead")
    assert content_of(directory) == before


def test_if_all_are_damaged_each_is_named(directory):
    older, newest = leat.checkpoints(directory)
    files = [damage(newest, "*.safetensors", "flipped"), damage(older, "manifest.json", "truncated")]
    before = content_of(directory)
    leat.refused(leat.run("train", "--resume", directory), *map(str, files), "the checkpoint before it cannot be used either", "there is none")
    assert content_of(directory) == before, "something was written"


def test_a_server_that_dies_finds_the_newest_checkpoint_damaged(tmp_path):
    directory = tmp_path / "running"
    with start(directory) as job:
        make_two_checkpoints(job)
        newest = leat.checkpoints(directory)[-1]
        for shard in newest.glob("*.safetensors"):
            flip(shard)
        os.kill(job.pids("ps")[0], signal.SIGKILL)
        leat.wait_for(newest.with_name(newest.name + ".damaged").exists, "the damaged checkpoint is kept aside")
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the slices are back")
        job.go_on()
        assert job.wait() == 0, job.text()[-2000:]
        expect_exact(directory, job.summary())


def test_the_journal_goes_on_while_a_checkpoint_is_read(tmp_path):
    """A shard that is a pipe takes as long to read as a test wants. A command that needs the journal is answered meanwhile."""
    directory = tmp_path / "running"
    job_file = leat.write_job(tmp_path / "running.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"interval_s: 5": "interval_s: 100000"})
    with leat.Job("train", job_file, "--directory", directory, "--events", EVENTS, "--rate", 40_000, "--ps", 2,
                  "--pause-at", PAUSE, directory=directory) as job:
        make_two_checkpoints(job)
        newest = leat.checkpoints(directory)[-1]
        shards = [shard["file"] for shard in json.loads((newest / "manifest.json").read_text())["shards"]]
        assert len(shards) == 2
        flip(newest / shards[1])
        (newest / shards[0]).unlink()
        os.mkfifo(newest / shards[0])
        node = shards[1].split("-")[1].split(".")[0]
        members = {str(m["node"]): m["pid"] for m in job.status()["members"]}
        os.kill(members[node], signal.SIGKILL)

        def opened():
            """The coordinator waits in the pipe: there is a reader."""
            try:
                return os.open(newest / shards[0], os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return None
        pipe = leat.wait_for(opened, "the coordinator reads the checkpoint")
        try:
            address, token = job.where
            done = leat.run("pause", "--coordinator", address, env={"LEAT_TOKEN": token}, timeout=60)
            assert done.returncode == 0, done.stderr
        finally:
            os.close(pipe)
        leat.wait_for(newest.with_name(newest.name + ".damaged").exists, "the damaged checkpoint is kept aside")
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the slices are back")
        job.go_on()
        assert job.wait() == 0, job.text()[-2000:]
        expect_exact(directory, job.summary())


# Each removal of a file of a checkpoint waits while the file GATE exists, and says so in the file GATE.waits.
SLOW_UNLINK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int unlink(const char* path) {
  const char* gate = getenv("GATE");
  if (gate != NULL && strstr(path, "/checkpoint-") != NULL && access(gate, F_OK) == 0) {
    char waits[4096];
    snprintf(waits, sizeof waits, "%s.waits", gate);
    close(open(waits, O_CREAT | O_WRONLY, 0600));
    while (access(gate, F_OK) == 0) usleep(10000);
  }
  int (*next)(const char*) = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
  return next(path);
}
"""


def test_the_journal_goes_on_while_a_checkpoint_is_removed(tmp_path):
    source, library, gate = tmp_path / "slow.c", tmp_path / "slow.so", tmp_path / "gate"
    source.write_text(SLOW_UNLINK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    directory = tmp_path / "running"
    job_file = leat.write_job(tmp_path / "running.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"interval_s: 5": "interval_s: 100000"})
    environment = {**os.environ, "LD_PRELOAD": str(library), "GATE": str(gate)}
    with leat.Job("train", job_file, "--directory", directory, "--events", EVENTS, "--rate", 40_000, "--pause-at", PAUSE,
                  directory=directory, env=environment) as job:
        make_two_checkpoints(job)
        oldest = leat.checkpoints(directory)[0]
        gate.touch()
        job.command("checkpoint")
        leat.wait_for(gate.with_name("gate.waits").exists, "the removal of the oldest checkpoint")
        try:
            job.go_on()
            leat.wait_for(lambda: job.status()["events"] == EVENTS, "the rest of the events")
            assert oldest.exists()
        finally:
            gate.unlink()
        assert job.wait() == 0, job.text()[-2000:]
        assert not oldest.exists()
        expect_exact(directory, job.summary())
