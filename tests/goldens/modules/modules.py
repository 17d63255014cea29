"""Modules of PyTorch, and the batches that they are trained on."""

import numpy as np
import torch
from torch import nn

BATCH, CLASSES, STEPS = 16, 4, 100
RATES = {"mlp": 0.05, "resnet": 0.05, "separable": 0.1, "lstm": 0.5, "transformer": 0.05, "parts": 0.1}
# The shape of a row of each module.
INPUTS = {"mlp": (30,), "resnet": (3, 12, 12), "separable": (3, 12, 12), "lstm": (10, 6), "transformer": (8, 12), "parts": (12,)}


def numbers(salt, count):
    """count floats in [-1, 1): the same in every language."""
    i = np.arange(count, dtype=np.uint64)
    h = (i * np.uint64(2654435761) + np.uint64(salt) * np.uint64(40503) + np.uint64(12345)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(13)
    return ((h >> np.uint64(8)).astype(np.float64) / 2.0**23 - 1.0).astype(np.float32)


def batch(step, shape):
    """Rows as the module takes them, and their classes, which follow from a few sums."""
    x = numbers(1000 + step % 8, BATCH * int(np.prod(shape))).reshape(BATCH, *shape)
    flat = x.reshape(BATCH, -1)
    labels = (flat[:, ::3].sum(axis=1) > 0).astype(np.int64) * 2 + (flat[:, 1::3].sum(axis=1) > 0)
    return x, labels


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)) \
            if stride != 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.stages = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.stages(torch.relu(self.bn(self.stem(x))))
        return self.head(x.mean(dim=(2, 3)))


class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()], 8
        for wider, stride in ((16, 1), (24, 2)):
            layers += [nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False), nn.BatchNorm2d(width), nn.Hardswish(),
                       nn.Conv2d(width, wider, 1, bias=False), nn.BatchNorm2d(wider), nn.Hardswish()]
            width = wider
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.features(x)), 1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.head(y.mean(dim=1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(12, 16)
        self.position = nn.Parameter(torch.zeros(8, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.position).mean(dim=1))


class Parts(nn.Module):
    """Frozen layers, norms and buffers beside scalars, tied weights, and weights that pass through functions."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.gate = nn.Parameter(torch.zeros(16))
        self.norm = nn.Parameter(torch.rand(16) + 0.5)
        self.register_buffer("mean", torch.arange(12.) / 10)
        self.register_buffer("std", 1 + torch.arange(12.) / 10, persistent=False)
        self.stem = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16))
        self.stem.requires_grad_(False)
        with torch.no_grad():
            self.stem[1].running_mean += 0.3
            self.stem[1].running_var *= 2
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)
        self.b.weight = self.a.weight
        self.wn = nn.utils.parametrizations.weight_norm(nn.Linear(16, 8))
        self.moving = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, CLASSES)
        self.unused = nn.Linear(4, 4)

    def train(self, mode=True):
        super().train(mode)
        self.stem.eval()
        return self

    def forward(self, x):
        x = torch.relu(self.stem((x - self.mean) / self.std))
        x = torch.sigmoid(self.gate) * self.b(torch.tanh(self.a(x))) / self.norm.norm()
        return self.scale.exp() * self.head(torch.relu(self.moving(self.wn(x))))


def make(name):
    torch.manual_seed(7)
    if name == "mlp":
        return nn.Sequential(nn.Linear(30, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 32), nn.LayerNorm(32), nn.ReLU(),
                             nn.Linear(32, CLASSES))
    return {"resnet": ResNet, "separable": Separable, "lstm": Lstm, "transformer": Transformer,
            "parts": Parts}[name]()


def train(name, threads):
    """The loss of each step, and the trained module."""
    torch.set_num_threads(threads)
    module = make(name).train()
    optimizer = torch.optim.SGD([value for value in module.parameters() if value.requires_grad], lr=RATES[name])
    losses = []
    for step in range(STEPS):
        x, labels = batch(step, INPUTS[name])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, module
