"""Jobs that read a topic of a real Kafka broker."""

# folders: stream

import base64
import contextlib
import http.server
import json
import os
import pathlib
import random
import re
import signal
import ssl
import struct
import subprocess
import threading
import time

import pytest

import leat
import poison
from hosts import hosts_fixture
from kafka import ONE_SCORE, Broker, counting, predictions, reading
from test_members import Roles


PASSWORD = "open-sesame"

hosts = hosts_fixture(4)


@pytest.fixture(scope="module", name="broker")
def one_broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("broker"), "log.retention.check.interval.ms=200", "log.initial.task.delay.ms=200")
    yield broker
    broker.stop()


def records(count):
    return [json.dumps({"amount": float(i), "fraud": i % 2}) for i in range(count)]


def values(directory):
    return {x for v in leat.tensors(directory).values() for x in v}


class Writer(threading.Thread):
    """Publishes events to two partitions, and after `widen` to three, in order and each once."""

    def __init__(self, broker, topic, events, rate):
        super().__init__(daemon=True)
        from confluent_kafka import Producer
        self.producer = Producer(broker.settings(**{"enable.idempotence": True, "topic.metadata.refresh.interval.ms": 500}))
        self.broker, self.topic, self.events, self.rate = broker, topic, events, rate
        self.partitions, self.written, self.over = 2, 0, threading.Event()
        broker.make_topic(topic, 2)
        self.start()

    def run(self):
        from confluent_kafka import KafkaException
        begin = time.monotonic()
        while self.written < self.events and not self.over.is_set():
            due = min(self.events, int((time.monotonic() - begin) * self.rate))
            while self.written < due:
                try:
                    self.producer.produce(self.topic, '{"amount":1,"fraud":0}', key=str(self.written),
                                          partition=self.written % self.partitions)
                    self.written += 1
                except (BufferError, KafkaException):  # the broker is down; the producer does not know the third partition yet
                    break
            self.producer.poll(0.02)
        self.producer.flush(120)

    def widen(self):
        self.broker.add_partitions(self.topic, 3)
        self.partitions = 3


@pytest.mark.parametrize("events, kills, broker_kills", [
    (200_000, 3, 1), pytest.param(1_000_000, 10, 2, marks=pytest.mark.long)])
def test_every_event_counts_once_whatever_is_killed(tmp_path, events, kills, broker_kills):
    """The job and the broker are killed, and a partition is added. Predictions are published once each, too."""
    rng = random.Random(1)
    broker = Broker(tmp_path / "broker")
    writer = Writer(broker, "events", events, rate=20_000)
    try:
        job_file = reading(tmp_path / "job.yaml", broker, "events", "live: true", **{
            "interval_s: 5": "interval_s: 0.5}\npredictions: {topic: scores", **ONE_SCORE})
        directory = tmp_path / "job"
        arguments = [job_file, "--directory", directory]
        for attempt in range(kills):
            with leat.Job("train", *arguments, directory=tmp_path / "out") as job:
                job.directory = directory
                target = events * (attempt + 1) // (kills + 3) + rng.randrange(events // 50)
                leat.wait_for(lambda: job.status().get("events", 0) >= target and job.status()["checkpoint"], "progress")
                job.kill()
            if attempt == kills // 2:
                writer.widen()
            arguments = ["--resume", directory]
        with leat.Job("train", *arguments, directory=tmp_path / "out") as job:
            job.directory = directory
            for _ in range(broker_kills):
                before = leat.wait_for(lambda: job.status().get("events", 0), "progress")
                broker.kill()
                broker.start()
                leat.wait_for(lambda: job.status().get("events", 0) > before or not writer.is_alive(), "progress")

            def counted():
                status = job.status()
                return status.get("events") == events and status["predictions"]["published"] >= events and \
                    status["predictions"]["behind"] == 0

            leat.wait_for(counted, "the last event", 300)
            job.interrupt()
            assert job.wait() == 0, job.text()[-3000:]
        assert values(directory) == {float(events)}
        assert not writer.is_alive()
        found = predictions(broker, "scores")
        assert len(found) == events and {partition for partition, _ in found} == {0, 1, 2}
    finally:
        writer.over.set()
        broker.stop()


