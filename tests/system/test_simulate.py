"""leat simulate: jobs on a simulated cluster."""

# folders: lab/sim

import random
import re

import leat
import pytest

JOB = """stream: {topic: events, bots: {events: 3000}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model:
  layers:
    - dense: {units: 16, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
strategy: async
train: {batch_size: 50}
"""
STRATEGIES = ["async", "sync", "{type: sync, backup: 1}", "{type: ssp, staleness: 2}",
              "{type: downpour, n_push: 2, n_fetch: 3}", "{type: averaging, period: 4}",
              "allreduce", "{type: allreduce, deterministic: true}"]


def simulate(folder, *options, strategy="async"):
    (folder / "job.yaml").write_text(JOB.replace("strategy: async", "strategy: " + strategy))
    return leat.run("simulate", "job.yaml", "--json", *options, cwd=folder, timeout=300)


def virtual(done):
    """The summary without the figures that depend on this machine."""
    told = leat.summary(done)
    for key in ("real_s", "messages_per_s", "peak_rss_mb"):
        del told[key]
    return told


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_seed_replays(tmp_path, strategy):
    options = ["--workers", 8, "--ps", 3, "--steps", 20, "--compute", "lognormal:5ms,0.3", "--slow", "1:3"]
    first = virtual(simulate(tmp_path, *options, "--seed", 5, strategy=strategy))
    again = virtual(simulate(tmp_path, *options, "--seed", 5, strategy=strategy))
    other = virtual(simulate(tmp_path, *options, "--seed", 6, strategy=strategy))
    assert first == again
    assert first != other
    assert first["events"] == other["events"] == 8 * 20 * 50
    assert first["loss"] is None and first["wall_s"] > 20 * 0.005
    servers = [m for m in first["members"] if m["role"] == "ps"]
    if "allreduce" in strategy:
        assert servers == []
        return
    assert len(servers) == 3 and abs(sum(m["share"] for m in servers) - 1) < 1e-9
    assert all(m["bytes_in"] > 0 for m in servers if m["bytes_held"] > 0)


@pytest.mark.parametrize("strategy", ["async", "allreduce"])
def test_it_is_summed_up_like_a_run(tmp_path, strategy):
    simulated = simulate(tmp_path, "--workers", 2, "--ps", 1, strategy=strategy)
    trained = leat.run("train", "job.yaml", "--json", "--workers", 2, "--directory", "run", cwd=tmp_path)
    told, real = leat.summary(simulated), leat.summary(trained)
    assert set(real) - set(told) - {"departed"} == set(), "simulated members do not leave at the end"
    more = {"real_s", "messages", "messages_per_s", "compute_s", "deaths"}
    assert set(told) - set(real) - {"steady_events_per_s"} == more
    # Roles join in any order.
    for role in ("ps", "worker") if strategy == "async" else ("worker",):
        simulated_one, real_one = (next(m for m in s["members"] if m["role"] == role) for s in (told, real))
        # Modelled steps train no events, so no share of them is skewed; nothing runs on a host, or waits for one of several servers.
        assert set(simulated_one) == set(real_one) - {"label_skew", "feature_skew", "skewed_feature", "skewed", "host", "pid", "server_waits"}, role
    # Modelled steps score nothing, so there is no AUC.
    for row in ("events", "speed", "loss", "accuracy", "strategy", "staleness", "time", "checkpoint"):
        assert f"\n  {row} " in trained.stderr and f"\n  {row} " in simulated.stderr


def test_links_and_slow_workers_cost_time(tmp_path):
    options = ["--workers", 4, "--ps", 1, "--steps", 50, "--compute", "5ms"]
    usual = virtual(simulate(tmp_path, *options, strategy="sync"))
    narrow = virtual(simulate(tmp_path, *options, "--link", "100kbit", strategy="sync"))
    far = virtual(simulate(tmp_path, *options, "--latency", "20ms", strategy="sync"))
    slow = virtual(simulate(tmp_path, *options, "--slow", "1:10", strategy="sync"))
    spare = virtual(simulate(tmp_path, *options, "--slow", "1:10", strategy="{type: sync, backup: 1}"))
    assert far["wall_s"] > usual["wall_s"] + 50 * 0.035
    assert narrow["wall_s"] > far["wall_s"]
    assert slow["wall_s"] > usual["wall_s"] + 50 * 0.04
    assert spare["wall_s"] < slow["wall_s"] / 1.5
    assert simulate(tmp_path, "--events", 123).returncode == 0


def classes(folder, strategy):
    """A job with two classes that a small network can separate."""
    rng = random.Random(3)
    for name, rows in ("rows.csv", 4800), ("test.csv", 1000):
        with open(folder / name, "w") as file:
            for _ in range(rows):
                x = [rng.gauss(0, 1) for _ in range(4)]
                file.write(",".join(f"{v:.4f}" for v in x) + f",{int(x[0] * x[1] > x[2])}\n")
    optimizer = "sgd, learning_rate: 0.1" if "averaging" in strategy else "momentum, learning_rate: 0.1, momentum: 0.9"
    (folder / "classes.yaml").write_text(f"""name: classes
stream: {{epochs: 2, files: {{format: csv, paths: [rows.csv], partitions: 3}}}}
schema: {{format: csv, fields: {{{", ".join(f"x{i}: {{type: number}}" for i in range(4))}, y: {{type: number, role: label}}}}}}
model:
  layers:
    - dense: {{units: 16, activation: relu}}
    - dense: {{units: 2}}
  loss: softmax_cross_entropy
optimizer: {{type: {optimizer}}}
strategy: {strategy}
train: {{batch_size: 25, split_batches: 8}}
evaluate: {{files: {{format: csv, paths: [test.csv]}}}}
""")
    return ["classes.yaml", "--json"]


