"""A program of its own, as docs/cpp.md says: Leat is installed, examples/cpp is built against it and trains."""

# folders: examples job run/launcher

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import leat

EXAMPLE = leat.EXAMPLES / "cpp"
EVENTS = 100_000
TOKEN = {"LEAT_TOKEN": "a token for the roles of this test, long enough", "LEAT_TRUSTED_NETWORK": "1"}


def job_with(path, **changes):
    return leat.write_job(path, (EXAMPLE / "readings.yaml").read_text(), **changes)


def call(*arguments):
    done = subprocess.run([*map(str, arguments)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The example, built in a folder that sees nothing of the checkout but what is installed."""
    folder = tmp_path_factory.mktemp("cpp")
    call("cmake", "--install", pathlib.Path(leat.PROGRAM).parents[1], "--prefix", folder / "installed")
    shutil.copytree(EXAMPLE, folder / "example")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    call("cmake", "-S", folder / "example", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'installed'}",
         "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *launcher)
    call("cmake", "--build", folder / "build")
    assert leat.run("--version", program=folder / "installed/bin/leat").stdout == leat.run("--version").stdout
    return folder / "build/readings"


def test_it_is_short():
    lines = (EXAMPLE / "readings.cc").read_text().splitlines()
    assert len(lines) <= 60


def test_it_is_the_program_of_every_role(program, tmp_path):
    directory = tmp_path / "job"
    with leat.Job("train", EXAMPLE / "readings.yaml", "--workers", 2, "--ps", 2, "--directory", directory, "--pause-at",
                  EVENTS // 2, "--json", directory=directory, program=program) as job:
        status = leat.wait_for(lambda: (s := job.status()).get("events", 0) >= EVENTS // 2 and s, "the pause")
        roles = job.children()
        assert sorted(role for role, _ in roles) == ["coordinator", "ps", "ps", "worker", "worker"]
        for _, pid in roles:
            assert os.readlink(f"/proc/{pid}/exe") == str(program)
        # The placement of the example: layers on the servers in turn.
        places = {v["name"]: [part["index"] for part in v["ps"]] for v in status["variables"]}
        assert places == {"gain1/gain": [0], "dense1/weight": [1], "dense1/bias": [1], "dense2/weight": [0], "dense2/bias": [0]}
        job.go_on()
        assert job.wait() == 0, job.text()[-2000:]
        result = job.summary()
    assert result["events"] == EVENTS
    assert result["dead_letters"] == 0
    assert result["auc"] > 0.9, "its layer and its source are what the model learns from"
    gains = leat.tensors(directory)
    assert all(gain != 0.5 for name, values in gains.items() if name.startswith("gain1/gain") for gain in values)


@pytest.mark.parametrize("where", ["push", "apply"])
def test_every_event_of_its_source_counts_once(program, tmp_path, where):
    """Its model counts events (see examples/counter.yaml), and a worker or a server is killed."""
    text = (EXAMPLE / "readings.yaml").read_text()
    begin, end = text.index("model:"), text.index("strategy:")
    counting = ("model: {layers: [bias: {units: 4096}], loss: {type: negative_sum, reduction: sum}}\n"
                "optimizer: {type: sgd, learning_rate: 1}\ntrain: {batch_size: 100, split_batches: 20}\n"
                f"checkpoint: {{interval_s: 1}}\ndebug: {{die_at: {where}, die_after: 200}}\n")
    (tmp_path / "job.yaml").write_text(text[:begin] + counting + text[end:])
    directory = tmp_path / "job"
    done = leat.run("train", tmp_path / "job.yaml", "--directory", directory, "--json", program=program)
    assert leat.summary(done)["events"] == EVENTS
    assert "starting a replacement" in done.stderr
    values = leat.tensors(directory)
    assert {x for v in values.values() for x in v} == {float(EVENTS)}


def test_roles_started_by_hand(program, tmp_path):
    started = []

    def start(*arguments):
        log = tmp_path / f"{len(started)}.log"
        with open(log, "w") as out:
            started.append(subprocess.Popen([program, *map(str, arguments)], env={**os.environ, **TOKEN}, stdout=out,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
        return log

    try:
        log = start("coordinator", EXAMPLE / "readings.yaml", "--directory", tmp_path / "job", "--pause-at", EVENTS // 2)
        where = leat.wait_for(lambda: re.search(r" on (\S+)\s", log.read_text()), "the coordinator's address")[1]
        refused = leat.run("worker", "--coordinator", where, env=TOKEN)  # Leat's own program
        assert refused.returncode == 2, refused
        assert "+layer.gain+source.readings+placement.by_layer" in refused.stderr
        for role in ("ps", "ps", "worker", "worker"):
            start(role, "--coordinator", where)

        def events():
            done = leat.run("status", "--coordinator", where, "--json", env=TOKEN)  # any program may look
            return leat.summary(done).get("events", 0) if done.returncode == 0 else 0

        leat.wait_for(lambda: events() >= EVENTS // 2, "the pause")
        assert leat.run("continue", "--coordinator", where, env=TOKEN).returncode == 0
        for process in started:
            assert process.wait(timeout=120) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_bad_names_are_one_line(program, tmp_path):
    for changes, parts in [
            ({"readings: {count": "reading: {count"}, ("job.yaml:4: unknown source 'reading'", "'readings'")),
            ({"gain:": "grain:"}, ("job.yaml:13: unknown layer 'grain'", "'gain'")),
            ({"by_layer": "by_layers"}, ("job.yaml:19: unknown placement 'by_layers'", "'by_layer'")),
            ({"count: 100000": "count: 0"}, ("job.yaml:4: count is 0",)),
            ({"count:": "counts:"}, ("job.yaml:4: ", "'counts'", "'count'")),
            ({"start:": "begin:"}, ("job.yaml:13: ", "'begin'"))]:
        job = job_with(tmp_path / "job.yaml", **changes)
        leat.refused(leat.run("train", job, cwd=tmp_path, program=program), *parts)


def test_leats_own_program_refuses_its_job(program, tmp_path):
    job = job_with(tmp_path / "job.yaml", **{"count: 100000": "count: 2000"})
    leat.refused(leat.run("train", job, cwd=tmp_path), "job.yaml:4: unknown source 'readings': this program has none")
    assert leat.run("train", job, "--directory", "mine", cwd=tmp_path, program=program).returncode == 0
    leat.refused(leat.run("train", "--resume", "mine", cwd=tmp_path), "unknown source 'readings'")
    job = job_with(tmp_path / "layer.yaml", **{"source: {readings: {count: 100000, partitions: 4}}": "topic: t"})
    leat.refused(leat.run("train", job, cwd=tmp_path), "layer.yaml:13: unknown layer 'gain'")
