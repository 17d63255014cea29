"""Prequential figures and drift alarms of complete jobs."""

import pathlib
import re

import pytest

import leat


def log_of(directory, role="coordinator"):
    return "".join(path.read_text() for path in sorted(pathlib.Path(directory, "logs").glob(f"{role}*.log")))


def test_logistic_regression_on_elec2_is_as_good_as_rivers(tmp_path):
    """River's figures, with the same features, scaling, rate and order: accuracy 0.9103, log loss 0.2613, AUC 0.952; ten
    alarms of ADWIN. Its StandardScaler with its default rate: accuracy 0.8373, and as published, 0.8221."""
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", leat.EXAMPLES / "elec2.yaml", "--data", leat.data("elec2"), "--directory",
                                   directory, "--json", cwd=tmp_path))
    assert result["events"] == 45_312
    figures = result["since_start"]
    assert figures["events"] == 45_312, "each event is scored once"
    assert figures["accuracy"] == pytest.approx(0.9103, abs=0.003)
    assert figures["loss"] == pytest.approx(0.2613, abs=0.003)
    assert figures["auc"] == pytest.approx(0.952, abs=0.003)
    assert 0.8 < result["fading"]["accuracy"] < 1 and result["fading"]["factor"] == 0.999
    drift = result["drift"]
    assert drift["detector"] == "adwin" and drift["on"] == "error"
    assert 5 <= drift["alarms"] <= 15
    alarms = [int(event) for event in re.findall(r"drift: alarm \d+ of adwin on error at event (\d+);", log_of(directory))]
    assert len(alarms) == drift["alarms"]
    assert alarms == sorted(alarms) and alarms[-1] == drift["last"]["event"] <= 45_312


def test_an_alarm_starts_a_checkpoint(tmp_path):
    """The label is a coin until event 6,000, then it is the feature."""
    rows = [f"{i * 7 % 13 % 2},{(i * 7 % 13 if i >= 6000 else i * i // 3) % 2}" for i in range(12_000)]
    (tmp_path / "rows.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    job = leat.write_job(tmp_path / "job.yaml", """
stream: {files: {format: csv, paths: [rows.csv], partitions: 1, header: true}}
schema: {format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1}], loss: sigmoid_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.5}
train: {batch_size: 16, split_batches: 16, shuffle: false}
cluster: {workers: 1, ps: 1}
checkpoint: {interval_s: 0}
debug: {step_ms: 4}
metrics: {drift: {detector: page_hinkley, on: error, threshold: 5, alarm: checkpoint}}
""")
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", job, "--data", tmp_path, "--directory", directory, "--json", cwd=tmp_path))
    assert result["drift"]["alarms"] >= 1 and result["drift"]["last"]["event"] > 6000
    saved = [int(events) for events in re.findall(r"checkpoint \d+ of (\d+) events is complete", log_of(directory))]
    assert len(saved) >= 2 and saved[0] < saved[-1] == 12_000, "one that the alarm has started, and the last"
