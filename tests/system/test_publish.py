"""leat publish, leat peek, leat schema of a topic, and leat demo --kafka, with a real broker and with the embedded log."""

# folders: stream

import contextlib
import gzip
import json
import os
import pathlib
import signal
import subprocess
import tempfile

import pytest

import leat
from kafka import Broker
from test_jobs import part_of_mnist
from test_kafka import PASSWORD, secured

MNIST = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
SCHEMA = """schema:
  format: json
  fields:
    amount: {type: number, mean: 10, std: 5}
    country: {type: category, values: [ES, MX]}
    fraud: {type: number, classes: 2, role: label}
"""


@pytest.fixture(scope="module", name="broker")
def one_broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


def payments(count):
    return [json.dumps({"id": f"k{i % 50}", "amount": i % 20, "country": ["ES", "MX", "US"][i % 3], "fraud": i % 2})
            for i in range(count)]


def write_lines(path, lines):
    (gzip.open if path.suffix == ".gz" else open)(path, "wt").write("".join(line + "\n" for line in lines))
    return path


def published(*arguments):
    done = leat.run("publish", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def peeked(*arguments):
    done = leat.run("peek", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def consumed(broker, topic):
    """The records that Kafka's own client reads: [(partition, offset, key, value)]."""
    from confluent_kafka import Consumer, TopicPartition
    consumer = Consumer(broker.settings(**{"group.id": "test", "enable.partition.eof": True}))
    try:
        partitions = len(consumer.list_topics(topic, 60).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        found, ended = [], 0
        while ended < partitions:
            message = consumer.poll(60)
            assert message is not None, "no record within a minute"
            if message.error():
                ended += 1
            else:
                found.append((message.partition(), message.offset(), message.key(), message.value().decode()))
        return sorted(found, key=lambda r: r[:2])
    finally:
        consumer.close()


def mnist_jobs(tmp_path, broker, epochs):
    """The same job on the files, and on a topic with their images."""
    text = (leat.EXAMPLES / "mnist.yaml").read_text()
    paths = f"    paths: [{', '.join(MNIST)}]\n    partitions: 4\n"
    files = leat.write_job(tmp_path / "files.yaml", text, **{"epochs: 10": f"epochs: {epochs}"})
    topic = leat.write_job(
        tmp_path / "topic.yaml", text,
        **{"epochs: 10": f"epochs: {epochs}", "  files:\n    format: idx\n" + paths:
           f"  topic: {tmp_path.name}\n  bounded: true\n  kafka: {json.dumps(broker.settings())}\n"})
    return files, topic


def compare_mnist(tmp_path, broker, folder, images, epochs, least, close):
    files, topic = mnist_jobs(tmp_path, broker, epochs)
    said = published(*(pathlib.Path(folder, name) for name in MNIST), "--job", topic)
    assert f"published {images:,} records" in said, said
    results = [leat.summary(leat.run("train", job, "--data", folder, "--workers", 2, "--json", cwd=tmp_path, timeout=900))
               for job in (files, topic)]
    for result in results:
        assert result["events"] == epochs * images and result["dead_letters"] == 0
        assert result["test_accuracy"] > least, results
    assert abs(results[0]["test_accuracy"] - results[1]["test_accuracy"]) < close, results


def test_images_train_from_kafka_as_from_files(tmp_path, broker):
    part_of_mnist(tmp_path, 6000, 1000)
    compare_mnist(tmp_path, broker, tmp_path, 6000, 4, 0.85, 0.06)


@pytest.mark.long
def test_mnist_trains_from_kafka_as_from_files(tmp_path, broker):
    compare_mnist(tmp_path, broker, leat.data("mnist"), 60_000, 3, 0.95, 0.01)


def test_records_are_the_rows_of_the_files(tmp_path, broker):
    rows = payments(3000)
    files = [write_lines(tmp_path / "a.jsonl", rows[:1000]), write_lines(tmp_path / "b.jsonl.gz", rows[1000:])]
    where = ["--topic", "rows", "--kafka", broker.address]
    said = published(*files, *where, "--partitions", 3)
    assert said.startswith("published 3,000 records, ") and "Kafka topic 'rows', 3 partitions" in said
    found = consumed(broker, "rows")
    assert found == sorted((i % 3, i // 3, None, row) for i, row in enumerate(rows))
    assert [(r["partition"], r["offset"], None, r["record"]) for r in peeked(*where, "--count", 5000)] == found
    published(files[0], *where, "--shuffle")
    more = [r for r in consumed(broker, "rows") if r[1] >= 1000]
    assert sorted(r[3] for r in more) == sorted(rows[:1000]) and [r[3] for r in more[:5]] != rows[:5]


def test_keys_choose_partitions_as_with_kafkas_clients(tmp_path, broker):
    from confluent_kafka import Producer
    rows = payments(500)
    published(write_lines(tmp_path / "rows.jsonl", rows), "--topic", "keyed", "--kafka", broker.address, "--key", "id")
    broker.make_topic("theirs", 4)
    # In order, although the broker has just made the topic and may refuse some at first.
    producer = Producer(broker.settings(**{"partitioner": "murmur2", "enable.idempotence": True}))
    for row in rows:
        producer.produce("theirs", row, key=json.loads(row)["id"])
    producer.flush(60)
    ours = consumed(broker, "keyed")
    assert ours == consumed(broker, "theirs")
    assert {key for _, _, key, _ in ours} == {f"k{i}".encode() for i in range(50)}


def test_csv_into_the_embedded_log(tmp_path):
    lines = [f"{i};{i % 7}" for i in range(5000)]
    path = write_lines(tmp_path / "rows.csv", ["id;day", *lines])
    where = ["--topic", "rows", "--log", tmp_path / "log"]
    done = leat.run("publish", path, *where, "--partitions", 2)
    assert done.returncode == 0 and "columns: [id, day]" in done.stderr, done.stderr
    records = peeked(*where, "--count", 9999)
    assert [r["record"] for r in records] == lines[0::2] + lines[1::2]
    assert [r["offset"] for r in peeked(*where, "--offset", "latest", "--partition", 1, "--count", 2)] == [2498, 2499]
    leat.refused(leat.run("publish", path, *where, "--partitions", 3), "has 2 partitions, not 3")
    assert leat.run("publish", path, *where, "--no-header").returncode == 0, "the topic exists"
    table = leat.run("peek", *where, "--count", 2).stdout.splitlines()
    assert table[0] == "topic 'rows': 2 partitions, 10,001 records"
    assert [line.split() for line in table[2:]] == [["partition", "offset", "record"], ["0", "0", "0;0"], ["1", "0", "1;1"]]


def test_a_job_reads_what_peek_shows(tmp_path, broker):
    rows = [*payments(40), '{"amount": "much"}', "no JSON"]
    job = tmp_path / "job.yaml"
    job.write_text(f"stream:\n  topic: shown\n  bounded: true\n  kafka: {json.dumps(broker.settings())}\n" + SCHEMA)
    assert "42 records" in published(write_lines(tmp_path / "rows.jsonl", rows), "--job", job, "--partitions", 1, "--format", "json")
    shown = leat.run("peek", "--job", job, "--count", 100).stdout
    assert "    amount  -2            country ES\n  label fraud 0\n" in shown
    assert "country (no value)" in shown and "\n  dead letter: amount: 'much' is not a number\n" in shown
    records = peeked("--job", job, "--count", 100)
    assert records[1]["features"] == {"amount": pytest.approx(-1.8), "country": "MX"} and records[1]["labels"] == {"fraud": 1}
    dead = [r["offset"] for r in records if "dead_letter" in r]
    assert dead == [40, 41]

    proposed = leat.run("schema", "--topic", "shown", "--kafka", broker.address, "--label", "fraud")
    assert proposed.returncode == 0 and "country: {type: category, values: [ES, MX, US]" in proposed.stdout, proposed.stderr
    job.write_text(job.read_text() + "model:\n  layers:\n    - dense: {units: 2}\n  loss: softmax_cross_entropy\n"
                   "optimizer: {type: sgd}\n")
    result = leat.summary(leat.run("train", job, "--json", cwd=tmp_path))
    assert result["events"] == 40 and result["dead_letters"] == 2


def test_peek_shows_the_dead_letters_that_the_model_makes(tmp_path):
    labels, log = [0, 1, 2, 1.5, -1, 0], tmp_path / "log"
    rows = write_lines(tmp_path / "rows.jsonl", [json.dumps({"a": 1, "label": label}) for label in labels])
    where = ["--topic", "labels", "--log", log]
    published(rows, *where, "--partitions", 1)
    leat.seal(log / "labels/0000.log")
    job = tmp_path / "job.yaml"
    job.write_text(f"stream: {{topic: labels, log: {log}}}\n"
                   "schema: {format: json, fields: {a: {type: number}, label: {type: number, role: label}}}\n"
                   "model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}\n"
                   "optimizer: {type: sgd, learning_rate: 0.1}\ntrain: {max_dead_letter_rate: 1}\n")
    result = leat.summary(leat.run("train", job, "--directory", tmp_path / "job", "--json"))
    assert result["events"] == 3 and result["dead_letters"] == 3
    kept = [json.loads(line) for file in (tmp_path / "job/dead_letters").glob("*.jsonl") for line in file.read_text().splitlines()]
    reasons = {k["offset"]: k["reason"] for k in kept}
    assert reasons[3] == "label: 1.5 is not a whole number from 0 to 1" and sorted(reasons) == [2, 3, 4], reasons

    def dead(*arguments):
        return {r["offset"]: r["dead_letter"] for r in peeked(*arguments) if "dead_letter" in r}

    assert dead("--job", job) == dead("--job", tmp_path / "job/job.yaml") == dead(*where, "--schema", job) == reasons
    job.write_text(job.read_text().replace("dense", "dens"))
    done = leat.run("peek", "--job", job, "--json")
    assert done.returncode == 0 and "dead_letter" not in done.stdout
    assert done.stderr.startswith("labels are not compared with the classes of the model: ") and "job.yaml:3: " in done.stderr


def test_ctrl_c_ends_a_publisher_between_records(tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", payments(100_000))
    where = ["--topic", "paced", "--log", tmp_path / "log"]
    publisher = subprocess.Popen([leat.PROGRAM, "publish", path, *where, "--rate", "2000"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        def count():
            done = leat.run("peek", *where, "--count", 0)
            return int(done.stdout.split(" partitions, ")[1].split()[0].replace(",", "")) if done.returncode == 0 else 0
        leat.wait_for(lambda: count() >= 100, "the first records")
        publisher.send_signal(signal.SIGINT)
        said, _ = publisher.communicate(timeout=120)
    finally:
        publisher.kill()
    assert publisher.returncode == 130
    assert said.startswith(f"interrupted: published {count():,} of 100,000 records"), said
    assert 100 <= count() < 100_000


@pytest.mark.parametrize("arguments, parts", [
    (["rows.jsonl", "--topic", "t"], ["where is the topic?", "--kafka"]),
    (["rows.jsonl", "--kafka", "b:1"], ["which topic?"]),
    (["rows.jsonl", "--topic", "t", "--kafka", "b:1", "--log", "l"], ["--kafka", "--log"]),
    (["rows.jsonl", "--topic", "t", "--kafka", "b:1", "--kafka-setting", "sasl.password=" + PASSWORD],
     ["sasl.password", "env:VARIABLE"]),
    (["rows.jsonl", "--topic", "t", "--kafka", "b:1", "--kafka-setting", "sasl.password=env:NO_SUCH_VARIABLE"],
     ["NO_SUCH_VARIABLE"]),
    (["rows.jsonl", "--topic", "t", "--kafka", "b:1", "--kafka-setting", "group.id=x"], ["group.id", "set by Leat"]),
    (["rows.jsonl", "--topic", "t", "--kafka", "b:1", "--kafka-setting", "linger"], ["'linger' is not NAME=VALUE"]),
    (["absent.jsonl", "--topic", "t", "--log", "l"], ["absent.jsonl"]),
    (["rows.jsonl", "--topic", "a/b", "--log", "l"], ["a/b"]),
    (["rows.jsonl", "--topic", "t", "--log", "l", "--format", "idx"], ["idx takes two files"]),
    (["noise", "--topic", "t", "--log", "l"], ["noise: is neither idx, CSV nor JSON lines"]),
    (["rows.jsonl", "--job", "files.yaml"], ["files.yaml:1", "this stream is files"]),
])
def test_mistakes_are_named(tmp_path, arguments, parts):
    write_lines(tmp_path / "rows.jsonl", payments(10))
    (tmp_path / "noise").write_bytes(bytes(range(9)))
    (tmp_path / "files.yaml").write_text("stream: {files: {format: json, paths: [rows.jsonl]}}\n")
    line = leat.refused(leat.run("publish", *arguments, cwd=tmp_path), *parts)
    assert PASSWORD not in line
    assert not (tmp_path / "l").exists(), "nothing is made for a mistake"


@pytest.mark.parametrize("arguments, parts", [
    (["--topic", "absent", "--log", "."], ["absent"]),
    (["--topic", "t", "--log", ".", "--partition", "7"], ["there is no partition 7; there are 4"]),
    (["--topic", "t", "--log", ".", "--offset", "70"], ["there is no offset 70", "partition 0 has [0, 3)"]),
    (["--topic", "t", "--log", ".", "--offset", "first"], ["first", "earliest or latest"]),
])
def test_places_that_do_not_exist(tmp_path, arguments, parts):
    published(write_lines(tmp_path / "rows.jsonl", payments(10)), "--topic", "t", "--log", tmp_path)
    leat.refused(leat.run("peek", *arguments, cwd=tmp_path), *parts)


@pytest.mark.long
def test_a_broker_that_wants_a_password(tmp_path):
    properties, settings = secured(tmp_path)
    broker = Broker(tmp_path / "broker", *properties)
    try:
        options = ["--kafka-setting"] * 2 * len(settings)
        options[1::2] = [f"{name}={value if isinstance(value, str) else 'env:' + value['env']}" for name, value in settings.items()]
        where = ["--topic", "locked", "--kafka", broker.address, *options]
        path = write_lines(tmp_path / "rows.jsonl", payments(100))
        done = leat.run("publish", path, *where, env={"KAFKA_PASSWORD": PASSWORD})
        assert done.returncode == 0, done.stderr
        done = leat.run("peek", *where, env={"KAFKA_PASSWORD": PASSWORD})
        assert "4 partitions, 100 records" in done.stdout, done.stderr
        assert "uthentication failed" in leat.refused(leat.run("peek", *where, env={"KAFKA_PASSWORD": "wrong"}), broker.address)
    finally:
        broker.stop()


def brokers_in(folder):
    """Java processes with this folder in their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@pytest.mark.usefixtures("broker")  # skips where none can be had
def test_the_demo_on_a_broker_of_its_own(tmp_path):
    scratch = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
    done = leat.run("demo", "--kafka", "--events", 30_000, "--rate", 0, "--json", cwd=tmp_path, env={"TMPDIR": str(scratch)})
    result = leat.summary(done)
    assert "'payments' of Kafka at 127.0.0.1:" in done.stderr
    assert result["events"] == 30_000 and 0.5 < result["auc"] <= result["auc_possible"]
    assert not brokers_in(scratch) and not list(scratch.glob("leat-demo-*"))


def test_the_demo_in_a_running_cluster(tmp_path, broker):
    done = leat.run("demo", "--kafka", broker.address, "--events", 3000, "--rate", 0, "--json", cwd=tmp_path)
    assert leat.summary(done)["events"] == 3000
    topic = done.stderr.split("topic '")[1].split("'")[0]
    assert len(consumed(broker, topic)) == 3000
    leat.refused(leat.run("demo", "--kafka", broker.address, "--resume", "x", cwd=tmp_path), "--resume", "--kafka")


@pytest.mark.long
@pytest.mark.usefixtures("broker")
def test_ctrl_c_ends_the_demo_and_its_broker(tmp_path):
    scratch = pathlib.Path(tempfile.mkdtemp(dir=tmp_path))
    with leat.Job("demo", "--kafka", "--rate", 2000, directory=tmp_path / "out", cwd=tmp_path,
                  env={**os.environ, "TMPDIR": str(scratch)}) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    assert not brokers_in(scratch) and not list(scratch.glob("leat-demo-*"))
