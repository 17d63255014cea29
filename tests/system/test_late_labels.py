"""Labels that come later, on a second topic of a real Kafka broker: each event is trained once, with its own label.

The model has a weight for each group of events, and the gradient of each event is the sign of its label: a weight is the
number of events of its group, with the sign of their labels. A wrong label, or a second one, is a wrong weight."""

# folders: stream protocol

import json
import os
import random
import signal
import time
import zlib

import pytest

import leat
from kafka import Broker

PARTITIONS, GROUPS, WINDOW_MS = 3, 8, 60_000
EVENTS = 6000  # an event a second, in two halves a day apart
DAY_MS = 86_400_000
LARGE = 1_000_000  # a label; no weight comes near it


@pytest.fixture(scope="module", name="broker")
def one_broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


JOB = """name: {topic}
stream:
  topic: {topic}
  bounded: true
  kafka: {kafka}
  labels: {labels}
schema:
  format: json
  fields:
    group: {{type: category, values: [{groups}]}}
    outcome: {{type: number, role: label, from: labels{classes}}}
model:
  layers:
    - dense: {{units: 1, use_bias: false, init: zeros}}
  loss: {loss}
optimizer: {{type: sgd, learning_rate: 1}}
strategy: async
train: {{batch_size: 20, split_batches: 5}}
cluster: {{workers: 2, ps: 2}}
checkpoint: {{interval_s: 0.5}}
"""


def write_job(path, broker, events, loss="{type: absolute_error, reduction: sum}", classes="", **labels):
    """`labels`: settings of the topic of labels."""
    labels = {"topic": events + "-labels", "window_s": WINDOW_MS / 1000, "idle_s": 3600, **labels}
    path.write_text(JOB.format(topic=events, kafka=json.dumps(broker.settings()), labels=json.dumps(labels), loss=loss,
                               classes=classes, groups=", ".join(f"g{g}" for g in range(GROUPS))))
    return path


def partition_of(key):
    return zlib.crc32(key.encode()) % PARTITIONS


