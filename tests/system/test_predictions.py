"""Predictions of a job: the score of each event is in a topic of a real Kafka broker, once."""

# folders: stream run/roles

import json
import os
import pathlib
import signal
import struct

import numpy as np
import pytest

import leat
from kafka import ONE_SCORE, Broker, counting, predictions
from test_kafka import values
from test_members import Roles


@pytest.fixture(scope="module", name="broker")
def one_broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


PAYMENTS = """name: {name}
stream:
  topic: {topic}
  bounded: true
  kafka: {kafka}
schema:
  format: json
  fields:
    amount: {{type: number, mean: 50, std: 30}}
    fraud: {{type: number, classes: 2, role: label}}
model:
  layers:
    - dense: {{units: 8, activation: relu}}
{layers}    - dense: {{units: 2}}
  loss: softmax_cross_entropy
optimizer: {{type: adam, learning_rate: 0.01}}
strategy: {strategy}
train: {{batch_size: 32, split_batches: 8}}
predictions: {{topic: {topic}-scores}}
"""


def payments(path, broker, topic, strategy="async", layers="", name=None):
    path.write_text(PAYMENTS.format(name=name or topic, topic=topic, kafka=json.dumps(broker.settings()), strategy=strategy,
                                    layers=layers))
    return path


def counted(score):
    """The bin in which a job counts a score: exponent and seven bits of the fraction of the score or, above 0.5, of 1 - score."""
    def tail(value):
        return max(struct.unpack("<I", struct.pack("<f", value))[0] >> 16, (127 - 16 << 7) - 1)

    return tail(score) if score < 0.5 else 2 * tail(0.5) + 1 - tail(np.float32(1) - np.float32(score))


def auc(scores, labels):
    """The share of pairs of both classes in which the positive one has the higher score."""
    ranked = sorted(zip(scores, labels))
    rank, positive_ranks, at = 0.0, 0.0, 0
    while at < len(ranked):
        same = at
        while same < len(ranked) and ranked[same][0] == ranked[at][0]:
            same += 1
        rank = (at + same + 1) / 2
        positive_ranks += rank * sum(label for _, label in ranked[at:same])
        at = same
    positives = sum(labels)
    return (positive_ranks - positives * (positives + 1) / 2) / (positives * (len(labels) - positives))


