"""A Kafka broker for tests, which skip where it or its Python client cannot be had."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

import leat

TOOL = pathlib.Path(__file__).parent.parent.parent / "tools/kafka"


class Broker:
    """Apache Kafka with its topics in a folder. It can be killed and started again at the same address."""

    def __init__(self, folder, *properties, listen="127.0.0.1:0", before=()):
        """`before`: a command that enters the broker's host."""
        pytest.importorskip("confluent_kafka")
        self.folder, self.before = folder, before
        self.arguments = ["--listen", listen, *(word for line in properties for word in ("--property", line))]
        self.address = self.start()
        self.arguments[1] = self.address

    def _run(self, *arguments):
        done = subprocess.run([*self.before, TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400)
        if "could not be fetched" in done.stderr or "is missing" in done.stderr:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self):
        return self._run("start", "--directory", str(self.folder), *self.arguments)

    def kill(self):
        self._run("stop", "--kill", "--directory", str(self.folder))

    @contextlib.contextmanager
    def stopped(self):
        """It answers nobody meanwhile, and goes on."""
        pid = int((pathlib.Path(self.folder) / "pid").read_text().split()[0])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self):
        self._run("stop", "--directory", str(self.folder))

    close = stop

    def settings(self, **more):
        return {"bootstrap.servers": self.address, **more}

    def make_topic(self, name, partitions, **config):
        from confluent_kafka.admin import AdminClient, NewTopic
        admin = AdminClient(self.settings())  # alive until the answer
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)

    def delete_topic(self, name):
        from confluent_kafka.admin import AdminClient
        admin = AdminClient(self.settings())
        admin.delete_topics([name])[name].result(60)
        leat.wait_for(lambda: name not in admin.list_topics(timeout=60).topics, "the end of the topic")

    def read(self, topic, count):
        """The first records of a topic with one partition."""
        from confluent_kafka import Consumer, TopicPartition
        consumer = Consumer(self.settings(**{"group.id": "reader"}))
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return consumer.consume(count, timeout=60)
        finally:
            consumer.close()

    def read_all(self, topic):
        """All committed records of a topic."""
        from confluent_kafka import Consumer, TopicPartition
        consumer = Consumer(self.settings(**{"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True,
                                             "auto.offset.reset": "earliest"}))
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
            ended, found, until = 0, [], time.monotonic() + 60
            while ended < len(partitions):
                assert time.monotonic() < until, f"{len(found)} records of {topic}, and no end"
                for message in consumer.consume(10_000, timeout=0.2):
                    if message.error() is None:
                        found.append(message)
                    else:
                        assert message.error().code() == -191, message.error()  # the end of a partition
                        ended += 1
            return found
        finally:
            consumer.close()

    def add_partitions(self, name, total):
        from confluent_kafka.admin import AdminClient, NewPartitions
        admin = AdminClient(self.settings())
        admin.create_partitions([NewPartitions(name, total)])[name].result(60)

    def publish(self, topic, partition, records, commit=None, **attributes):
        """Publishes records; with `commit` as a transaction that is committed, or aborted."""
        from confluent_kafka import Producer
        # In order, although the broker may just have made the topic and refuse some at first.
        more = {"enable.idempotence": True} if commit is None else {"transactional.id": f"{topic}-{partition}"}
        producer = Producer(self.settings(**more))
        if commit is not None:
            producer.init_transactions(60)
            producer.begin_transaction()
        for record in records:
            producer.produce(topic, record, partition=partition, **attributes)
        producer.flush(60)
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(60)

    def expire(self, topic, partition):
        """Lets retention remove all records of a topic, whose broker looks for them often."""
        from confluent_kafka import Consumer, TopicPartition
        from confluent_kafka.admin import AdminClient, ConfigResource
        admin = AdminClient(self.settings())

        def set_retention(ms):
            resource = ConfigResource("topic", topic, set_config={"retention.ms": str(ms)})
            admin.alter_configs([resource])[resource].result(60)

        set_retention(1)
        consumer = Consumer(self.settings(**{"group.id": "watermarks"}))
        try:
            def gone():
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 60)
                return low == high
            leat.wait_for(gone, "the end of the records")
        finally:
            consumer.close()
        set_retention(3_600_000)

    def committed(self, group, topic, partition):
        return self.all_committed(group, topic, [partition])[0]

    def all_committed(self, group, topic, partitions):
        """By partition; negative: none."""
        from confluent_kafka import Consumer, TopicPartition
        consumer = Consumer(self.settings(**{"group.id": group}))
        try:
            return [found.offset for found in consumer.committed([TopicPartition(topic, p) for p in partitions], 60)]
        finally:
            consumer.close()


def predictions(broker, topic):
    """The records of a topic of predictions, by partition and offset of the event; each is there once."""
    found = {}
    for message in broker.read_all(topic):
        record = json.loads(message.value())
        place = record["partition"], record["offset"]
        assert place not in found, f"{place} is there twice: {record}, {found[place]}"
        found[place] = record | {"key": message.key()}
    return found


def counting(path, broker, topic="events", settings=None, **changes):
    """The job that counts, with its events in a topic of Kafka. `settings`: of librdkafka, besides the broker's."""
    kafka = json.dumps(broker.settings(**(settings or {})))
    text = (leat.EXAMPLES / "counter.yaml").read_text()
    return leat.write_job(path, text, **{"topic: events": f"topic: {topic}\n  kafka: {kafka}", **changes})


# Changes of the counting job, after which an event has one score: the sum of its eight parameters, each a slice.
ONE_SCORE = {"    - bias: {units: 16384}\n":
             "    - bias: {units: 1}\n" + "    - residual: {layers: [bias: {units: 1}]}\n" * 7}


def reading(path, broker, topic, *stream, settings=None, **changes):
    """The same for a topic that bots do not write, with these lines in its `stream:`."""
    return counting(path, broker, topic, settings, **{
        "  partitions: 4\n": "".join(f"  {line}\n" for line in stream), "  bots: {events: 1000000, customers: 1000}\n": "",
        **changes})
