"""leat calibrate, study and advise: what a job's machines are worth."""

# folders: lab/study

import csv
import json
import os
import pathlib
import signal
import subprocess

import leat
import pytest

LONG = os.environ.get("LEAT_LONG") == "1"

ROWS = 4000
JOB = """name: line
stream:
  epochs: 2
  files: {format: csv, paths: [rows.csv], partitions: 4, header: false}
schema: {format: csv, delimiter: ",", fields: {a: {type: number}, b: {type: number}, y: {type: number, role: label}}}
model:
  layers:
    - dense: {units: 16, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.05}
strategy: async
train: {batch_size: 50, split_batches: 4}
cluster: {workers: 1, ps: 1}
"""
STUDY = """job: job.yaml
grid: {workers: [1, 2, 4], ps: [1], strategy: [async, sync]}
steps: 200
compute: lognormal:5ms,0.2
"""


@pytest.fixture
def folder(tmp_path):
    rows = [f"{i % 7 / 7:.3f},{i % 5 / 5:.3f},{int(i % 7 > 3)}" for i in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def results(folder, out="leat-studies/job"):
    told = json.loads((folder / out / "results.json").read_text())
    with open(folder / out / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(told["points"])
    return told


def test_a_profile_is_of_a_job(folder):
    done = leat.run("calibrate", "job.yaml", "--out", "profile.json", "--seconds", 0.2, "--batch", 25, 100, cwd=folder)
    assert done.returncode == 0, done.stderr
    profile = json.loads((folder / "profile.json").read_text())
    assert [batch["size"] for batch in profile["batches"]] == [25, 100]
    for batch in profile["batches"]:
        assert 0 < batch["quantiles_s"][0] <= batch["compute_s"] <= batch["quantiles_s"][-1] and 0 < batch["first_gradient"] <= 1
    assert profile["input"]["event_bytes"] > 5 and profile["input"]["decode_s"] > 0
    assert 0 < profile["server"]["message_s"] < 0.01 and profile["cores"] >= 1 and profile["build"]
    # A size in between, another strategy and another cluster are the same job.
    simulated = leat.run("simulate", "job.yaml", "--profile", "profile.json", "--workers", 3, "--json", cwd=folder)
    compute = leat.summary(simulated)["compute_s"]
    least, most = sorted(batch["compute_s"] for batch in profile["batches"])
    assert least <= compute <= most
    # Another model is another job, and a size beyond the measured ones has no time.
    (folder / "other.yaml").write_text(JOB.replace("units: 16", "units: 17"))
    leat.refused(leat.run("simulate", "other.yaml", "--profile", "profile.json", cwd=folder), "profile.json", "another job")
    (folder / "large.yaml").write_text(JOB.replace("batch_size: 50", "batch_size: 500"))
    leat.refused(leat.run("simulate", "large.yaml", "--profile", "profile.json", cwd=folder), "profile.json", "--batch 500")
    leat.refused(leat.run("simulate", "job.yaml", "--profile", "rows.csv", cwd=folder), "rows.csv", "not a profile")
    leat.refused(leat.run("calibrate", "--listen", "0.0.0.0:0", cwd=folder), "0.0.0.0:0")


def test_a_link_is_measured_to_another_process(folder):
    environment = {"LEAT_TOKEN": "of this test"}
    with open(folder / "listen.log", "w") as log:
        other = subprocess.Popen([leat.PROGRAM, "calibrate", "--listen", "127.0.0.1:0"], stdout=log, stderr=subprocess.STDOUT,
                                 env={**os.environ, **environment})
    try:
        said = folder / "listen.log"
        leat.wait_for(lambda: "serves on" in said.read_text(), "the other side to listen")
        address = said.read_text().split("serves on ")[1].split()[0]
        done = leat.run("calibrate", "job.yaml", "--out", "p.json", "--seconds", 0.1, "--to", address, cwd=folder,
                        env=environment)
        assert done.returncode == 0, done.stderr
        link = json.loads((folder / "p.json").read_text())["link"]
        assert link["to"] == address and link["bytes_per_s"] > 1e7 and 0 < link["latency_s"] < 0.1
        wrong = leat.run("calibrate", "job.yaml", "--out", "q.json", "--seconds", 0.1, "--to", address, cwd=folder,
                         env={"LEAT_TOKEN": "another"})
        assert wrong.returncode == 2 and not (folder / "q.json").exists()
    finally:
        other.send_signal(signal.SIGINT)
        assert other.wait(30) == 0


def test_a_simulated_study(folder):
    done = leat.run("study", "study.yaml", "--simulated", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("study 'job': 6 points, 0 real and 6 simulated")
    assert "[6/6]" in done.stdout and " left" in done.stdout and "best: " in done.stdout
    told = results(folder)
    assert all("error" not in point for point in told["points"])
    # Five milliseconds a batch of 50, and nothing is full.
    speeds = {point["key"]: point["events_per_s"] for point in told["points"]}
    assert speeds["w4-ps1-b50-async-greedy-unlimited"] > 3 * speeds["w1-ps1-b50-async-greedy-unlimited"] > 3 * 8000
    assert [series["at_end"] for series in told["series"]] == [True, True]
    report = (folder / "leat-studies/job/report.html").read_text()
    assert "<svg" in report and "http" not in report
    # The same study again has nothing to do; with one more value it runs only the new trials.
    again = leat.run("study", "study.yaml", "--simulated", cwd=folder)
    assert "6 of them are done" in again.stdout and "[" not in again.stdout.split("\n")[2]
    (folder / "study.yaml").write_text(STUDY.replace("[1, 2, 4]", "[1, 2, 4, 8]"))
    wider = leat.run("study", "study.yaml", "--simulated", cwd=folder)
    assert "6 of them are done" in wider.stdout and "[8/8]" in wider.stdout and "[6/8]" not in wider.stdout


def test_a_slow_link_is_named(folder):
    (folder / "job.yaml").write_text(JOB.replace("units: 16", "units: 4000"))
    (folder / "study.yaml").write_text(STUDY.replace("[1, 2, 4], ps", "[1, 2, 8, 16], link: [100mbit], ps"))
    done = leat.run("study", "study.yaml", "--simulated", "--json", cwd=folder)
    told = json.loads(done.stdout)
    for series in told["series"]:
        assert series["limit"] == "server link" and series["sweet_spot"] < 16, series


def test_a_target_is_reached_or_not(folder):
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [2]}\ntarget: {accuracy: 0.8, window: 1000}\ncompute: 5ms\n")
    done = leat.run("study", "study.yaml", "--simulated", cwd=folder)
    [point] = results(folder)["points"]
    assert done.returncode == 0 and 0 < point["target_s"] < point["seconds"] and point["mode"] == "simulated, real arithmetic"
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [2]}\ntarget: {loss: 0, window: 1000}\ncompute: 5ms\n")
    done = leat.run("study", "study.yaml", "--simulated", cwd=folder)
    assert "was not reached by any point" in done.stdout
    assert results(folder)["points"][0]["target_s"] is None and results(folder)["best"] is None


def test_a_real_point_and_one_that_fails(folder):
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [1], ps: [1], strategy: [async, {type: ssp, staleness: -7}]}\n")
    done = leat.run("study", "study.yaml", "--oversubscribe", cwd=folder)
    # The settings of a strategy are the job's to check: a point that they make impossible is refused before any starts.
    leat.refused(done, "staleness is -7")
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [1], ps: [1]}\n")
    done = leat.run("study", "study.yaml", "--oversubscribe", cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    [point] = results(folder)["points"]
    assert point["mode"] == "real" and point["events"] == 2 * ROWS and point["compute_s"] > 0
    # A stream that is not there when the point runs: the point fails, with its reason.
    os.rename(folder / "rows.csv", folder / "gone.csv")
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [1], ps: [1], batch: [10]}\n")
    done = leat.run("study", "study.yaml", "--oversubscribe", cwd=folder)
    assert done.returncode == 1 and "failed: w1-ps1-b10" in done.stdout and "rows.csv" in done.stdout, done.stdout


