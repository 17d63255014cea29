#!/usr/bin/env python3
"""PyTorch's side of `bench engine`: the same training steps, one thread.

Reads lines `CASE SECONDS` and answers each with the median processor seconds of a step, measured for about that
long. A case is built when it is first asked for. Ends with its input.
"""

import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(1)


def dense(*sizes):
    layers = []
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(inputs, outputs))
        if i + 2 < len(sizes):
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(65, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 65)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0]).flatten(0, 1)


class Transformer(nn.Module):
    """Token and position embedding, one pre-norm block, head."""

    def __init__(self, units=128, heads=4, tokens=64, classes=65):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(classes, units)
        self.position = nn.Parameter(torch.zeros(tokens, units))
        self.norm1, self.norm2 = nn.LayerNorm(units), nn.LayerNorm(units)
        self.qkv, self.out = nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.up, self.down = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)
        self.norm3, self.head = nn.LayerNorm(units), nn.Linear(units, classes)
        self.register_buffer("mask", torch.full((tokens, tokens), float("-inf")).triu(1))

    def attend(self, x):
        batch, tokens, units = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.baddbmm(
            self.mask.expand(batch * self.heads, tokens, tokens), q.reshape(-1, tokens, units // self.heads),
            k.reshape(-1, tokens, units // self.heads).transpose(1, 2), alpha=(units // self.heads) ** -0.5)
        y = torch.bmm(scores.softmax(-1), v.reshape(-1, tokens, units // self.heads))
        return self.out(y.view(batch, self.heads, tokens, -1).transpose(1, 2).reshape(batch, tokens, units))

    def forward(self, ids):
        x = self.embedding(ids) + self.position
        x = x + self.attend(self.norm1(x))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(self.norm3(x)).flatten(0, 1)


def features(*shape):
    return torch.randn(*shape)


def ids(batch, tokens):
    return torch.randint(65, (batch, tokens))


# model, inputs, number of labels, classes
CASES = {
    "mlp": lambda: (dense(784, 512, 512, 10), features(128, 784), 128, 10),
    "tabular": lambda: (dense(30, 64, 32, 2), features(128, 30), 128, 2),
    "lenet": lambda: (lenet(), features(64, 1, 28, 28), 64, 10),
    "lstm": lambda: (Lstm(), ids(32, 50), 32 * 50, 65),
    "transformer": lambda: (Transformer(), ids(16, 64), 16 * 64, 65),
}


def make_step(case):
    model, x, count, classes = CASES[case]()
    labels = torch.randint(classes, (count,))
    # One call for all parameters: PyTorch's fastest update.
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()

    for _ in range(5):
        step()
    return step


def measure(step, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.thread_time()
        step()
        times.append(time.thread_time() - begin)
    return sorted(times)[len(times) // 2]


def main():
    steps = {}
    print("torch", torch.__version__, flush=True)
    for line in sys.stdin:
        case, seconds = line.split()
        if case not in steps:
            steps[case] = make_step(case)
        print(measure(steps[case], float(seconds)), flush=True)


if __name__ == "__main__":
    main()