@pytest.mark.long
def test_memory_is_flat_while_events_come_faster_than_they_are_trained(tmp_path):
    """Ten minutes of ten times as many events as two workers can train; predictions wait with them."""
    broker = Broker(tmp_path / "broker")
    writer = Writer(broker, "events", 12_000_000, rate=20_000)
    minutes = 10
    try:
        job_file = reading(tmp_path / "job.yaml", broker, "events", "live: true", **{
            "workers: 3": "workers: 2",
            "interval_s: 5": "interval_s: 5}\ndebug: {step_ms: 100}\npredictions: {topic: scores, max_unpublished: 100000",
            **ONE_SCORE})
        with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
            leat.wait_for(lambda: job.status().get("events", 0) > 0, "progress")

            def resident():
                """KiB of each role, by pid."""
                return {(role, pid): int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
                        for role, pid in job.children()}

            samples, begin = [], time.monotonic()
            while (seconds := time.monotonic() - begin) < 60 * minutes:
                if seconds >= 15 * len(samples):
                    samples.append(resident())
                time.sleep(0.5)
            status = job.status()
            assert status["lag"] > 0.8 * 20_000 * 60 * minutes, status["lag"]
            job.interrupt()
            assert job.wait() == 0, job.text()[-3000:]
        early, late = samples[len(samples) // 4], samples[-1]
        assert early.keys() == late.keys(), "a role has been replaced"
        for role in early:
            assert late[role] < 1.05 * early[role] + 8192, (role, [sample[role] for sample in samples])
    finally:
        writer.over.set()
        broker.stop()


@pytest.mark.long
def test_a_backlog_in_many_partitions_fits_into_the_budget(tmp_path, broker):
    """A worker that reads 64 partitions in turn fetches at most 256 MiB of them ahead."""
    partitions, in_each, split = 64, 1600, 20
    broker.make_topic("backlog", partitions)
    pad = random.Random(1).randbytes(8000)
    record = json.dumps({"amount": 1, "fraud": 0, "pad": base64.b64encode(pad).decode()})
    for partition in range(partitions):
        broker.publish("backlog", partition, [record] * in_each)
    job_file = reading(tmp_path / "job.yaml", broker, "backlog", "live: true", **{
        "batch_size: 100, split_batches: 20": f"batch_size: {split // 2}, split_batches: 2",
        "workers: 3, ps: 2": "workers: 1, ps: 1", "interval_s: 5": "interval_s: 5}\ndebug: {step_ms: 5"})
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 10 * split * partitions, "ten turns", 300)
        [worker] = job.pids("worker")
        peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{worker}/status").read_text())[1])
        job.interrupt()
        assert job.wait() == 0, job.text()[-3000:]
    assert peak < (256 + 100) << 10, f"{peak >> 10} MiB"