@pytest.mark.parametrize("strategy", ["{type: sync, lanes: 4}",
                                      "{type: allreduce, deterministic: true, lanes: 4}",
                                      "{type: averaging, lanes: 4, period: 4}"])
def test_real_arithmetic_is_that_of_a_run(tmp_path, strategy):
    job = classes(tmp_path, strategy)
    simulated = leat.summary(leat.run("simulate", *job, "--real", "--workers", 3, "--compute", "1ms", cwd=tmp_path))
    trained = leat.summary(leat.run("train", *job, "--workers", 2, "--directory", "run", cwd=tmp_path))
    # The losses are summed in another order, but the parameters are bitwise the same.
    for key in ("events", "step", "test_rows", "test_loss", "test_accuracy"):
        assert simulated[key] == trained[key], key
    # If a worker joins in the middle of a step, some batches are computed twice, and the live figures count both.
    if trained["window"] == trained["events"]:
        assert simulated["accuracy"] == trained["accuracy"]
        assert simulated["loss"] == pytest.approx(trained["loss"], rel=1e-9)
    assert simulated["events"] == 2 * 4800 and simulated["test_accuracy"] > 0.8


def test_real_arithmetic_has_the_staleness_of_the_cluster(tmp_path):
    options = [*classes(tmp_path, "async"), "--real", "--ps", 2, "--compute", "lognormal:5ms,0.5", "--workers"]
    first, again = (virtual(leat.run("simulate", *options, 6, cwd=tmp_path)) for _ in range(2))
    assert first == again
    assert first["events"] == 2 * 4800 and first["staleness_mean"] > 2
    one = virtual(leat.run("simulate", *options, 1, cwd=tmp_path))
    assert one["staleness_mean"] == 0 and one["test_loss"] != first["test_loss"]


def test_a_job_that_diverges_is_reported_as_a_failed_job(tmp_path):
    job = classes(tmp_path, "async")
    leat.write_job(tmp_path / "classes.yaml", (tmp_path / "classes.yaml").read_text(),
                   **{"learning_rate: 0.1": "learning_rate: 1.0e+6", "activation: relu": "activation: none"})
    done = leat.run("simulate", *job, "--real", "--workers", 2, "--ps", 1, "--compute", "1ms", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert re.match(r"leat: the job failed after [\d.]+ s of virtual time: \d+ gradients in a row were not finite: .*; "
                    "lower the learning rate", done.stderr.strip().splitlines()[-1]), done.stderr


@pytest.mark.parametrize("options, part", [
    (["--real"], "--real needs a job that reads files (stream.files); this one reads topic 'events'"),
    (["--real", "--steps", "5"], "excludes"),
    (["--link", "5"], "--link: '5' is not a bandwidth like 1gbit"),
    (["--link", "-1gbit"], "is not a bandwidth"),
    (["--latency", "soon"], "--latency: 'soon' is not a time like 100us"),
    (["--burst", "5"], "--burst: '5' is not a size"),
    (["--latency", "1000s"], "--latency is '1000s'; must be at most 10s"),
    (["--compute", "normal:5ms"], "is not"),
    (["--compute", "gamma:5ms,1"], "exponential:TIME"),
    (["--compute", "100s"], "--compute is '100s'; the mean must be at most 60s"),
    (["--slow", "3:10", "--workers", "2"], "--slow is '3:10'; must be WORKERS:FACTOR, such as 1:10, with 1 to 2 workers"),
    (["--slow", "1:nan"], "must be WORKERS:FACTOR"),
    (["--steps", "0"], "--steps"),
    (["--steps", "5", "--events", "10"], "excludes"),
    (["--workers", "0"], "--workers"),
    (["--ps", "1001"], "--ps"),
    (["--seed", "x"], "--seed"),
    (["--data", "nowhere"], "does not exist"),
])
def test_what_cannot_be(tmp_path, options, part):
    done = simulate(tmp_path, *options)
    assert done.returncode == 2, done.stdout
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("leat: ") and part in lines[0], done.stderr
    assert done.stdout == ""


def test_members_of_a_ring_share_the_work(tmp_path):
    options = ["--workers", 8, "--steps", 50, "--compute", "5ms"]
    usual = virtual(simulate(tmp_path, *options, strategy="allreduce"))
    narrow = virtual(simulate(tmp_path, *options, "--link", "1mbit", strategy="allreduce"))
    slow = virtual(simulate(tmp_path, *options, "--slow", "1:10", strategy="allreduce"))
    # A step of 8 lanes takes as long as the slowest lane, plus the communication.
    assert 50 * 0.005 < usual["wall_s"] < 50 * 0.005 + 1
    assert slow["wall_s"] > usual["wall_s"] + 50 * 0.04
    assert narrow["wall_s"] > usual["wall_s"] + 50 * 0.005
    done = simulate(tmp_path, "--workers", 1, strategy="allreduce")
    assert done.returncode == 2 and "it needs 2 or more" in done.stderr, done.stderr
