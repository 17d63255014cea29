#!/usr/bin/env python3
"""Generates networks.json: ten training losses and the first gradients of small networks, computed by PyTorch.

    OMP_NUM_THREADS=1 /usr/bin/python3 tests/goldens/networks.py > tests/goldens/networks.json

Parameters and batches are not stored: both sides compute them by `fill`, a pure function of an index. Each network is
described by Leat's `model:` section and by PyTorch calls on the same variables, in Leat's layouts.
"""

import json
import sys

import numpy as np
import torch
from torch.nn import functional as F

STEPS = 10
BATCH_SALT = 1000
# Not trained, and not used in training.
STATISTICS = {"batch_norm1/mean", "batch_norm1/variance"}


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
                t.grad = torch.zeros_like(t)
            loss = F.cross_entropy(self.apply(v, x), labels)
            loss.backward()
            losses.append(loss.item())
            if step == 0:
                for name, t in v.items():
                    if name in STATISTICS:
                        continue
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


def embedded(v, x):
    return v["embedding1/table"][x.long()]


def recurrent(cell, v, name, x, **options):
    """PyTorch's layer on Leat's variables. Leat stores gates in columns, PyTorch in rows."""
    units = v[name + "/state_weight"].shape[0]
    weights = [v[name + "/input_weight"].t(), v[name + "/state_weight"].t(), v[name + "/bias"],
               torch.zeros_like(v[name + "/bias"])]
    if name + "/new_bias" in v:
        weights[3] = torch.cat([torch.zeros(2 * units), v[name + "/new_bias"]])
    start = torch.zeros(1, x.shape[0], units)
    start = (start, start) if cell is torch._VF.lstm else start
    return cell(x, start, weights, True, 1, 0.0, True, False, True)


def lstm(v, x):
    return dense(v, "dense1", recurrent(torch._VF.lstm, v, "lstm1", embedded(v, x))[0]).flatten(0, 1)


def gru(v, x):
    return dense(v, "dense1", recurrent(torch._VF.gru, v, "gru1", embedded(v, x))[0][:, -1])


def normed(v, name, x):
    return F.layer_norm(x, x.shape[-1:], v[name + "/scale"], v[name + "/offset"])