def test_ctrl_c_ends_all_and_the_rest_goes_on(folder):
    # Each point takes seconds: a batch for each event.
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [40, 41, 42], ps: [8]}\nsteps: 20000\ncompute: 5ms\n")
    with open(folder / "out", "w") as out:
        process = subprocess.Popen([leat.PROGRAM, "study", "study.yaml", "--simulated"], cwd=folder, stdout=out,
                                   stderr=subprocess.STDOUT)
    leat.wait_for(lambda: len(children(process.pid)) > 0, "a point to start")
    points = children(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "interrupted" in (folder / "out").read_text()
    leat.wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in points), "the end of all points")
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [40, 41, 42], ps: [8]}\nsteps: 5\ncompute: 5ms\n")
    assert leat.run("study", "study.yaml", "--simulated", cwd=folder).returncode == 0


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("text, parts", [
    ("grid: {workers: [0]}", ["study.yaml:2", "workers is 0"]),
    ("grid: {colour: [red]}", ["study.yaml:2", "colour"]),
    ("grid: {link: [fast]}", ["study.yaml:2", "fast"]),
    ("grid: {workers: [2]}\nsteps: 0", ["study.yaml:3", "steps is 0"]),
])
def test_the_impossible_is_refused(folder, text, parts):
    (folder / "study.yaml").write_text("job: job.yaml\n" + text + "\n")
    leat.refused(leat.run("study", "study.yaml", cwd=folder), *parts)


