#!/usr/bin/env python3
"""Makes networks.json: ten training losses and the first gradients of small networks, as PyTorch computes them.

    OMP_NUM_THREADS=1 /usr/bin/python3 tests/goldens/networks.py > tests/goldens/networks.json

Parameters and batches are not stored: both sides fill them by `fill`, a pure function of an index. Each network is
described once as Leat's `model:` section and once as PyTorch calls on the very same variables, in Leat's layouts.
"""

import json
import sys

import numpy as np
import torch
from torch.nn import functional as F

STEPS = 10
BATCH_SALT = 1000


def fill(salt, count):
    """count floats in [-1, 1): exact in f32, the same in every language."""
    i = np.arange(count, dtype=np.uint64)
    h = (i * np.uint64(2654435761) + np.uint64(salt) * np.uint64(40503) + np.uint64(12345)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(13)
    return ((h >> np.uint64(8)).astype(np.float64) / 2.0**23 - 1.0).astype(np.float32)


class Network:
    """`variables`: (name, shape, scale, offset). `apply(v, x)`: logits [rows, classes] from variables by name."""

    def __init__(self, name, model, batch, features, labels, classes, ids, rate, variables, apply):
        self.__dict__.update(locals())

    def tensors(self):
        made = {}
        for i, (name, shape, scale, offset) in enumerate(self.variables):
            values = fill(i, int(np.prod(shape))) * np.float32(scale) + np.float32(offset)
            made[name] = torch.tensor(values.reshape(shape), requires_grad=True)
        return made

    def drawn_batch(self):
        x = fill(BATCH_SALT, self.batch * self.features)
        if self.ids:
            x = np.floor((x + 1) / 2 * self.ids)
        labels = np.floor((fill(BATCH_SALT + 1, self.batch * self.labels) + 1) / 2 * self.classes)
        return torch.tensor(x.reshape(self.batch, self.features)), torch.tensor(labels.astype(np.int64))

    def run(self):
        v = self.tensors()
        losses, gradients = [], []
        x, labels = self.drawn_batch()
        for step in range(STEPS):
            for t in v.values():
                t.grad = None
            loss = F.cross_entropy(self.apply(v, x), labels)
            loss.backward()
            losses.append(loss.item())
            if step == 0:
                for name, t in v.items():
                    g = t.grad.flatten()
                    at = sorted({0, g.numel() // 3, g.numel() - 1})
                    gradients.append({"name": name, "norm": g.double().norm().item(), "at": at,
                                      "values": [g[i].item() for i in at]})
            with torch.no_grad():
                for t in v.values():
                    t -= self.rate * t.grad
        return {"name": self.name, "model": self.model, "batch": self.batch, "labels": self.labels, "ids": self.ids,
                "classes": self.classes, "rate": self.rate,
                "variables": [dict(zip(("name", "shape", "scale", "offset"), s)) for s in self.variables],
                "losses": losses, "gradients": gradients}


def dense(v, name, x):
    return x @ v[name + "/weight"] + v[name + "/bias"]


def mlp(v, x):
    return dense(v, "dense3", torch.tanh(dense(v, "dense2", F.relu(dense(v, "dense1", x)))))


def conv(v, name, x):
    return F.max_pool2d(F.relu(F.conv2d(x, v[name + "/weight"], v[name + "/bias"], padding=2)), 2)


def lenet(v, x):
    x = conv(v, "conv2d2", conv(v, "conv2d1", x.view(-1, 1, 28, 28)))
    x = x.permute(0, 2, 3, 1).flatten(1)  # images are height, width, channels
    return dense(v, "dense2", F.relu(dense(v, "dense1", x)))


NETWORKS = [
    Network("mlp", """
inputs: 20
layers:
  - dense: {units: 32, activation: relu}
  - dense: {units: 16, activation: tanh}
  - dense: {units: 5}
loss: softmax_cross_entropy
""", 16, 20, 1, 5, 0, 0.1,
            [("dense1/weight", [20, 32], 0.4, 0), ("dense1/bias", [32], 0.1, 0),
             ("dense2/weight", [32, 16], 0.3, 0), ("dense2/bias", [16], 0.1, 0),
             ("dense3/weight", [16, 5], 0.5, 0), ("dense3/bias", [5], 0.1, 0)], mlp),
    Network("lenet", """
inputs: [28, 28, 1]
layers:
  - conv2d: {filters: 8, kernel: 5, padding: same, activation: relu}
  - max_pool: {size: 2}
  - conv2d: {filters: 16, kernel: 5, padding: same, activation: relu}
  - max_pool: {size: 2}
  - flatten
  - dense: {units: 32, activation: relu}
  - dense: {units: 10}
loss: softmax_cross_entropy
""", 8, 784, 1, 10, 0, 0.02,
            [("conv2d1/weight", [8, 1, 5, 5], 0.3, 0), ("conv2d1/bias", [8], 0.1, 0),
             ("conv2d2/weight", [16, 8, 5, 5], 0.1, 0), ("conv2d2/bias", [16], 0.1, 0),
             ("dense1/weight", [784, 32], 0.05, 0), ("dense1/bias", [32], 0.1, 0),
             ("dense2/weight", [32, 10], 0.3, 0), ("dense2/bias", [10], 0.1, 0)], lenet),
]


def main():
    torch.set_num_threads(1)
    json.dump([n.run() for n in NETWORKS], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
