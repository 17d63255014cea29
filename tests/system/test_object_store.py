"""Checkpoints in object storage: a job goes on from the bucket alone, and counts every event once."""

import os
import random
import re
import shutil
import signal

import pytest

import leat
import s3

EVENTS = 60_000
COUNTER = (leat.EXAMPLES / "counter.yaml").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3.Server(tmp_path_factory.mktemp("s3")) as started:
        yield started


def job(folder, prefix, strategy="async", events=EVENTS, **changes):
    """A job file whose stream is beside the job's directory, which the bucket does not have."""
    servers = {"{workers: 3, ps: 2, placement: partitioned}": "{workers: 3}"} if strategy == "allreduce" else {}
    return leat.write_job(folder / f"{prefix}.yaml", COUNTER, **{
        "events: 1000000": f"events: {events}", "topic: events": f"topic: events\n  log: {folder / 'log'}",
        "strategy: async": f"strategy: {strategy}",
        "{interval_s: 5}": "{interval_s: 0.5, to: s3://" + f"{s3.BUCKET}/{prefix}" + ", part_mb: 5}", **servers, **changes})


def all_counted(directory, events=EVENTS):
    values = {x for v in leat.tensors(directory).values() for x in v}
    assert values == {float(events)}, values


def stop_half_way(folder, file, directory, env):
    with leat.Job("train", file, "--directory", directory, "--pause-at", EVENTS // 2, directory=directory, env=env) as running:
        leat.wait_for(lambda: running.status().get("events", 0) >= EVENTS // 2 or running.process.poll() is not None, "half")
        running.interrupt()
        assert running.wait() == 0, running.text()[-2000:]
        assert running.summary()["events"] < EVENTS


@pytest.mark.parametrize("strategy", ["async", "sync", "allreduce"])
def test_a_job_goes_on_from_the_bucket_alone(tmp_path, server, strategy):
    with s3.Faults(server, rate=0.15) as faults:
        env = {**os.environ, **server.env(faults.endpoint)}
        file = job(tmp_path, strategy, strategy)
        first = tmp_path / "first"
        stop_half_way(tmp_path, file, first, env)
        shutil.rmtree(first)
        second = tmp_path / "second"
        done = leat.run("train", "--resume", f"s3://{s3.BUCKET}/{strategy}", "--directory", second, "--json", env=env)
        assert leat.summary(done)["events"] == EVENTS
        assert faults.injected, "no fault was injected"
    all_counted(second)
    keys, uploads = server.contents()
    mine = [key for key in keys if key.startswith(strategy + "/")]
    assert not [key for key in uploads if key.startswith(strategy + "/")]
    manifests = [key for key in mine if key.endswith("manifest.json")]
    assert 1 <= len(manifests) <= 2, mine
    assert len([key for key in mine if "/terms/" in key]) == 1, mine
    # It is that of the second run.
    assert max(manifests).split("/")[1] == max(path.name for path in second.glob("checkpoint-*")), (mine, second)


def test_bad_input_is_one_line(tmp_path, server):
    file = job(tmp_path, "bad")
    train = ["train", file, "--directory", tmp_path / "job"]
    wrong = {**server.env(), "AWS_SECRET_ACCESS_KEY": "wrong"}
    leat.refused(leat.run(*train, env=wrong), f"s3://{s3.BUCKET}/bad", "SignatureDoesNotMatch")
    none = {name: "" for name in server.env()} | {"AWS_ENDPOINT_URL": server.endpoint, "HOME": str(tmp_path),
                                                  "AWS_EC2_METADATA_DISABLED": "true"}
    leat.refused(leat.run(*train, env=none), "no credentials")
    leat.refused(leat.run(*train, env={**server.env(), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{leat.free_port()}"}),
                 f"s3://{s3.BUCKET}/bad", "tried")
    missing = leat.write_job(tmp_path / "missing.yaml", file.read_text(), **{f"s3://{s3.BUCKET}/bad": "s3://no-such-bucket/bad"})
    leat.refused(leat.run("train", missing, "--directory", tmp_path / "job", env=server.env()), "NoSuchBucket")
    leat.refused(leat.run("train", "--resume", f"s3://{s3.BUCKET}/nothing", "--directory", tmp_path / "job", env=server.env()),
                 "there is no complete checkpoint")
    leat.refused(leat.run("train", "--resume", f"s3://{s3.BUCKET}/bad", env=server.env()), "--directory")
    assert not (tmp_path / "job" / "job.yaml").exists()


def test_an_older_coordinator_writes_nothing_more(tmp_path, server):
    env = {**os.environ, **server.env()}
    file = job(tmp_path, "two")
    first, second = tmp_path / "first", tmp_path / "second"
    with leat.Job("train", file, "--directory", first, "--pause-at", EVENTS // 2, directory=first, env=env) as older:
        leat.wait_for(lambda: leat.checkpoints(first) and older.status().get("events", 0) >= EVENTS // 2, "checkpoints")
        # Elsewhere, the job goes on from the bucket.
        done = leat.run("train", "--resume", f"s3://{s3.BUCKET}/two", "--directory", second, "--json", env=env)
        assert leat.summary(done)["events"] == EVENTS
        before = server.contents()[0]
        failed = leat.wait_for(lambda: "another coordinator has claimed the bucket" in json_text(older.status()), "the status")
        assert failed and older.process.poll() is None
        assert server.contents()[0] == before
        older.kill()
    all_counted(second)
    # What is in the old directory is behind the bucket.
    leat.refused(leat.run("train", "--resume", first, env=env), "has gone on with the job")


def json_text(status):
    return repr(status)


def test_a_store_that_is_away_stops_no_training(tmp_path, server):
    with s3.Faults(server) as faults:
        env = {**os.environ, **server.env(faults.endpoint)}
        directory = tmp_path / "job"
        file = job(tmp_path, "away")
        with leat.Job("train", file, "--directory", directory, "--pause-at", EVENTS // 4, directory=directory, env=env) as running:
            leat.wait_for(lambda: leat.checkpoints(directory), "the first checkpoint")
            faults.kinds, faults.rate = ("reset",), 1.0
            leat.wait_for(lambda: running.status().get("events", 0) >= EVENTS // 4, "the pause")
            running.go_on()
            leat.wait_for(lambda: running.status().get("events", 0) >= EVENTS, "the end of the stream")
            faults.rate = 0.0
            assert running.wait() == 0, running.text()[-2000:]
    all_counted(directory)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_faults_and_kills_of_all_roles(tmp_path, server, seed):
    rng = random.Random(seed)
    events, prefix = 400_000, f"random{seed}"
    strategy = rng.choice(["async", "sync", "allreduce"])
    file = job(tmp_path, prefix, strategy, events)
    roles = ["coordinator", "worker"] + ([] if strategy == "allreduce" else ["ps"])
    with s3.Faults(server, rate=0.2, seed=seed) as faults:
        env = {**os.environ, **server.env(faults.endpoint)}
        source = [file]
        for run in range(3):
            directory = tmp_path / f"run{run}"
            with leat.Job("train", *source, "--directory", directory, "--pause-at", events // 4, directory=directory,
                          env=env) as running:
                for role in roles:
                    before = running.status().get("events", 0)
                    leat.wait_for(lambda: running.status().get("events", 0) > before or running.process.poll() is not None,
                                  "progress", 30)
                    if pids := running.pids(role):
                        os.kill(rng.choice(pids), signal.SIGKILL)
                leat.wait_for(lambda: re.search("checkpoint \\d+ of [1-9]\\d* events is complete",
                                                (directory / "logs/coordinator.log").read_text()), "a checkpoint")
                running.kill()
            source = ["--resume", f"s3://{s3.BUCKET}/{prefix}"]
        last = tmp_path / "last"
        done = leat.run("train", *source, "--directory", last, "--json", env=env)
        assert leat.summary(done)["events"] == events
    all_counted(last, events)
