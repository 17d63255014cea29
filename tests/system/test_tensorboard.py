"""The files that `--tensorboard` writes: read by Leat's own reader, and in the long tier by TensorBoard itself."""

# folders: show/tensorboard

import contextlib
import json
import math
import os
import pathlib
import re
import subprocess
import urllib.parse
import urllib.request

import pytest

import leat
from test_disks import fill, small_disk  # noqa: F401 (a fixture)
from test_strategies import classifying, counting, folder  # noqa: F401 (a fixture)

READER = os.environ.get("LEAT_READ_EVENTS", str(leat.ROOT / "build/release/tests/read_events"))
# Entries of the result, and the tags with the same numbers.
FIGURES = {"loss": "learning/loss", "accuracy": "learning/accuracy", "learning_rate": "learning/learning_rate",
           "events": "stream/events", "lag": "stream/lag", "steps": "updates/steps", "step": "updates/step",
           "staleness_mean": "updates/staleness_mean", "dead_letters": "stream/dead_letters"}


def events_of(run):
    """The events of all files of a run, in order."""
    found = []
    for path in sorted(pathlib.Path(run).iterdir()):
        assert path.name.startswith("events.out.tfevents."), path
        done = subprocess.run([READER, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        found += [json.loads(line) for line in done.stdout.splitlines()]
    return found


def last_scalars(events):
    values = {}
    for event in events:
        values.update(event.get("scalars", {}))
    return values


def last_graph(events):
    return [e["graph"] for e in events if "graph" in e][-1]


def close(a, b):
    """Files have 32-bit numbers."""
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def check_result(scalars, summary):
    for entry, tag in FIGURES.items():
        assert close(scalars[tag], summary[entry]), (entry, scalars[tag], summary[entry])
    assert scalars["members/workers"] == sum(m["role"] == "worker" for m in summary["members"])
    assert scalars["members/servers"] == sum(m["role"] == "ps" for m in summary["members"])


def check_devices(graph, status):
    """Each variable, or each part of one that is divided, is on the server that the status names."""
    assert status["variables"]
    for variable in status["variables"]:
        name, parts = variable["name"], variable["ps"]
        assert sum(part["bytes"] for part in parts) == variable["bytes"], variable
        if len(parts) == 1:
            assert graph[name]["op"] == "variable"
            assert graph[name]["device"] == f"/job:ps/task:{parts[0]['index']}"
        else:
            assert graph[name]["inputs"] == [f"{name}/ps_{part['index']}" for part in parts]
            for part in parts:
                assert graph[f"{name}/ps_{part['index']}"]["device"] == f"/job:ps/task:{part['index']}"
    others = {node["device"] for node in graph.values() if not node["device"].startswith("/job:ps/")}
    assert others == {"/job:worker/task:0"}


def await_pause(job):
    leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
    return job.status()


def test_scalars_are_the_result_and_devices_the_placement(folder, tmp_path):  # noqa: F811
    job_file = classifying(folder, "sync")
    with leat.Job("train", job_file, "--data", folder, "--directory", tmp_path / "job-1", "--tensorboard",
                  tmp_path / "runs", "--tensorboard-gradients", "--ps", "2", "--workers", "2", "--pause-at", 6000,
                  directory=tmp_path / "job-1") as job:
        status = await_pause(job)
        job.go_on()
        assert job.wait() == 0, job.text()
        summary = job.summary()
    events = events_of(tmp_path / "runs" / "job-1")
    assert events[0]["version"] == "brain.Event:2"
    assert events[1].get("start")
    check_result(last_scalars(events), summary)
    check_devices(last_graph(events), status)
    check_devices(last_graph(events), summary)
    assert events[-1]["step"] == max(e["step"] for e in events) == summary["events"]
    # Staleness is in the intervals between the points, and weights come from the checkpoints.
    counted = sum(e["histograms"]["updates/staleness"]["count"] for e in events
                  if "updates/staleness" in e.get("histograms", {}))
    assert counted == sum(summary["staleness"])
    weights = {}
    for event in events:
        for tag, histogram in event.get("histograms", {}).items():
            weights[tag] = (event["step"], histogram)
    assert {tag.removeprefix("gradients/") for tag in weights if tag.startswith("gradients/")} == \
        {variable["name"] for variable in summary["variables"]}
    for name, values in whole_variables(job.directory).items():
        assert weights[f"gradients/{name}"][1]["count"] == len(values)
        step, histogram = weights[f"weights/{name}"]
        assert step == summary["events"]
        assert histogram["count"] == len(values)
        assert close(histogram["min"], min(values)) and close(histogram["max"], max(values))
        assert math.isclose(histogram["sum"], sum(values), rel_tol=1e-4, abs_tol=1e-3)


def whole_variables(directory):
    """The values of each variable in the newest checkpoint."""
    found = {}
    for name, values in leat.tensors(directory).items():
        if match := re.fullmatch(r"(.*)\[\d+:\d+\]", name):
            found.setdefault(match[1], []).extend(values)
    return found


def test_bad_input(tmp_path, folder):  # noqa: F811
    job = classifying(folder, "async")
    run = ["train", job, "--data", folder, "--directory", tmp_path / "job-1", "--tensorboard"]
    (tmp_path / "file").write_text("")
    leat.refused(leat.run(*run, tmp_path / "file"), "--tensorboard: ", "file/job-1")
    (tmp_path / "runs" / "job-1").mkdir(parents=True)
    (tmp_path / "runs" / "job-1" / "events.out.tfevents.1.host").write_text("")
    leat.refused(leat.run(*run, tmp_path / "runs"), "--tensorboard: ", "runs/job-1 has the event files of another run")
    assert not (tmp_path / "job-1").exists()


def test_a_full_disk_stops_nothing(tmp_path, disk):
    events = 20_000
    job = counting(tmp_path, "async")
    fill(disk)
    done = leat.run("train", job, "--events", events, "--rate", 6000, "--directory", tmp_path / "job-1",
                    "--tensorboard", disk, "--json")
    leat.refused(done, "--tensorboard: ", "No space left on device", status=75)
    (disk / "ballast").unlink()
    with leat.Job("train", job, "--events", events, "--rate", 6000, "--directory", tmp_path / "job-1",
                  "--tensorboard", disk, "--pause-at", events // 2, directory=tmp_path / "job-1") as running:
        await_pause(running)
        ballast = fill(disk)
        log = tmp_path / "job-1" / "logs" / "coordinator.log"
        leat.wait_for(lambda: "the job goes on without" in log.read_text(), "a full disk")
        ballast.unlink()
        leat.wait_for(lambda: re.search(r"over: tensorboard: \d+ points were not written", log.read_text()),
                      "the end of it")
        running.go_on()
        assert running.wait() == 0, running.text()
        summary = running.summary()
    assert log.read_text().count("the job goes on without") == 1
    assert summary["events"] == events
    found = events_of(disk / "job-1")
    assert last_scalars(found)["stream/events"] == events
    check_devices(last_graph(found), summary)


# ---- TensorBoard itself

class TensorBoard:
    """The real one, and its answers."""

    def __init__(self, runs, fast):
        python = leat.ROOT / "build/baselines/tensorboard"
        subprocess.run(["/usr/bin/python3", leat.ROOT / "bench/frame/environment.py",
                        leat.ROOT / "deploy/pip-tensorboard.txt", python], check=True, timeout=600)
        self.process = subprocess.Popen(
            [python / "bin/tensorboard", "--logdir", runs, "--host", "127.0.0.1", "--port", "0",
             f"--load_fast={'true' if fast else 'false'}", "--reload_interval", "1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if match := re.search(r"http://127\.0\.0\.1:\d+/", line):
                self.url = match[0]
                return
        raise AssertionError("TensorBoard has ended")

    def get(self, path, **query):
        url = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read().decode()

    def json(self, path, **query):
        return json.loads(self.get(path, **query))

    def graph(self, run):
        """The nodes of the graph, by name: their devices."""
        text = self.get("data/plugin/graphs/graph", run=run, limit_attr_size=1024, large_attrs_key="_too_large_attrs")
        nodes = {}
        for node in re.split(r"^node \{$", text, flags=re.MULTILINE)[1:]:
            name = re.search(r'^  name: "(.*)"$', node, re.MULTILINE)[1]
            device = re.search(r'^  device: "(.*)"$', node, re.MULTILINE)
            nodes[name] = {"device": device[1] if device else "",
                           "op": re.search(r'^  op: "(.*)"$', node, re.MULTILINE)[1],
                           "inputs": re.findall(r'^  input: "(.*)"$', node, re.MULTILINE)}
        return nodes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.mark.long
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("strategy", ["sync", "async", "allreduce"])
def test_tensorboard_shows_the_job(folder, tmp_path, strategy, fast):  # noqa: F811
    servers = strategy != "allreduce"
    job_file = classifying(folder, strategy, epochs=4)
    sizes = ["--ps", "2"] if servers else []
    with leat.Job("train", job_file, "--data", folder, "--directory", tmp_path / "job-1", "--tensorboard", tmp_path / "runs",
                  "--workers", "2", *sizes, "--pause-at", 12_000, directory=tmp_path / "job-1") as job:
        before = await_pause(job)
        with TensorBoard(tmp_path / "runs", fast) as board:
            if servers:
                leat.wait_for(lambda: devices_are(board, before), "the graph")
                # Another server gets a part of the variables, and the graph follows.
                address, token = job.where
                done = leat.run("scale", "--ps", 3, "--coordinator", address, env={"LEAT_TOKEN": token})
                assert done.returncode == 0, done.stderr
                leat.wait_for(lambda: {p["index"] for v in job.status()["variables"] for p in v["ps"]} == {0, 1, 2}
                              and not job.status().get("moves", {}).get("planned", 0), "the move of slices")
                leat.wait_for(lambda: devices_are(board, job.status()), "the graph with three servers")
            job.go_on()
            assert job.wait() == 0, job.text()
            summary = job.summary()

            def shown():
                tags = board.json("data/plugin/scalars/tags").get("job-1", {})
                return "stream/events" in tags and last_point(board, "stream/events") == summary["events"]
            leat.wait_for(shown, "the last point")
            for entry, tag in FIGURES.items():
                assert close(last_point(board, tag), summary[entry]), entry
            if servers:
                assert devices_are(board, summary)
            else:
                assert {n["device"] for n in board.graph("job-1").values()} == {"/job:worker/task:0"}
            histograms = board.json("data/plugin/histograms/tags")["job-1"]
            assert servers == ("updates/staleness" in histograms)

            # Weights of the last checkpoint are read after the last point is written.
            def weights():
                found = board.json("data/plugin/histograms/histograms", run="job-1", tag="weights/dense1/weight")
                return found[-1] if found[-1][1] == summary["events"] else None
            _, _, buckets = leat.wait_for(weights, "the last weights")
            assert sum(bucket[2] for bucket in buckets) == 8 * 32


def last_point(board, tag):
    return board.json("data/plugin/scalars/scalars", run="job-1", tag=tag)[-1][2]


def devices_are(board, status):
    with contextlib.suppress(OSError, KeyError, AssertionError):
        check_devices(board.graph("job-1"), status)
        return True
    return False