def test_bots_go_on_when_they_and_their_broker_are_killed(tmp_path):
    """A chunk of events is on its way then."""
    events = 300_000
    broker = Broker(tmp_path / "broker")
    try:
        job_file = counting(tmp_path / "job.yaml", broker, **{"events: 1000000": f"events: {events}, rate: 30000"})
        with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
            leat.wait_for(lambda: job.status().get("published", 0) > 0.2 * events, "published events")
            broker.kill()
            broker.start()
            leat.wait_for(lambda: job.status().get("published", 0) > 0.5 * events, "events published after the restart")
            broker.kill()
            for pid in job.pids("bots"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            broker.start()
            assert job.wait() == 0, job.text()[-3000:]
        assert values(tmp_path / "job") == {float(events)}
    finally:
        broker.stop()


def test_markers_and_aborted_records_are_no_events(tmp_path, broker):
    broker.make_topic("transactions", 2)
    for commit in [True, False, True, False]:
        broker.publish("transactions", 0, records(500), commit)
    broker.publish("transactions", 1, records(300))
    job_file = reading(tmp_path / "job.yaml", broker, "transactions", "bounded: true")
    done = leat.run("train", job_file, "--directory", tmp_path / "job", "--json")
    assert done.returncode == 0, done.stderr
    assert values(tmp_path / "job") == {1300.0}
    summary = leat.summary(done)
    assert summary["events"] == 1300 and summary["dead_letters"] == 0, summary


def test_roles_and_broker_share_only_a_network(tmp_path, hosts):
    events = 20_000
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for host in (1, 2, 3):
        hosts.hide(host, jobs)
    broker = Broker(tmp_path / "broker", listen=hosts.addresses[3] + ":0", before=hosts.at(3))
    try:
        job_file = counting(tmp_path / "job.yaml", broker, **{"events: 1000000": f"events: {events}, rate: 5000",
                                                            "interval_s: 5": "interval_s: 0.5}\npredictions: {topic: scores",
                                                            **ONE_SCORE})
        with Roles(tmp_path) as roles:
            where = roles.coordinator(job_file, "--directory", jobs / "job", "--workers", 2, "--ps", 1,
                                      "--listen", hosts.addresses[0] + ":0", before=hosts.at(0))
            for role, host in [("ps", 1), ("worker", 1), ("worker", 2), ("bots", 2)]:
                listen = ["--listen", hosts.addresses[host] + ":0", "--scratch", tmp_path / "scratch"] if role != "bots" else []
                roles.start(role, "--coordinator", where, *listen, before=hosts.at(host))
            roles.wait()
        assert values(jobs / "job") == {float(events)}
        peek = subprocess.run([*hosts.at(3), leat.PROGRAM, "peek", "--topic", "scores", "--kafka", broker.address, "--count",
                               str(2 * events), "--json"], capture_output=True, text=True, timeout=120)
        scored = [json.loads(json.loads(line)["record"]) for line in peek.stdout.splitlines()]
        assert len({(score["partition"], score["offset"]) for score in scored}) == len(scored) == events
    finally:
        broker.stop()


@pytest.mark.parametrize("named", [1, 7])
def test_places_of_brokers(tmp_path, broker, named):
    """The only broker, 1, is in the zone of one worker. The other worker still gets its share."""
    topic, events = f"zones{named}", 40_000
    job = counting(tmp_path / "job.yaml", broker, topic, **{"events: 1000000": f"events: {events}"})
    job.write_text(job.read_text() + f"topology: {{brokers: {{{named}: {{site: north, zone: a}}}}}}\n")
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", tmp_path / "job", "--workers", 2, "--ps", 1, "--site", "north", "--zone",
                                  "a")
        roles.start("ps", "--coordinator", where)
        for zone in "ab":
            roles.start("worker", "--coordinator", where, "--site", "north", "--zone", zone)
        roles.start("bots", "--coordinator", where)
        roles.wait()
        said = "".join(log.read_text() for log in tmp_path.rglob("coordinator*.log"))
        assert ("does not have broker 1, which has partitions" in said) == (named != 1), said
    assert values(tmp_path / "job") == {float(events)}


def test_partitions_that_are_added_are_read(tmp_path, broker):
    broker.make_topic("wider", 1)
    broker.publish("wider", 0, records(100))
    job_file = reading(tmp_path / "job.yaml", broker, "wider", "live: true", "max_partitions: 3")
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("events", 0) == 100, "the first records")
        broker.add_partitions("wider", 4)
        for partition, count in [(1, 30), (2, 20), (3, 50)]:
            broker.publish("wider", partition, records(count))
        leat.wait_for(lambda: job.status().get("events", 0) == 150, "the records of new partitions")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    assert values(tmp_path / "job") == {150.0}, "all but the fourth partition, which is beyond max_partitions"
    assert "reads the first 3 (max_partitions)" in (tmp_path / "job/logs/coordinator.log").read_text()


