"""Prequential figures and drift alarms of complete jobs."""

# folders: base/metrics

import math
import pathlib
import re

import pytest

import leat


def log_of(directory, role="coordinator"):
    return "".join(path.read_text() for path in sorted(pathlib.Path(directory, "logs").glob(f"{role}*.log")))


# By learning rate: the accuracy of River's logistic regression, behind its StandardScaler and with the scales of the example,
# and the alarms of its ADWIN in the second case. docs/concept-drift.md has the same figures.
RIVER = {0.005: (0.8221, 0.8234, 51), 0.01: (0.8373, 0.8407, 30), 0.3: (0.9159, 0.9221, 8)}


@pytest.mark.parametrize("rate", RIVER)
def test_logistic_regression_on_elec2_is_as_good_as_rivers(tmp_path, rate):
    scaled, same, alarms = RIVER[rate]
    directory = tmp_path / "job"
    job = leat.write_job(tmp_path / "elec2.yaml", (leat.EXAMPLES / "elec2.yaml").read_text(),
                         **{"learning_rate: 0.3": f"learning_rate: {rate}"})
    result = leat.summary(leat.run("train", job, "--data", leat.data("elec2"), "--directory", directory, "--json", cwd=tmp_path))
    assert result["events"] == 45_312
    figures = result["since_start"]
    assert figures["events"] == 45_312, "each event is scored once"
    assert figures["accuracy"] > scaled
    assert figures["accuracy"] == pytest.approx(same, abs=1e-4)
    if rate == 0.3:  # by the same regression in Python; River limits the loss of an event to 34.5
        assert figures["loss"] == pytest.approx(0.2814, abs=0.001)
        assert figures["auc"] == pytest.approx(0.9692, abs=0.001)
    assert 0.8 < result["fading"]["accuracy"] < 1 and result["fading"]["factor"] == 0.999
    drift = result["drift"]
    assert drift["detector"] == "adwin" and drift["on"] == "error"
    assert drift["alarms"] == pytest.approx(alarms, abs=2), "predictions close to 0.5 may differ in the last bit"
    said = [int(event) for event in re.findall(r"drift: alarm \d+ of adwin on error at event (\d+);", log_of(directory))]
    assert len(said) == drift["alarms"]
    assert said == sorted(said) and said[-1] == drift["last"]["event"] <= 45_312


def coins(folder, alarm, interval_s, step_ms):
    """A job on 12,000 rows. The label is a coin until event 6,000, then it is the feature. Returns the rows, too."""
    rows = [(i * 7 % 13 % 2, (i * 7 % 13 if i >= 6000 else i * i // 3) % 2) for i in range(12_000)]
    (folder / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    job = leat.write_job(folder / "job.yaml", f"""
stream: {{files: {{format: csv, paths: [rows.csv], partitions: 1, header: true}}}}
schema: {{format: csv, fields: {{x: {{type: number}}, y: {{type: number, role: label}}}}}}
model: {{layers: [dense: {{units: 1, init: zeros}}], loss: sigmoid_cross_entropy}}
optimizer: {{type: sgd, learning_rate: 0.5}}
train: {{batch_size: 16, split_batches: 16, shuffle: false}}
cluster: {{workers: 1, ps: 1}}
checkpoint: {{interval_s: {interval_s}}}
debug: {{step_ms: {step_ms}}}
metrics: {{drift: {{detector: page_hinkley, on: error, threshold: 5, {alarm}}}}}
""")
    return job, rows


def test_an_alarm_starts_a_checkpoint(tmp_path):
    job, _ = coins(tmp_path, "alarm: checkpoint", interval_s=0, step_ms=4)
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", job, "--data", tmp_path, "--directory", directory, "--json", cwd=tmp_path))
    assert result["drift"]["alarms"] >= 1 and result["drift"]["last"]["event"] > 6000
    saved = [int(events) for events in re.findall(r"checkpoint \d+ of (\d+) events is complete", log_of(directory))]
    assert len(saved) >= 2 and saved[0] < saved[-1] == 12_000, "one that the alarm has started, and the last"


def trained(rows, spans):
    """Weight and bias after logistic regression on batches of 16, where splits that begin in a span have 4 times the rate."""
    weight = bias = 0.0
    for begin in range(0, len(rows), 16):
        cut = begin // 256 * 256
        rate = 0.5 * (4 if any(first <= cut < last for first, last in spans) else 1)
        of_weight = of_bias = 0.0
        batch = rows[begin:begin + 16]
        for x, y in batch:
            error = 1 / (1 + math.exp(-(weight * x + bias))) - y
            of_weight += error * x
            of_bias += error
        weight -= rate * of_weight / len(batch)
        bias -= rate * of_bias / len(batch)
    return weight, bias


def test_a_raised_learning_rate_belongs_to_its_events_also_after_a_crash(tmp_path):
    job_file, rows = coins(tmp_path, "alarm: raise_rate, factor: 4, events: 3000", interval_s=0.3, step_ms=6)
    directory = tmp_path / "job"

    def spans():
        return {(int(a), int(b)) for a, b in re.findall(r"learning rate times 4 for partition 0 from offset (\d+) to (\d+)",
                                                       log_of(directory))}

    with leat.Job("train", job_file, "--data", tmp_path, "--directory", directory, cwd=tmp_path, directory=directory) as job:
        leat.wait_for(lambda: job.status() and directory.is_dir() and spans(), "an alarm")
        first = min(spans())[0]
        leat.wait_for(lambda: job.status().get("events", 0) > first + 512, "updates with the higher rate")
        job.kill()
        made = spans()
    result = leat.summary(leat.run("train", "--resume", directory, "--json", cwd=tmp_path))
    assert result["events"] == 12_000
    made |= spans()
    assert all(first % 256 == 0 and last - first == 3000 for first, last in made), made
    (weight,), (bias,) = (v for _, v in sorted(leat.tensors(directory).items(), key=lambda item: "bias" in item[0]))
    expected = trained(rows, made)
    assert (weight, bias) == pytest.approx(expected, rel=1e-3)
    assert abs(expected[0] - trained(rows, [])[0]) > 0.1, "the spans make a difference"