def publish(broker, topic, rows, place=partition_of):
    """Rows (time in ms, key, value), in order."""
    from confluent_kafka import Producer
    producer = Producer(broker.settings(**{"enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}))
    for at, key, value in rows:
        producer.produce(topic, json.dumps(value), key=key, partition=place(key), timestamp=at)
    producer.flush(120)


class Stream:
    """The events and labels of one topic. Groups differ in size, and the labels of even ones are positive."""

    def __init__(self, broker, topic):
        self.broker, self.topic = broker, topic
        self.begin = int(time.time() * 1000) - 2 * DAY_MS
        broker.make_topic(topic, PARTITIONS)
        broker.make_topic(topic + "-labels", PARTITIONS)
        publish(broker, topic, [(self.time(i), f"k{i}", {"group": f"g{self.group(i)}"}) for i in range(EVENTS)])

    def time(self, i):
        return self.begin + 1000 * i + (DAY_MS if i >= EVENTS // 2 else 0)

    @staticmethod
    def group(i):
        """0 once, 1 twice, … 7 eight times in 36 events."""
        return next(g for g in range(GROUPS) if i % 36 < (g + 1) * (g + 2) // 2)

    @staticmethod
    def is_labelled(i):
        return i % 10 != 7

    def sign(self, i):
        return 1 if self.group(i) % 2 == 0 else -1

    def publish_labels(self, first, last):
        """Labels of the events [first, last), some that are none of theirs, and one in each partition that ends their window."""
        rows = []
        for i in range(first, last):
            at, right = self.time(i), {"outcome": self.sign(i) * LARGE}
            wrong = {"outcome": -self.sign(i) * LARGE}
            if self.is_labelled(i):
                rows.append((at + i * 7919 % 50_000, f"k{i}", right))
            elif i % 20 == 7:
                rows.append((at + WINDOW_MS + 1, f"k{i}", wrong))
            if i % 3 == 0:
                rows.append((at - 1, f"k{i}", wrong))
            if i % 4 == 0 and self.is_labelled(i):
                rows.append((at + 59_000, f"k{i}", wrong))
        ends = {partition_of(f"end {n}"): f"end {n}" for n in range(1000)}
        assert len(ends) == PARTITIONS
        rows += [(self.time(last - 1) + 2 * WINDOW_MS, key, {"outcome": 0}) for key in ends.values()]
        publish(self.broker, self.topic + "-labels", sorted(rows, key=lambda row: row[0]))

    def labelled(self, first=0, last=EVENTS):
        return sum(self.is_labelled(i) for i in range(first, last))

    def weights(self):
        counts = [0.0] * GROUPS
        for i in range(EVENTS):
            counts[self.group(i)] += self.sign(i) * self.is_labelled(i)
        assert len(set(map(abs, counts))) == GROUPS
        return sorted(counts)


def weights(directory):
    return sorted(x for values in leat.tensors(directory).values() for x in values)


def test_each_event_has_its_own_label(tmp_path, broker):
    stream = Stream(broker, "own")
    stream.publish_labels(0, EVENTS)
    job = write_job(tmp_path / "job.yaml", broker, "own")
    summary = leat.summary(leat.run("train", job, "--directory", tmp_path / "job", "--json"))
    assert weights(tmp_path / "job") == stream.weights()
    assert summary["events"] == stream.labelled()
    assert summary["unjoined"] == EVENTS - stream.labelled()
    assert summary["dead_letters"] == 0


def test_events_wait_for_their_labels_whatever_is_killed(tmp_path, broker):
    stream, rng = Stream(broker, "killed"), random.Random(1)
    half = EVENTS // 2
    stream.publish_labels(0, half)
    directory = tmp_path / "job"
    job_file = write_job(tmp_path / "job.yaml", broker, "killed")
    # The pause leaves something to resume.
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", EVENTS * 3 // 4, directory=tmp_path / "out") as job:
        job.directory = directory

        def trained():
            return job.status().get("events", 0)

        leat.wait_for(lambda: trained() >= half * 0.6, "the events whose labels are there")
        os.kill(rng.choice(job.pids("worker")), signal.SIGKILL)
        assert trained() <= stream.labelled(0, half), "the second half has no labels yet"
        stream.publish_labels(half, EVENTS)
        leat.wait_for(lambda: trained() >= half * 1.1 and job.status()["checkpoint"], "the events after them")
        job.kill()
    summary = leat.summary(leat.run("train", "--resume", directory, "--json"))
    assert weights(directory) == stream.weights()
    assert summary["events"] == stream.labelled()


def test_without_labels_events_wait_only_so_long(tmp_path, broker):
    Stream(broker, "idle")
    loss = "sigmoid_cross_entropy"
    for unjoined, events in [("negative", EVENTS), ("skip", 0)]:
        job = write_job(tmp_path / f"{unjoined}.yaml", broker, "idle", loss, ", classes: 2", idle_s=2, unjoined=unjoined)
        summary = leat.summary(leat.run("train", job, "--directory", tmp_path / unjoined, "--json"))
        assert summary["events"] == events and summary["unjoined"] == EVENTS
        moved = [x != 0 for x in weights(tmp_path / unjoined)]
        assert all(moved) if unjoined == "negative" else not any(moved)


def test_a_label_that_does_not_fit_makes_a_dead_letter(tmp_path, broker):
    broker.make_topic("unfit", 1)
    broker.make_topic("unfit-labels", 1)
    begin = int(time.time() * 1000) - DAY_MS
    publish(broker, "unfit", [(begin, f"k{i}", {"group": "g1"}) for i in range(100)], lambda _: 0)
    labels = [{"outcome": "much"} if i % 10 == 3 else {"outcome": LARGE} for i in range(100)]
    publish(broker, "unfit-labels", [(begin + 1, f"k{i}", label) for i, label in enumerate(labels)]
            + [(begin + 2 * WINDOW_MS, "end", {})], lambda _: 0)
    job = write_job(tmp_path / "job.yaml", broker, "unfit")
    job.write_text(job.read_text().replace("split_batches: 5", "split_batches: 5, max_dead_letter_rate: 0.5"))
    summary = leat.summary(leat.run("train", job, "--directory", tmp_path / "job", "--json"))
    assert summary["events"] == 90 and summary["dead_letters"] == 10 and summary["unjoined"] == 0
    found = [json.loads(line) for path in (tmp_path / "job/dead_letters").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert {letter["reason"] for letter in found} == {
        f"label at offset {i}: outcome: 'much' is not a number" for i in range(3, 100, 10)}


def test_topics_that_are_not_divided_alike_are_refused(tmp_path, broker):
    broker.make_topic("alone", 2)
    publish(broker, "alone", [(int(time.time() * 1000) - 1000, f"k{i}", {"group": "g1"}) for i in range(200)],
            lambda key: int(key[1:]) % 2)
    job = write_job(tmp_path / "job.yaml", broker, "alone")

    def refused(*parts):
        leat.refused(leat.run("train", job, "--directory", tmp_path / "job"), *parts)

    refused("'alone-labels'")
    broker.make_topic("alone-labels", 3)
    refused("'alone' has 2 partitions", "'alone-labels' 3")
    broker.make_topic("elsewhere", 2)
    publish(broker, "elsewhere", [(int(time.time() * 1000), f"k{i}", {"outcome": 1}) for i in range(200)],
            lambda key: (int(key[1:]) + 1) % 2)
    write_job(tmp_path / "job.yaml", broker, "alone", topic="elsewhere")
    refused("'alone' and Kafka topic 'elsewhere' are not partitioned alike", "200 of 200 keys")
