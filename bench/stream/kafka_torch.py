#!/usr/bin/env python3
"""The baseline of `bench kafka`: a training loop with confluent-kafka, orjson and PyTorch, in one process.

    kafka_torch.py ADDRESS TOPIC PARTITIONS EVENTS THREADS

TOPIC has payments of the demo's bots. Trains the demo's network on the first EVENTS of them, and prints the events per
second, from the first message to the last update, and the versions of the libraries. The libraries are loaded and the
model is warm before the measurement.
"""

import itertools
import sys
import time
from operator import itemgetter

import confluent_kafka
import numpy as np
import orjson
import torch
from confluent_kafka import Consumer, TopicPartition
from torch import nn
from torch.nn import functional as F

BATCH = 128
BATCHES = 32  # read and decoded at a time, as many as in a split of the demo
KINDS = "grocery restaurant fuel fashion electronics travel games pharmacy jewellery transfer".split()
COUNTRIES = "ES MX US FR BR DE IN JP".split()
CHANNELS = "contactless online chip phone".split()
# The first four are taken as log(1 + x), also for the means and scales.
NUMBERS = ["amount", "times_usual", "since_last", "distance_km", "hours_off", "new_device"]
MEANS = np.array([3.5, 0.8, 5.6, 2.5, 2.7, 0.2], np.float32)
SCALES = 1 / np.array([1, 0.43, 1.9, 2, 2.6, 0.4], np.float32)
FEATURES = len(NUMBERS) + 2 + len(KINDS) + len(COUNTRIES) + len(CHANNELS)

numbers = itemgetter(*NUMBERS, "hour", "fraud")
categories = [(itemgetter(name), {value: i for i, value in enumerate(values)})
              for name, values in [("kind", KINDS), ("country", COUNTRIES), ("channel", CHANNELS)]]


def decode(messages):
    """Features and labels of some messages."""
    payments = orjson.loads(b"[" + b",".join([message.value() for message in messages]) + b"]")
    count, width = len(payments), len(NUMBERS) + 2
    values = np.fromiter(itertools.chain.from_iterable(map(numbers, payments)), np.float32, count * width)
    values = values.reshape(count, width)
    rows = np.zeros((count, FEATURES), np.float32)
    np.log1p(values[:, :4], out=rows[:, :4])
    rows[:, 4:6] = values[:, 4:6]
    rows[:, :6] = (rows[:, :6] - MEANS) * SCALES
    angles = values[:, 6] * np.float32(2 * np.pi / 24)
    np.sin(angles, out=rows[:, 6])
    np.cos(angles, out=rows[:, 7])
    column, every = 8, np.arange(count)
    for name, places in categories:
        rows[every, column + np.fromiter(map(places.__getitem__, map(name, payments)), np.intp, count)] = 1
        column += len(places)
    return torch.from_numpy(rows), torch.from_numpy(values[:, 7].astype(np.int64))


def main():
    address, topic, partitions, events, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0015, fused=True)

    def step(features, labels):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(features), labels).backward()
        optimizer.step()

    for _ in range(50):
        step(torch.zeros(BATCH, FEATURES), torch.zeros(BATCH, dtype=torch.int64))
    consumer = Consumer({"bootstrap.servers": address, "group.id": "loop", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    trained, begin = 0, None
    while trained < events:
        messages = consumer.consume(num_messages=min(BATCH * BATCHES, events - trained), timeout=30)
        begin = begin or time.perf_counter()
        if not messages or any(message.error() for message in messages):
            sys.exit(f"no message, or an error, after {trained} events")
        features, labels = decode(messages)
        for x, y in zip(features.split(BATCH), labels.split(BATCH)):
            step(x, y)
        trained += len(messages)
    rate = trained / (time.perf_counter() - begin)
    consumer.close()
    print(rate, f"confluent-kafka {confluent_kafka.__version__}, orjson {orjson.__version__} "
                f"and PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
