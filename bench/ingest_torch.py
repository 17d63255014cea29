#!/usr/bin/env python3
"""The baseline of `bench ingest`: a training loop with orjson and PyTorch, in one process on one core.

    ingest_torch.py EVENTS

EVENTS is a JSON-lines file with the fields f0 ... f29 and y. Prints the events per second, from the first line to the
last update, and the versions of the libraries. The libraries are loaded and the model is warm before the measurement.
"""

import itertools
import os
import sys
import time
from operator import itemgetter

import orjson
import torch
from torch import nn
from torch.nn import functional as F

BATCH = 128
FEATURES = 30

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)


def step(features, labels):
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(features), labels).backward()
    optimizer.step()


def main():
    values = itemgetter(*(f"f{i}" for i in range(FEATURES)), "y")
    for _ in range(20):
        step(torch.zeros(BATCH, FEATURES), torch.zeros(BATCH, dtype=torch.int64))
    events = 0
    with open(sys.argv[1], "rb") as lines:
        begin = time.perf_counter()
        while batch := list(itertools.islice(lines, BATCH)):
            rows = torch.tensor([values(orjson.loads(line)) for line in batch])
            step(rows[:, :FEATURES], rows[:, FEATURES].long())
            events += len(batch)
        rate = events / (time.perf_counter() - begin)
    print(rate, f"orjson {orjson.__version__} and PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
