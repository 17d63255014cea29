"""Checkpoints in object storage: a job goes on from the bucket alone, and counts every event once."""

# folders: storage/object_store storage/checkpoint

import os
import random
import re
import shutil
import signal

import pytest

import leat
import s3
from observers import Observer, view_token

TOKEN = "known to all"
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


def stop_half_way(file, directory, env, look=lambda running: None):
    with leat.Job("train", file, "--directory", directory, "--pause-at", EVENTS // 2, "--metrics", "127.0.0.1:0",
                  directory=directory, env=env) as running:
        leat.wait_for(lambda: leat.checkpoints(directory) and running.status().get("events", 0) >= EVENTS // 2, "half")
        look(running)
        running.interrupt()
        assert running.wait() == 0, running.text()[-2000:]
        assert running.summary()["events"] < EVENTS


def counts_of_the_store(running, roles):
    """The roles' metrics count the requests to the store and the bytes sent."""
    viewer = Observer(view_token(TOKEN))
    where = running.status()["metrics"]

    def value(page, what):
        return sum(found for name, _, found in page.samples if name == f"leat_object_store_{what}_total")

    def all_have_sent():
        pages = [viewer.metrics(address) for (role, _), address in viewer.targets(where).items() if role in roles]
        return len(pages) >= 2 and all(
            value(page, "sent_bytes") > 0 and value(page, "requests") > value(page, "retries") for page in pages)

    leat.wait_for(all_have_sent, "the metrics of what was sent")


def goes_on_from_the_bucket_alone(folder, server, faults, prefix, strategy):
    env = {**os.environ, **server.env(faults.endpoint), "LEAT_TOKEN": TOKEN}
    file = job(folder, prefix, strategy)
    first, second = folder / "first", folder / "second"
    roles = ["coordinator", "worker" if strategy == "allreduce" else "ps"]
    stop_half_way(file, first, env, lambda running: counts_of_the_store(running, roles))
    shutil.rmtree(first)
    done = leat.run("train", "--resume", f"s3://{s3.BUCKET}/{prefix}", "--directory", second, "--json", env=env)
    assert leat.summary(done)["events"] == EVENTS
    assert set(faults.injected) == set(faults.kinds), faults.injected
    all_counted(second)
    keys, uploads = server.contents()
    mine = [key for key in keys if key.startswith(prefix + "/")]
    assert not [key for key in uploads if key.startswith(prefix + "/")]
    manifests = [key for key in mine if key.endswith("manifest.json")]
    assert 1 <= len(manifests) <= 2, mine
    assert len([key for key in mine if "/terms/" in key]) == 1, mine
    # It is that of the second run.
    assert max(manifests).split("/")[1] == max(path.name for path in second.glob("checkpoint-*")), (mine, second)


@pytest.mark.parametrize("strategy", ["async", pytest.param("sync", marks=pytest.mark.long),
                                      pytest.param("allreduce", marks=pytest.mark.long)])
def test_a_job_goes_on_from_the_bucket_alone(tmp_path, server, strategy):
    with s3.Faults(server, rate=0.2) as faults:
        goes_on_from_the_bucket_alone(tmp_path, server, faults, strategy, strategy)


@pytest.mark.long
@pytest.mark.parametrize("kind", s3.Faults.KINDS)
def test_many_faults_of_one_kind(tmp_path, server, kind):
    with s3.Faults(server, rate=0.5, kinds=(kind,)) as faults:
        goes_on_from_the_bucket_alone(tmp_path, server, faults, f"kind-{kind}", "async")


def test_bad_input_is_one_line(tmp_path, server):
    file = job(tmp_path, "bad")
    train = ["train", file, "--directory", tmp_path / "job"]
    wrong = {**server.env(), "AWS_SECRET_ACCESS_KEY": "wrong"}
    leat.refused(leat.run(*train, env=wrong), f"s3://{s3.BUCKET}/bad", "SignatureDoesNotMatch")
    none = {name: "" for name in server.env()} | {"AWS_ENDPOINT_URL": server.endpoint, "HOME": str(tmp_path),
                                                  "AWS_EC2_METADATA_DISABLED": "true"}
    leat.refused(leat.run(*train, env=none), "no credentials")
    missing = leat.write_job(tmp_path / "missing.yaml", file.read_text(), **{f"s3://{s3.BUCKET}/bad": "s3://no-such-bucket/bad"})
    leat.refused(leat.run("train", missing, "--directory", tmp_path / "job", env=server.env()), "NoSuchBucket")
    leat.refused(leat.run("train", "--resume", f"s3://{s3.BUCKET}/nothing", "--directory", tmp_path / "job", env=server.env()),
                 "there is no complete checkpoint")
    leat.refused(leat.run("train", "--resume", f"s3://{s3.BUCKET}/bad", env=server.env()), "--directory")
    assert not (tmp_path / "job").exists()
    # The results of another program, some with a name that a checkpoint may have.
    for name in ("checkpoint-500", "checkpoint-000500", "term-000002"):
        weights = tmp_path / name / "runs" / name / "model.safetensors"
        weights.parent.mkdir(parents=True)
        weights.write_text("w")
        leat.refused(leat.run("train", "--resume", f"s3://{s3.BUCKET}/nothing", "--directory", tmp_path / name / "runs",
                              env=server.env()), f"has '{name}'", "new or empty")
        assert weights.read_text() == "w"


def test_a_store_that_cannot_be_reached_is_one_line(tmp_path, server):
    with leat.nobodys_address() as address:
        env = {**server.env(), "AWS_ENDPOINT_URL": f"http://{address}"}
        done = leat.run("train", job(tmp_path, "bad"), "--directory", tmp_path / "job", env=env)
    leat.refused(done, f"s3://{s3.BUCKET}/bad", "127.0.0.1", "tried", status=75)
    assert not (tmp_path / "job").exists()


@pytest.mark.long
def test_an_older_coordinator_writes_nothing_more(tmp_path, server):
    env = {**os.environ, **server.env()}
    file = job(tmp_path, "two")
    first, second = tmp_path / "first", tmp_path / "second"
    with leat.Job("train", file, "--directory", first, "--pause-at", EVENTS // 2, directory=first, env=env) as older:
        # A manifest is in the directory a moment before it is in the bucket.
        leat.wait_for(lambda: older.status().get("events", 0) >= EVENTS // 2 and
                      any(key.startswith("two/") and key.endswith("/manifest.json") for key in server.contents()[0]),
                      "a checkpoint in the bucket")
        # Elsewhere, the job goes on from the bucket.
        done = leat.run("train", "--resume", f"s3://{s3.BUCKET}/two", "--directory", second, "--json", env=env)
        assert leat.summary(done)["events"] == EVENTS
        before = server.contents()[0]
        failed = leat.wait_for(lambda: "another coordinator has claimed the bucket" in json_text(older.status()), "the status")
        assert failed and older.process.poll() is None
        assert server.contents()[0] == before
        older.kill()
    all_counted(second)
    # The old directory is behind the bucket.
    leat.refused(leat.run("train", "--resume", first, env=env), "has gone on with the job")


def json_text(status):
    return repr(status)


@pytest.mark.long
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