def test_more_than_memory_is_refused(folder):
    (folder / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [10000]}\n")
    leat.refused(leat.run("study", "study.yaml", "--oversubscribe", cwd=folder), "memory", "--simulated")


def test_clusters_are_described_in_a_file(folder):
    (folder / "cluster.yaml").write_text(
        "classes: {small: {cores: 1, link: 1gbit}}\n"
        "hosts: [{class: small, count: 2, workers: 2, ps: 1}]\n")
    done = leat.run("simulate", "job.yaml", "--cluster", "cluster.yaml", "--compute", "5ms", "--json", cwd=folder)
    told = leat.summary(done)
    roles = [member["role"] for member in told["members"]]
    assert (roles.count("worker"), roles.count("ps")) == (4, 2)
    # Two workers share a core.
    assert 100 * 0.010 < told["wall_s"] < 1.5 * 100 * 0.010
    leat.refused(leat.run("simulate", "job.yaml", "--cluster", "cluster.yaml", "--workers", 9, cwd=folder), "places for 4 workers")
    (folder / "cluster.yaml").write_text("classes: {small: {cores: none}}\nhosts: []\n")
    leat.refused(leat.run("simulate", "job.yaml", "--cluster", "cluster.yaml", cwd=folder), "cluster.yaml:1")


def test_advice_has_five_lines(folder):
    done = leat.run("advise", "job.yaml", "--goal", "cost", "--max-workers", 8, "--seconds", 10, cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["recommended", "predicted", "because", "neighbours", "otherwise"]
    late = leat.run("advise", "job.yaml", "--deadline", "1ms", "--seconds", 5, cwd=folder)
    assert late.returncode == 1 and "no choice meets the deadline" in late.stdout
    for option, value, why in [("--deadline", "10", "'10' is not a time like 100us, 5ms, 1.5s or 10m"), ("--ps-price", "-1", "not in range"),
                               ("--worker-price", "-1", "not in range"), ("--link", "fast", "'fast' is not a bandwidth")]:
        leat.refused(leat.run("advise", "job.yaml", option, value, cwd=folder), option, why)


@pytest.mark.skipif("LEAT_PREDICTION" not in os.environ, reason="needs the benchmarks to be built")
def test_predictions_on_six_points():
    """All 72 points are a benchmark's work; here, on a busy machine, only the wide bound holds for certain."""
    done = subprocess.run([os.environ["LEAT_PREDICTION"], "--quick", "--seconds", "2", "--json"], capture_output=True, text=True,
                          timeout=600)
    if "needs emulated hosts" in done.stdout + done.stderr:
        pytest.skip(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    points = [row for row in rows if row["reference"] == "measured"]
    assert len(points) == 6, rows
    for row in points:
        busy = int(row["case"].split("(")[1].split()[0])
        assert row["value"] > 0 and row["reference_value"] > 0, rows
        # The hosts share this machine's processors, with other tests too.
        assert busy > 60 or abs(row["value"] / row["reference_value"] - 1) < 0.25, rows