def test_a_job_begins_where_it_says(tmp_path, broker):
    broker.make_topic("growing", 1)
    broker.publish("growing", 0, records(100))
    job_file = reading(tmp_path / "job.yaml", broker, "growing", "start: latest", "live: true")
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("phase") == "running", "the start")
        broker.publish("growing", 0, records(70))
        leat.wait_for(lambda: job.status().get("events", 0) == 70, "the records since the start")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    assert values(tmp_path / "job") == {70.0}
    assert broker.committed("counter", "growing", 0) == 170, "for tools that show a group's lag"


def certificates(folder):
    """Files in PEM: an authority, and a server's key with its certificate."""
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
    ca, key, request, chain = folder / "ca.pem", folder / "key.pem", folder / "request.pem", folder / "chain.pem"
    new = ["-newkey", "rsa:2048", "-nodes", "-days", 2]
    openssl("req", "-x509", *new, "-keyout", folder / "ca-key.pem", "-out", ca, "-subj", "/CN=test")
    openssl("req", *new[:3], "-keyout", key, "-out", request, "-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", folder / "ca-key.pem", "-CAcreateserial", "-days", 2,
            "-copy_extensions", "copy", "-out", chain)
    chain.write_text(key.read_text() + chain.read_text())
    return ca, chain


def secured(folder):
    """Settings of a broker with TLS and passwords, and those of its clients."""
    ca, chain = certificates(folder)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = f'{module} required username="broker" password="b" user_broker="b" user_leat="{PASSWORD}";'
    broker = ["listener.security.protocol.map=BROKER:SASL_SSL,CONTROLLER:PLAINTEXT", "sasl.enabled.mechanisms=PLAIN",
              "sasl.mechanism.inter.broker.protocol=PLAIN", f"listener.name.broker.plain.sasl.jaas.config={users}",
              "ssl.keystore.type=PEM", f"ssl.keystore.location={chain}", "ssl.truststore.type=PEM",
              f"ssl.truststore.location={ca}"]
    return broker, {"security.protocol": "SASL_SSL", "ssl.ca.location": str(ca), "sasl.mechanism": "PLAIN",
                    "sasl.username": "leat", "sasl.password": {"env": "KAFKA_PASSWORD"}}


def test_tls_and_a_password_that_nobody_sees(tmp_path):
    properties, settings = secured(tmp_path)
    broker = Broker(tmp_path / "broker", *properties)
    try:
        job_file = counting(tmp_path / "job.yaml", broker, settings=settings,
                            **{"events: 1000000": "events: 20000, rate: 10000"})
        environment = {**os.environ, "KAFKA_PASSWORD": PASSWORD}
        with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job", env=environment) as job:
            leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
            for _, pid in job.children():
                assert PASSWORD.encode() not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            assert job.wait() == 0, job.text()[-2000:]
            assert PASSWORD not in job.text()
        assert values(tmp_path / "job") == {20000.0}
        holders = [path for path in (tmp_path / "job").rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
        assert not holders
    finally:
        broker.stop()


def test_records_that_expire_before_they_are_trained(tmp_path, broker):
    broker.make_topic("expiring", 1)
    broker.publish("expiring", 0, records(100))
    first = reading(tmp_path / "job.yaml", broker, "expiring", "live: true")
    with leat.Job("train", first, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("events", 0) == 100, "the first records")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    broker.publish("expiring", 0, records(50))
    broker.expire("expiring", 0)
    broker.publish("expiring", 0, records(20))
    leat.refused(leat.run("train", "--resume", tmp_path / "job"), "'expiring' partition 0 begins at offset 150",
                 "50 records have expired", "fail_on_data_loss: false")
    lenient = reading(tmp_path / "lenient.yaml", broker, "expiring", "live: true", "fail_on_data_loss: false")
    with leat.Job("train", lenient, "--resume", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("events", 0) >= 120, "the last records")
        assert leat.wait_for(lambda: job.status()["lost_to_retention"], "the lost records") == 50
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
        logs = "".join(path.read_text() for path in (tmp_path / "job/logs").glob("worker-*.log"))
        assert "[100, 150); 50 offsets are skipped" in logs, logs[-2000:]
    assert values(tmp_path / "job") == {120.0}


def test_a_topic_that_was_made_again(tmp_path, broker):
    def make(count):
        broker.make_topic("again", 1)
        broker.publish("again", 0, records(count))

    def trained(fingerprint):
        manifests = [json.loads(path.read_text()) for path in (tmp_path / "job").glob("checkpoint-*/manifest.json")]
        return any(fingerprint == one["offset"] for manifest in manifests for one in manifest["fingerprints"])

    make(100)
    job_file = reading(tmp_path / "job.yaml", broker, "again", "live: true")
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("events", 0) == 100, "the first records")
        checkpoint = ["checkpoint", "--coordinator", job.address()]
        leat.wait_for(lambda: leat.run(*checkpoint).returncode == 0 and trained(100), "the fingerprint of the last record")
        broker.delete_topic("again")
        make(150)
        leat.run(*checkpoint)
        assert job.wait() == 2, job.text()[-2000:]
        assert "'again': partition 0 has another record before offset 100" in job.text(), job.text()[-2000:]
    leat.refused(leat.run("train", "--resume", tmp_path / "job"), "'again'", "the topic was deleted and made again")


