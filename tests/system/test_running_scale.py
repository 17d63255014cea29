"""`scale: running` learns the statistics of features from the stream, each event once, and trains as known ones do."""

# folders: stream protocol

import json
import math
import os
import random
import signal
import struct

import pytest

import leat

ROWS = 6000
TEST_ROWS = 1000
# In the order of the schema, with how they are drawn: of very different scales, one far from 0, one constant.
DRAW = {"age": lambda rng: rng.gauss(40, 12),
        "income": lambda rng: rng.gauss(6e7, 2e7),
        "tiny": lambda rng: rng.gauss(2e-6, 1e-6),
        "level": lambda rng: rng.gauss(1e5, 3),
        "count": lambda rng: math.floor(math.exp(rng.gauss(5, 2))),
        "constant": lambda rng: 7.0}
LOG = "count"


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def feature(name, x):
    """As workers have it, before any scale."""
    return f32(math.log1p(x)) if name == LOG else f32(x)


def write_rows(path, count, seed):
    """Returns the features of all rows, by name."""
    rng = random.Random(seed)
    columns = {name: [] for name in DRAW}
    with open(path, "w") as file:
        file.write(",".join(["city", *DRAW, "y"]) + "\n")
        for _ in range(count):
            row = {name: float(f"{draw(rng):.9g}") for name, draw in DRAW.items()}
            city = rng.choice(["here", "there"])
            sign = (1.5 * (row["age"] - 40) / 12 - 1.2 * (row["income"] - 6e7) / 2e7 + (row["tiny"] - 2e-6) / 1e-6
                    + 0.8 * (row["level"] - 1e5) / 3 + (0.5 if city == "here" else -0.5) + rng.gauss(0, 0.3))
            file.write(",".join([city, *(f"{x:.9g}" for x in row.values()), str(int(sign > 0))]) + "\n")
            for name, x in row.items():
                columns[name].append(feature(name, x))
    return columns


def moments(values):
    """Count, mean and sum of squared deviations, each rounded once or twice."""
    mean = math.fsum(values) / len(values)
    return len(values), mean, math.fsum((x - mean) ** 2 for x in values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("rows")
    write_rows(made / "test.csv", TEST_ROWS, seed=2)
    return made, write_rows(made / "rows.csv", ROWS, seed=1)


def write_job(path, strategy, scale, step_ms=0):
    """`scale`: the settings of a field's scale, by its name."""
    fields = "".join(f"    {name}: {{type: number{', log: true' if name == LOG else ''}, {scale(name)}}}\n" for name in DRAW)
    return leat.write_job(path, f"""name: scaled
seed: 5
stream: {{files: {{format: csv, paths: [rows.csv], partitions: 3, header: true}}}}
schema:
  format: csv
  fields:
    city: {{type: category, values: [here, there]}}
{fields}    y: {{type: number, role: label}}
model: {{layers: [dense: {{units: 1}}], loss: sigmoid_cross_entropy}}
optimizer: {{type: sgd, learning_rate: 0.2}}
strategy: {strategy}
train: {{batch_size: 20, split_batches: 8}}
cluster: {{workers: 2, ps: 2, placement: partitioned}}
checkpoint: {{interval_s: 0.3}}
evaluate: {{files: {{format: csv, paths: [test.csv], header: true}}}}
debug: {{step_ms: {step_ms}}}
""")


def running(name):
    return "scale: running"


def check_statistics(directory, columns):
    found = leat.tensors(directory)
    features = len(DRAW)
    counts, means, m2s = (found[f"moments[0:{features}]/{what}"] for what in ["count", "mean", "m2"])
    for i, (name, values) in enumerate(columns.items()):
        count, mean, m2 = moments(values)
        assert counts[i] == count == ROWS, name
        assert means[i] == pytest.approx(mean, rel=1e-9, abs=0), name
        assert m2s[i] == pytest.approx(m2, rel=1e-9, abs=0), name
    return means


@pytest.mark.parametrize("strategy", ["async", "{type: sync, lanes: 4}", "downpour", "averaging",
                                      "{type: allreduce, deterministic: true}"])
def test_statistics_are_those_of_the_data_although_a_worker_is_killed(tmp_path, folder, strategy):
    data, columns = folder
    directory = tmp_path / "job"
    job = write_job(tmp_path / "job.yaml", strategy, running, step_ms=3)
    with leat.Job("train", job, "--data", data, "--directory", directory, "--pause-at", ROWS * 3 // 4, "--json",
                  directory=directory) as training:
        leat.wait_for(lambda: training.status().get("events", 0) > ROWS / 8, "the first events")
        os.kill(leat.wait_for(lambda: training.pids("worker"), "a victim")[0], signal.SIGKILL)
        leat.wait_for(lambda: "starting a replacement" in training.text(), "another in its place")
        training.go_on()
        assert training.wait() == 0, training.text()
        result = json.loads(training.text().strip().splitlines()[-1])
    assert result["events"] == ROWS and result["dead_letters"] == 0 and result["skipped"] == 0
    check_statistics(directory, columns)

    # With the statistics of the whole data in the schema.
    known = {name: moments(values) for name, values in columns.items()}

    def fixed(name):
        count, mean, m2 = known[name]
        return f"mean: {mean!r}, std: {math.sqrt(m2 / count) or 1.0!r}"
    job = write_job(tmp_path / "known.yaml", strategy, fixed)
    expected = leat.summary(leat.run("train", job, "--data", data, "--directory", tmp_path / "known", "--json"))
    assert expected["test_accuracy"] > 0.85
    assert result["test_accuracy"] == pytest.approx(expected["test_accuracy"], abs=0.03)
    assert result["test_loss"] == pytest.approx(expected["test_loss"], abs=0.05)


def test_a_resumed_job_goes_on_with_them_and_an_exported_network_has_them(tmp_path, folder):
    data, columns = folder
    directory = tmp_path / "job"
    job = write_job(tmp_path / "job.yaml", "async", running, step_ms=3)
    with leat.Job("train", job, "--data", data, "--directory", directory, "--pause-at", ROWS * 3 // 4,
                  directory=directory) as training:
        leat.wait_for(lambda: training.status().get("events", 0) > ROWS / 4 and list(directory.glob("*/manifest.json")),
                      "a checkpoint with events")
        training.kill()
    result = leat.summary(leat.run("train", "--resume", directory, "--json"))
    assert result["events"] == ROWS
    means = check_statistics(directory, columns)

    to = tmp_path / "net.onnx"
    exported = leat.run("export", "--directory", directory, "--to", to)
    assert exported.returncode == 0, exported.stderr
    # The network first subtracts the means, but 0 for the category and for the constant, which has no deviation.
    shift = [0.0, 0.0, *means[:-1], 0.0]
    assert struct.pack(f"<{len(shift)}f", *shift) in to.read_bytes()