@pytest.mark.parametrize("strategy", ["async", "sync", "downpour", "allreduce"])
def test_the_scores_are_those_that_the_job_counts(tmp_path, broker, strategy):
    topic, count = f"payments-{strategy}", 4000
    broker.make_topic(topic, 2)
    for partition in range(2):
        rows = []
        for i in range(count // 2):
            amount = (i * 37 + partition * 11) % 101
            rows.append({"amount": amount, "fraud": int(amount + i * 13 % 40 > 70)})
        broker.publish(topic, partition, [json.dumps(row) for row in rows], key=f"of partition {partition}")
    job = payments(tmp_path / "job.yaml", broker, topic, strategy)
    summary = leat.summary(leat.run("train", job, "--directory", tmp_path / "job", "--json"))
    labels = {(m.partition(), m.offset()): json.loads(m.value())["fraud"] for m in broker.read_all(topic)}
    found = predictions(broker, topic + "-scores")
    assert len(found) == count and found.keys() == labels.keys()
    assert summary["predictions"] == {"published": count, "behind": 0, "rescored": 0}, summary["predictions"]
    assert all(record["key"] == f"of partition {partition}".encode() for (partition, _), record in found.items())
    measured = auc([counted(found[place]["score"]) for place in labels], list(labels.values()))
    # A lane that changes hands is scored by both workers. Each of these events can move the figure a little.
    twice = summary["since_start"]["events"] / count - 1
    again = {key: summary.get(key) for key in ["late", "regranted_leases", "overdue_leases", "evictions", "steps"]}
    assert twice == 0 or twice > 0 and any(again[key] for key in list(again)[:4]), f"{twice:+} were scored: {again}"
    assert measured > 0.55 and measured == pytest.approx(summary["auc"], abs=1e-9 + 4 * twice), f"other scores: {again}"
    assert broker.committed(topic + "-predictions", topic, 0) == count // 2


def with_two_feeds(roles, job, directory):
    """Starts the roles of a job: the names of its feeds, and a function that returns its status."""
    where = roles.coordinator(job, "--directory", directory, "--workers", 2, "--ps", 1)
    feeds = [roles.start("feed", "--coordinator", where, "--listen", "127.0.0.1:0") for _ in range(2)]
    for role in ["ps", "worker", "worker", "bots"]:
        roles.start(role, "--coordinator", where)

    def status():
        done = leat.run("status", "--coordinator", where, "--json", env={"LEAT_TOKEN": "known to all"})
        return json.loads(done.stdout) if done.returncode == 0 else {}

    return feeds, status


def test_a_killed_feed_loses_no_prediction(tmp_path, broker):
    """Scores that a feed takes along are made again."""
    events = 30_000
    job = counting(tmp_path / "job.yaml", broker, "lost", **{
        "name: counter": "name: lost", "events: 1000000": f"events: {events}", "partitions: 4": "partitions: 2",
        "interval_s: 5": "interval_s: 1}\ndebug: {step_ms: 80}\npredictions: {topic: lost-scores", **ONE_SCORE})
    with Roles(tmp_path) as roles:
        feeds, status = with_two_feeds(roles, job, tmp_path / "job")

        def come_to(goal):
            leat.wait_for(lambda: status().get("predictions", {}).get("published", 0) >= goal, "predictions")

        # Workers keep the scores that a feed has not taken.
        come_to(events // 6)
        os.kill(roles.processes[feeds[0]].pid, signal.SIGSTOP)
        enough = status()["events"] + 1000
        leat.wait_for(lambda: status().get("events", 0) >= enough, "progress")
        roles.kill(feeds[0])
        # While the broker takes nothing, workers train what they have read, and the scores wait in the feed.
        come_to(events // 3)
        with broker.stopped():
            behind = status()["predictions"]["behind"]

            def waiting():
                """4000 scores more, or all that there will be."""
                now = status().get("predictions")
                return now and now["behind"] >= min(behind + 4000, events - now["published"])

            leat.wait_for(waiting, "scores that wait")
            roles.kill(feeds[1])
        roles.wait()
    assert values(tmp_path / "job") == {float(events)}
    summary = json.loads((tmp_path / "job/summary.json").read_text())
    found = predictions(broker, "lost-scores")
    assert len(found) == events
    rescored = sum("rescored" in record for record in found.values())
    assert 0 < rescored < events / 2, rescored
    assert summary["predictions"]["rescored"] <= rescored, "what a lost feed has published is not reported"


def test_a_stopped_feed_that_goes_on_publishes_nothing_twice(tmp_path, broker):
    """A feed stops in the middle of its transactions, the other one takes over its groups, and it goes on."""
    events, partitions = 30_000, range(6)
    job = counting(tmp_path / "job.yaml", broker, "stopped", **{
        "name: counter": "name: stopped", "events: 1000000": f"events: {events}", "partitions: 4": f"partitions: {len(partitions)}",
        "interval_s: 5": "interval_s: 1}\ndebug: {step_ms: 80}\npredictions: {topic: stopped-scores", **ONE_SCORE})
    with Roles(tmp_path) as roles:
        feeds, status = with_two_feeds(roles, job, tmp_path / "job")

        def committed():
            return broker.all_committed("stopped-predictions", "stopped", partitions)

        leat.wait_for(lambda: status().get("predictions", {}).get("published", 0) >= events // 10, "predictions")
        with broker.stopped():  # the feed then waits for it in its transactions
            trained = status()["events"]
            leat.wait_for(lambda: status().get("events", 0) >= trained + 1000, "scores that wait")
            os.kill(roles.processes[feeds[0]].pid, signal.SIGSTOP)
        before = committed()
        leat.wait_for(lambda: all(now > then for now, then in zip(committed(), before)), "progress of all partitions")
        os.kill(roles.processes[feeds[0]].pid, signal.SIGCONT)
        assert status()["predictions"]["published"] < events, "the feed is back before the end"
        roles.wait()
        joined = roles.said(feeds[0]).count(" joined as ")
    assert joined == 2, "it was evicted, and has come back"
    assert values(tmp_path / "job") == {float(events)}
    found = predictions(broker, "stopped-scores")
    assert len(found) == events
    assert {partition for partition, _ in found} == set(partitions)


def test_threads_do_not_follow_the_partitions(tmp_path, broker):
    topic, partitions = "wide", 40
    broker.make_topic(topic, partitions)
    for partition in range(partitions):
        broker.publish(topic, partition, [json.dumps({"amount": i, "fraud": i % 2}) for i in range(5)])
    job = payments(tmp_path / "job.yaml", broker, topic)
    job.write_text(job.read_text().replace("  bounded: true\n", ""))
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", tmp_path / "job", "--workers", 1, "--ps", 1)
        for role in ["ps", "worker"]:
            roles.start(role, "--coordinator", where)

        def all_published():
            done = leat.run("status", "--coordinator", where, "--json", env={"LEAT_TOKEN": "known to all"})
            return done.returncode == 0 and json.loads(done.stdout).get("predictions", {}).get("published") == 5 * partitions

        leat.wait_for(all_published, "all predictions")
        tasks = f"/proc/{roles.processes['coordinator-0'].pid}/task"
        names = [pathlib.Path(tasks, task, "comm").read_text().strip() for task in os.listdir(tasks)]
        # 8 producers with four threads each, for one broker, and the clients that read the stream.
        assert sum(name.startswith("rdk:") for name in names) <= 8 * 4 + 16, sorted(names)
    assert len(predictions(broker, topic + "-scores")) == 5 * partitions


def test_dropout_does_not_move_the_scores(tmp_path, broker):
    """With a learning rate of 0 all scores are those of the first model, without dropout: equal for equal amounts, but for
    the rounding of kernels that treat the last rows of a batch apart."""
    topic = "steady"
    broker.make_topic(topic, 1)
    broker.publish(topic, 0, [json.dumps({"amount": i % 10, "fraud": i % 2}) for i in range(1000)])
    job = payments(tmp_path / "job.yaml", broker, topic, layers="    - dropout: {rate: 0.5}\n")
    job.write_text(job.read_text().replace("{type: adam, learning_rate: 0.01}", "{type: sgd, learning_rate: 0}"))
    leat.summary(leat.run("train", job, "--directory", tmp_path / "job", "--json"))
    found = predictions(broker, topic + "-scores")
    scores = {}
    for (_, offset), record in found.items():
        scores.setdefault(offset % 10, set()).add(record["score"])
    assert len(found) == 1000 and all(max(same) - min(same) <= 1e-6 for same in scores.values()), scores
    assert max(map(max, scores.values())) - min(map(min, scores.values())) > 1e-3


def test_a_job_of_the_same_name_does_not_go_on_with_anothers_predictions(tmp_path, broker):
    topic = "twice"
    broker.make_topic(topic, 1)
    broker.publish(topic, 0, [json.dumps({"amount": i, "fraud": i % 2}) for i in range(100)])
    job = payments(tmp_path / "job.yaml", broker, topic)
    leat.summary(leat.run("train", job, "--directory", tmp_path / "first", "--json"))
    again = leat.run("train", job, "--directory", tmp_path / "second", "--json")
    assert again.returncode != 0
    assert "a former job of this name has published them" in again.stderr, again.stderr[-2000:]
    assert len(predictions(broker, topic + "-scores")) == 100
    renamed = payments(tmp_path / "renamed.yaml", broker, topic, name="renamed")
    leat.summary(leat.run("train", renamed, "--directory", tmp_path / "third", "--json"))