def test_workers_that_read_other_labels_are_named(tmp_path, broker):
    """Keys have put most events of a class into one partition, and each of two workers keeps to a partition."""
    broker.make_topic("skewed", 2)
    for partition in range(2):
        broker.publish("skewed", partition, [json.dumps({"amount": i % 7, "fraud": int((i % 10 == 0) != (partition == 1))})
                                             for i in range(80_000)], key=f"customer-{partition}")
    # Slow, so that each worker always has events of its partition left.
    job_file = reading(tmp_path / "job.yaml", broker, "skewed", "live: true", **{
        "    - bias: {units: 16384}\n": "    - dense: {units: 2}\n", "{type: negative_sum, reduction: sum}": "softmax_cross_entropy",
        "learning_rate: 1": "learning_rate: 0.01", "batch_size: 100, split_batches: 20": "batch_size: 20, split_batches: 2",
        "workers: 3, ps: 2, placement: partitioned": "workers: 2, ps: 1",
        "interval_s: 5": "interval_s: 5}\ndebug: {step_ms: 10}\nmetrics: {window: 2000"})
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        def workers():
            return [member for member in job.status().get("members", []) if member["role"] == "worker"]

        def named():
            found = workers()
            return len(found) == 2 and all(member.get("skewed") for member in found) and found

        found = leat.wait_for(named, "a warning of both workers")
        # A tenth of one share is fraud and nine tenths of the other. The whole lies between them, at the workers' paces.
        assert 0.7 < sum(member["label_skew"] for member in found) < 0.9, found
        for member in found:
            assert member["skewed_feature"] == "amount" and member["feature_skew"] < 0.2, member
        assert job.status()["skew_warnings"] >= 2
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    log = (tmp_path / "job/logs/coordinator.log").read_text()
    for index in range(2):
        assert re.search(rf"worker {index}: label skew 0\.\d\d, above 0\.\d\d \(total variation distance over \d+ splits\): .*"
                         r"publish with a key that mixes labels", log), log[-3000:]


