"""Jobs that read a topic of a real Kafka broker."""

import json
import os
import random
import signal

import pytest

import leat
from kafka import Broker, counting


@pytest.fixture(scope="module", name="broker")
def one_broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


def records(count):
    return [json.dumps({"amount": float(i), "fraud": i % 2}) for i in range(count)]


def values(directory):
    return {x for v in leat.tensors(directory).values() for x in v}


def kill_all(job):
    """kill -9 of the job and all its roles."""
    pids = [pid for _, pid in job.children()]
    job.process.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    job.process.wait()


def test_every_event_counts_once_though_job_and_broker_are_killed(tmp_path):
    events, kills = 200_000, 3
    rng = random.Random(1)
    broker = Broker(tmp_path / "broker")
    try:
        job_file = counting(tmp_path / "job.yaml", broker, **{"events: 1000000": f"events: {events}, rate: 20000",
                                                            "interval_s: 5": "interval_s: 0.5"})
        directory = tmp_path / "job"
        arguments = [job_file, "--directory", directory]
        for attempt in range(kills):
            with leat.Job("train", *arguments, directory=tmp_path / "out") as job:
                job.directory = directory
                target = events * (attempt + 1) // (kills + 2) + rng.randrange(events // 20)
                leat.wait_for(lambda: job.status().get("events", 0) >= target and job.status()["checkpoint"], "progress")
                kill_all(job)
            arguments = ["--resume", directory]
        with leat.Job("train", *arguments, directory=tmp_path / "out") as job:
            job.directory = directory
            before = leat.wait_for(lambda: job.status().get("events", 0), "progress")
            broker.kill()
            broker.start()
            leat.wait_for(lambda: job.status().get("events", 0) > before or job.process.poll() is not None, "progress")
            assert job.wait() == 0, job.text()[-3000:]
        assert values(directory) == {float(events)}
    finally:
        broker.stop()


def test_markers_and_aborted_records_are_no_events(tmp_path, broker):
    broker.make_topic("transactions", 2)
    for commit in [True, False, True, False]:
        broker.publish("transactions", 0, records(500), commit)
    broker.publish("transactions", 1, records(300))
    job_file = counting(tmp_path / "job.yaml", broker, **{
        "topic: events": "topic: transactions", "  partitions: 4\n": "  bounded: true\n",
        "  bots: {events: 1000000, customers: 1000}\n": ""})
    done = leat.run("train", job_file, "--directory", tmp_path / "job", "--json")
    assert done.returncode == 0, done.stderr
    assert values(tmp_path / "job") == {1300.0}
    summary = leat.summary(done)
    assert summary["dead_letters"] == 0


def test_a_job_begins_where_it_says(tmp_path, broker):
    broker.make_topic("growing", 1)
    broker.publish("growing", 0, records(100))
    job_file = counting(tmp_path / "job.yaml", broker, **{
        "topic: events": "topic: growing", "  partitions: 4\n": "  start: latest\n  live: true\n",
        "  bots: {events: 1000000, customers: 1000}\n": ""})
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("phase") == "training", "the start")
        broker.publish("growing", 0, records(70))
        leat.wait_for(lambda: job.status().get("events", 0) == 70, "the records since the start")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    assert values(tmp_path / "job") == {70.0}


@pytest.mark.parametrize("change, place, message", [
    ({"topic: events": "topic: nowhere"}, "nowhere", "nowhere"),
    ({'{"bootstrap': '{"group.id": "x", "bootstrap'}, "group.id", "is set by Leat"),
    ({'{"bootstrap': '{"sasl.password": "x", "bootstrap'}, "sasl.password", "{env: NAME} or {file: PATH}"),
    ({'{"bootstrap': '{"sasl.password": {env: NO_SUCH_VARIABLE}, "bootstrap'}, "NO_SUCH_VARIABLE", "environment"),
    ({"topic: events": "start: noon\n  topic: events"}, "noon", "earliest, latest, or a time"),
])
def test_bad_settings_are_refused(tmp_path, broker, change, place, message):
    job_file = counting(tmp_path / "job.yaml", broker, **{
        "  bots: {events: 1000000, customers: 1000}\n": "  live: true\n", "  partitions: 4\n": ""})
    leat.write_job(job_file, job_file.read_text(), **change)
    line = leat.refused(leat.run("train", job_file, "--directory", tmp_path / "job"), place)
    assert message in line