def attend(v, name, x, heads):
    batch, tokens, units = x.shape
    q, k, w = dense(v, name + "/qkv", x).view(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
    mask = torch.full((tokens, tokens), float("-inf")).triu(1)
    p = (q @ k.transpose(-1, -2) / (units // heads) ** 0.5 + mask).softmax(-1)
    return dense(v, name + "/out", (p @ w).transpose(1, 2).reshape(batch, tokens, units))


def transformer(v, x):
    x = embedded(v, x) + v["position1/table"]
    x = x + attend(v, "residual1/attention1", normed(v, "residual1/layer_norm1", x), 2)
    up = F.gelu(dense(v, "residual2/dense1", normed(v, "residual2/layer_norm1", x)))
    x = x + dense(v, "residual2/dense2", up)
    return dense(v, "dense1", normed(v, "layer_norm1", x)).flatten(0, 1)


def batch_normed(v, x):
    x = F.conv2d(x.view(-1, 9, 9, 2).permute(0, 3, 1, 2), v["conv2d1/weight"], v["conv2d1/bias"], stride=2, padding=1)
    x = F.relu(F.batch_norm(x, None, None, v["batch_norm1/scale"], v["batch_norm1/offset"], True, 0.1, 1e-5))
    x = F.conv2d(x, v["conv2d2/weight"], v["conv2d2/bias"], padding=1, groups=2)
    return dense(v, "dense1", F.avg_pool2d(F.relu(x), 5).flatten(1))


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
    Network("lstm", """
inputs: 12
layers:
  - embedding: {size: 11, units: 6}
  - lstm: {units: 10}
  - dense: {units: 11}
loss: softmax_cross_entropy
""", 5, 12, 12, 11, 11, 0.5,
            [("embedding1/table", [11, 6], 1, 0), ("lstm1/input_weight", [6, 40], 0.5, 0),
             ("lstm1/state_weight", [10, 40], 0.5, 0), ("lstm1/bias", [40], 0.5, 0),
             ("dense1/weight", [10, 11], 0.5, 0), ("dense1/bias", [11], 0.1, 0)], lstm),
    Network("gru", """
inputs: 9
layers:
  - embedding: {size: 7, units: 5}
  - gru: {units: 8, return: last}
  - dense: {units: 3}
loss: softmax_cross_entropy
""", 6, 9, 1, 3, 7, 0.5,
            [("embedding1/table", [7, 5], 1, 0), ("gru1/input_weight", [5, 24], 0.5, 0),
             ("gru1/state_weight", [8, 24], 0.5, 0), ("gru1/bias", [24], 0.5, 0), ("gru1/new_bias", [8], 0.5, 0),
             ("dense1/weight", [8, 3], 0.5, 0), ("dense1/bias", [3], 0.1, 0)], gru),
    Network("attention", """
inputs: 10
layers:
  - embedding: {size: 13, units: 16}
  - position
  - residual:
      layers:
        - layer_norm
        - attention: {heads: 2, causal: true}
  - residual:
      layers:
        - layer_norm
        - dense: {units: 32, activation: gelu}
        - dense: {units: 16}
  - layer_norm
  - dense: {units: 13}
loss: softmax_cross_entropy
""", 4, 10, 10, 13, 13, 0.2,
            [("embedding1/table", [13, 16], 1, 0), ("position1/table", [10, 16], 0.5, 0),
             ("residual1/layer_norm1/scale", [16], 0.2, 1), ("residual1/layer_norm1/offset", [16], 0.2, 0),
             ("residual1/attention1/qkv/weight", [16, 48], 0.4, 0), ("residual1/attention1/qkv/bias", [48], 0.1, 0),
             ("residual1/attention1/out/weight", [16, 16], 0.4, 0), ("residual1/attention1/out/bias", [16], 0.1, 0),
             ("residual2/layer_norm1/scale", [16], 0.2, 1), ("residual2/layer_norm1/offset", [16], 0.2, 0),
             ("residual2/dense1/weight", [16, 32], 0.4, 0), ("residual2/dense1/bias", [32], 0.1, 0),
             ("residual2/dense2/weight", [32, 16], 0.3, 0), ("residual2/dense2/bias", [16], 0.1, 0),
             ("layer_norm1/scale", [16], 0.2, 1), ("layer_norm1/offset", [16], 0.2, 0),
             ("dense1/weight", [16, 13], 0.4, 0), ("dense1/bias", [13], 0.1, 0)], transformer),
    Network("batch_norm", """
inputs: [9, 9, 2]
layers:
  - conv2d: {filters: 6, kernel: 3, strides: 2, padding: 1}
  - batch_norm
  - relu
  - conv2d: {filters: 8, kernel: 3, padding: same, groups: 2, activation: relu}
  - global_avg_pool
  - dense: {units: 4}
loss: softmax_cross_entropy
""", 7, 162, 1, 4, 0, 0.3,
            [("conv2d1/weight", [6, 2, 3, 3], 0.4, 0), ("conv2d1/bias", [6], 0.1, 0),
             ("batch_norm1/scale", [6], 0.2, 1), ("batch_norm1/offset", [6], 0.2, 0),
             ("batch_norm1/mean", [6], 0.2, 0), ("batch_norm1/variance", [6], 0.2, 1),
             ("conv2d2/weight", [8, 3, 3, 3], 0.3, 0), ("conv2d2/bias", [8], 0.1, 0),
             ("dense1/weight", [8, 4], 0.6, 0), ("dense1/bias", [4], 0.1, 0)], batch_normed),
]


def main():
    torch.set_num_threads(1)
    json.dump([n.run() for n in NETWORKS], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