def test_fields_come_from_keys_timestamps_and_headers(tmp_path, broker):
    broker.make_topic("attributes", 1)
    broker.publish("attributes", 0, records(300), key="k1", headers={"shop": "7"})
    broker.publish("attributes", 0, records(20), headers={"shop": "7"})
    broker.publish("attributes", 0, records(10), key="k2", headers={"shop": "seven"})
    job_file = reading(tmp_path / "job.yaml", broker, "attributes", "bounded: true", **{"amount: {type: number}": """
    card: {type: category, values: [k1, k2], from: key}
    shop: {type: id, below: 10, from: {header: shop}}
    day: {type: number, period: 86400, from: timestamp}"""})
    done = leat.run("train", job_file, "--directory", tmp_path / "job", "--json")
    assert done.returncode == 0, done.stderr
    assert leat.summary(done)["dead_letters"] == 30
    shown = json.loads(leat.run("peek", "--job", job_file, "--count", 1, "--json").stdout)
    assert shown["features"]["card"] == "k1" and shown["features"]["shop"] == 7.0
    assert values(tmp_path / "job") == {300.0}


def test_dead_letters_go_to_a_topic(tmp_path, broker):
    unfit = ["no JSON", '{"amount": "many", "fraud": 0}', '{"fraud": 0}', b'{"amount": "\xff", "fraud": 0}', None]
    broker.make_topic("unfit", 1)
    broker.publish("unfit", 0, records(100))
    broker.publish("unfit", 0, unfit, key="k1")
    broker.publish("unfit", 0, records(100))
    job_file = reading(tmp_path / "job.yaml", broker, "unfit", "bounded: true", "dead_letters: unfit-dead")
    done = leat.run("train", job_file, "--directory", tmp_path / "job", "--json")
    assert done.returncode == 0, done.stderr
    assert leat.summary(done)["dead_letters"] == len(unfit)
    assert values(tmp_path / "job") == {200.0}
    letters = broker.read("unfit-dead", len(unfit))
    assert [letter.value() or b"" for letter in letters] == [x if isinstance(x, bytes) else (x or "").encode() for x in unfit]
    headers = [dict(letter.headers()) for letter in letters]
    assert [int(h["leat.offset"]) for h in headers] == [100, 101, 102, 103, 104]
    assert {(h["leat.topic"], h["leat.partition"], letter.key()) for h, letter in zip(headers, letters)} == {(b"unfit", b"0", b"k1")}
    assert b"amount: 'many' is not a number" == headers[1]["leat.reason"]
    assert not (tmp_path / "job/dead_letters").exists()


@pytest.mark.parametrize("form, count", [(poison.Json(), 20_000), (poison.Protobuf(), 5_000), (poison.Protobuf(framed=True), 5_000)],
                         ids=["json", "protobuf", "framed-protobuf"])
def test_poisoned_records_and_tombstones_are_dead_letters(tmp_path, broker, request, form, count):
    made, reasons = poison.records(form, count, {"tombstone": (None, "is empty")})
    topic = request.node.callspec.id
    broker.make_topic(topic, 1)
    broker.publish(topic, 0, made)
    job_file = reading(tmp_path / "job.yaml", broker, topic, "bounded: true", **form.changes(tmp_path))
    done = leat.run("train", job_file, "--directory", tmp_path / "job", "--json")
    assert done.returncode == 0, done.stderr
    poison.check(tmp_path / "job", leat.summary(done), count, reasons)


def test_topics_that_lose_records(tmp_path, broker):
    broker.make_topic("compacted", 1, **{"cleanup.policy": "compact"})
    job_file = reading(tmp_path / "job.yaml", broker, "compacted", "live: true")
    leat.refused(leat.run("train", job_file, "--directory", tmp_path / "job"), "'compacted' is compacted")

    broker.make_topic("short", 1, **{"retention.ms": "2000"})
    job_file = reading(tmp_path / "job.yaml", broker, "short", "live: true")
    with leat.Job("train", job_file, "--directory", tmp_path / "job", directory=tmp_path / "job") as job:
        leat.wait_for(lambda: job.status().get("phase") == "running", "the start")
        assert "keeps records for 2 s (retention.ms)" in (tmp_path / "job/logs/coordinator.log").read_text()


@pytest.mark.long
def test_brokers_that_are_away_are_waited_for_at_a_resume(tmp_path):
    """A new job ends with status 75. A resumed job says what it waits for, goes on by itself, and counts each event once."""
    events = 40_000
    broker = Broker(tmp_path / "broker")
    try:
        job_file = counting(tmp_path / "job.yaml", broker, **{"events: 1000000": f"events: {events}, rate: 10000", "interval_s: 5": "interval_s: 1"})
        directory = tmp_path / "job"
        with leat.Job("train", job_file, "--directory", directory, directory=tmp_path / "out") as job:
            job.directory = directory
            leat.wait_for(lambda: job.status().get("events", 0) > events // 8 and job.status()["checkpoint"], "progress")
            job.kill()
        broker.kill()
        with leat.Job("train", "--resume", directory, directory=tmp_path / "out") as job:
            leat.wait_for(lambda: "the coordinator waits for Kafka topic 'events'" in job.text(), "what it waits for")
            job.interrupt()
            assert job.wait() == 130, job.text()[-3000:]
        with leat.Job("train", "--resume", directory, directory=tmp_path / "out") as job:
            job.directory = directory
            leat.wait_for(lambda: "the coordinator waits for Kafka topic 'events'" in job.text(), "what it waits for")
            new = leat.run("train", job_file, "--directory", tmp_path / "new")
            leat.refused(new, "Kafka topic 'events'", status=75)
            assert not (tmp_path / "new").exists()
            broker.start()
            assert job.wait() == 0, job.text()[-3000:]
        assert values(directory) == {float(events)}
    finally:
        broker.stop()


@pytest.mark.long
@pytest.mark.parametrize("command", ["train", "bots"])
def test_a_wrong_password_is_named(tmp_path, command):
    properties, settings = secured(tmp_path)
    broker = Broker(tmp_path / "broker", *properties)
    wrong = "open-barley"
    try:
        if command == "train":
            job_file = reading(tmp_path / "job.yaml", broker, "events", "live: true", settings=settings)
            done = leat.run("train", job_file, "--directory", tmp_path / "job", env={"KAFKA_PASSWORD": wrong})
            line = leat.refused(done, broker.address)
        else:
            job_file = counting(tmp_path / "job.yaml", broker, settings=settings)
            with Roles(tmp_path) as roles:
                roles.environment["KAFKA_PASSWORD"] = PASSWORD
                where = roles.coordinator(job_file, "--directory", tmp_path / "job", "--workers", 1, "--ps", 1)
                done = leat.run("bots", "--coordinator", where, env={**roles.environment, "KAFKA_PASSWORD": wrong})
            assert done.returncode == 2, done.stderr
            [line] = [line for line in done.stderr.splitlines() if line.startswith("leat: ")]
            assert broker.address in line
        assert "uthentication failed" in line
        assert wrong not in done.stdout + done.stderr
    finally:
        broker.stop()


@pytest.mark.parametrize("change, place, message", [
    ({"topic: events": "topic: nowhere"}, "nowhere", "nowhere"),
    ({'{"bootstrap': '{"group.id": "x", "bootstrap'}, "group.id", "is set by Leat"),
    ({'{"bootstrap': '{"sasl.password": "x", "bootstrap'}, "sasl.password", "{env: NAME} or {file: PATH}"),
    ({'{"bootstrap': '{"sasl.password": {env: NO_SUCH_VARIABLE}, "bootstrap'}, "NO_SUCH_VARIABLE", "environment"),
    ({"topic: events": "start: noon\n  topic: events"}, "noon", "earliest, latest, or a time"),
])
def test_bad_settings_are_refused(tmp_path, broker, change, place, message):
    job_file = reading(tmp_path / "job.yaml", broker, "events", "live: true")
    leat.write_job(job_file, job_file.read_text(), **change)
    line = leat.refused(leat.run("train", job_file, "--directory", tmp_path / "job"), place)
    assert message in line


def avro(value):
    """The binary encoding of what a test needs: an int, double, text, or a branch of a union with its value."""
    if isinstance(value, int):
        bits, out = (value << 1) ^ (value >> 63), b""
        while bits > 0x7F:
            bits, out = bits >> 7, out + bytes([bits & 0x7F | 0x80])
        return out + bytes([bits])
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return avro(len(value)) + value
    return b"".join(avro(part) for part in value)


class Registry(http.server.BaseHTTPRequestHandler):
    """A schema registry with TLS and a password."""

    old = {"type": "record", "name": "Payment", "fields": [
        {"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "double"]}, {"name": "fraud", "type": "int"}]}
    new = {"type": "record", "name": "Payment", "fields": [
        {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": [
            {"name": "name", "type": "string"}, {"name": "country", "type": ["null", "string"]}]}}, *old["fields"]]}
    schemas, asked = {1: old, 300: new}, []

    def do_GET(self):
        self.asked.append(self.path)
        expected = "Basic " + base64.b64encode(f"leat:{PASSWORD}".encode()).decode()
        schema = self.schemas.get(int(self.path.rsplit("/", 1)[1]))
        code = 401 if self.headers["Authorization"] != expected else 404 if schema is None else 200
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_avro_records_with_schemas_of_a_registry(tmp_path, broker):
    def framed(schema, *values):
        return struct.pack(">bI", 0, schema) + avro(values)

    good = [framed(1, f"p{i}", (1, float(i)), i % 2) if i % 3 else framed(300, "ñandú", (1, "ES") if i % 2 else 0, f"p{i}", (1, 0.5), 1)
            for i in range(1500)]
    poison = {
        b'{"amount": 1.0}': "begins with the byte 0x7b", b"": "has 0 bytes", framed(1, "p", (1, 2.0), 1)[:-1]: "fraud: the record ends",
        framed(1, "p", 0, 1): "amount: is null", framed(1, "p", (1, 2.0), 2**40): "fraud: 1099511627776 is not an int",
        framed(1, "p", (1, 2.0), 1) + b"x": "has 1 bytes more", framed(300, "n", (1, b"\xff"), "p", (1, 2.0), 1): "country: is not UTF-8",
        framed(1, "p", (1, float("nan")), 1): "amount: is not a number", framed(9, "p"): "schema 9: ",
        struct.pack(">bI", 0, 1) + avro(10**9): "id: its length is 1000000000"}
    ca, chain = certificates(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        broker.make_topic("avro", 2)
        for partition in range(2):
            broker.publish("avro", partition, good[:700] + list(poison) + good[700:])
        job_file = reading(tmp_path / "job.yaml", broker, "avro", "bounded: true")
        registry = {"url": f"https://127.0.0.1:{server.server_port}", "ssl.ca.location": str(ca), "timeout_s": 0.5,
                    "basic.auth.user.info": {"env": "REGISTRY_USER"}}
        leat.write_job(job_file, job_file.read_text(), **{
            "  format: json\n": f"  format: avro\n  avro: {json.dumps({'registry': registry})}\n",
            "  fields:\n": "  fields:\n    country: {type: category, buckets: 4, path: customer.country, default: none}\n"})
        environment = {**os.environ, "REGISTRY_USER": f"leat:{PASSWORD}"}
        done = leat.run("train", job_file, "--directory", tmp_path / "job", "--json", env=environment)
        assert done.returncode == 0, done.stderr
        assert values(tmp_path / "job") == {3000.0}
        assert leat.summary(done)["dead_letters"] == 2 * len(poison)
        letters = [json.loads(line) for f in (tmp_path / "job/dead_letters").glob("*.jsonl") for line in f.read_text().splitlines()]
        for reason in poison.values():
            assert sum(reason in letter["reason"] for letter in letters) == 2, (reason, letters)
        assert all(PASSWORD not in f.read_text(errors="replace") for f in (tmp_path / "job").rglob("*") if f.is_file())
        assert len(Registry.asked) < 60, Registry.asked
    finally:
        server.shutdown()
        server.server_close()
    line = leat.refused(leat.run("train", job_file, "--directory", tmp_path / "other"), "basic.auth.user.info")
    assert "REGISTRY_USER" in line
