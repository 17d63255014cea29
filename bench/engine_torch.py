#!/usr/bin/env python3
"""The PyTorch baseline of `bench engine`: the same training steps as Leat's, in one thread.

Writes its version, then replies to each line of input with one line:

    load CASE MODE DIRECTORY STEPS   builds CASE from the batch and the variables that Leat has written to DIRECTORY,
                                     trains STEPS steps, and replies with the loss of each and a description of mode
                                     and kernels. MODE: eager, channels_last, compile, compile_channels_last
    measure CASE MODE SECONDS        replies with the median CPU seconds of a step, measured for about SECONDS

Ends at the end of its input.
"""

import ctypes
import os
import re
import subprocess
import sys
import time
import warnings
from array import array

warnings.simplefilter("ignore")
# torch.compile caches its output in the virtual environment.
if sys.prefix != sys.base_prefix:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(sys.prefix, "inductor")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

LEARNING_RATE = 1e-3

torch.set_num_threads(1)


def read(directory, name, *shape):
    values = array("f")
    with open(os.path.join(directory, name), "rb") as file:
        values.frombytes(file.read())
    return torch.tensor(values).reshape(shape)


def fill(parameter, values):
    with torch.no_grad():
        parameter.copy_(values)


def fill_dense(layer, directory, name):
    fill(layer.weight, read(directory, name + ".weight", layer.in_features, layer.out_features).t())
    fill(layer.bias, read(directory, name + ".bias", layer.out_features))


def dense(*sizes):
    def make(directory):
        layers = []
        for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            layers.append(nn.Linear(inputs, outputs))
            fill_dense(layers[-1], directory, f"dense{i + 1}")
            if i + 2 < len(sizes):
                layers.append(nn.ReLU())
        return nn.Sequential(*layers)
    return make


def lenet(directory):
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))
    for layer, name in ((model[0], "conv2d1"), (model[3], "conv2d2")):
        fill(layer.weight, read(directory, name + ".weight", *layer.weight.shape))
        fill(layer.bias, read(directory, name + ".bias", *layer.bias.shape))
    # Leat's images have channels last.
    weight = read(directory, "dense1.weight", 7, 7, 64, 512)
    fill(model[7].weight, weight.permute(2, 0, 1, 3).reshape(64 * 7 * 7, 512).t())
    fill(model[7].bias, read(directory, "dense1.bias", 512))
    fill_dense(model[9], directory, "dense2")
    return model


class Lstm(nn.Module):
    def __init__(self, directory):
        super().__init__()
        self.embedding = nn.Embedding(65, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 65)
        fill(self.embedding.weight, read(directory, "embedding1.table", 65, 64))
        fill(self.lstm.weight_ih_l0, read(directory, "lstm1.input_weight", 64, 512).t())
        fill(self.lstm.weight_hh_l0, read(directory, "lstm1.state_weight", 128, 512).t())
        # PyTorch has two biases, of which the second stays 0.
        fill(self.lstm.bias_ih_l0, read(directory, "lstm1.bias", 512))
        fill(self.lstm.bias_hh_l0, torch.zeros(512))
        self.lstm.bias_hh_l0.requires_grad_(False)
        fill_dense(self.head, directory, "dense1")

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0]).flatten(0, 1)


class Transformer(nn.Module):
    """Token and position embedding, one pre-norm block, head."""

    def __init__(self, directory, units=128, heads=4, tokens=64, classes=65):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(classes, units)
        self.position = nn.Parameter(read(directory, "position1.table", tokens, units))
        self.norm1, self.norm2 = nn.LayerNorm(units), nn.LayerNorm(units)
        self.qkv, self.out = nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.up, self.down = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)
        self.norm3, self.head = nn.LayerNorm(units), nn.Linear(units, classes)
        self.register_buffer("mask", torch.full((tokens, tokens), float("-inf")).triu(1))
        fill(self.embedding.weight, read(directory, "embedding1.table", classes, units))
        for layer, name in ((self.qkv, "residual1.attention1.qkv"), (self.out, "residual1.attention1.out"),
                            (self.up, "residual2.dense1"), (self.down, "residual2.dense2"), (self.head, "dense1")):
            fill_dense(layer, directory, name)

    def attend(self, x):
        batch, tokens, units = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = torch.baddbmm(
                self.mask.expand(batch * self.heads, tokens, tokens), q.reshape(-1, tokens, units // self.heads),
                k.reshape(-1, tokens, units // self.heads).transpose(1, 2), alpha=(units // self.heads) ** -0.5)
            y = torch.bmm(scores.softmax(-1), v.reshape(-1, tokens, units // self.heads))
            y = y.view(batch, self.heads, tokens, -1)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, units))

    def forward(self, ids):
        x = self.embedding(ids) + self.position
        x = x + self.attend(self.norm1(x))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(self.norm3(x)).flatten(0, 1)


# The model's function, the shape of the features in Leat's order of axes, whether they are ids, and the labels.
CASES = {
    "mlp": (dense(784, 512, 512, 10), (128, 784), False, 128),
    "tabular": (dense(30, 64, 32, 2), (128, 30), False, 128),
    "lenet": (lenet, (64, 28, 28, 1), False, 64),
    "lstm": (Lstm, (32, 50), True, 32 * 50),
    "transformer": (Transformer, (16, 64), True, 16 * 64),
}


def load(case, mode, directory, count):
    make, shape, are_ids, labels_count = CASES[case]
    model, x = make(directory), read(directory, "features", *shape)
    labels = read(directory, "labels", labels_count).long()
    if are_ids:
        x = x.long()
    elif len(shape) == 4:
        x = x.permute(0, 3, 1, 2).contiguous()
    if mode.endswith("channels_last"):
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    # PyTorch's fastest update: one call for all parameters.
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=LEARNING_RATE, foreach=True)

    def loss_of(inputs, targets):
        return F.cross_entropy(model(inputs), targets)

    compute, update = (torch.compile(loss_of), torch.compile(optimizer.step)) if mode.startswith("compile") else (
        loss_of, optimizer.step)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = compute(x, labels)
        loss.backward()
        update()
        return loss

    losses = [step().item() for _ in range(count)]
    # Warms up, and completes compilation.
    for _ in range(5):
        step()
    return step, losses


def measure(step, seconds):
    """The median CPU time of all threads, over samples that are long relative to the clock's resolution."""
    begin = time.process_time()
    step()
    calls = max(1, int(5e-4 / max(time.process_time() - begin, 1e-7)))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.process_time()
        for _ in range(calls):
            step()
        times.append((time.process_time() - begin) / calls)
    return sorted(times)[len(times) // 2]


def openblas_kernel():
    """The name of OpenBLAS's kernels, if OpenBLAS is the BLAS."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        paths = {line.split()[-1] for line in maps if "libopenblas" in line}
    for path in paths:
        core = ctypes.CDLL(path).openblas_get_corename
        core.restype = ctypes.c_char_p
        return core().decode()
    return ""


def kernels():
    """The versions of oneDNN and the BLAS and the kernels they choose here, from their verbose output."""
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import torch; torch.mm(torch.ones(64, 64), torch.ones(64, 64)); "
         "torch.nn.functional.conv2d(torch.ones(16, 16, 28, 28), torch.ones(16, 16, 3, 3))"],
        env={**os.environ, "ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}, stdout=subprocess.PIPE, check=True,
        universal_newlines=True).stdout
    version = re.search(r"info,oneDNN v([\d.]+)", said)
    convolution = re.search(r"exec,cpu,convolution,([^,]+)", said)
    mkl = re.search(r"MKL_VERBOSE oneMKL ([\d.]+).*?64 architecture .*?\(Intel\(R\) ([^)]+)\)", said)
    openblas = openblas_kernel()
    return (f"oneDNN {version[1]} {convolution[1]}" if version and convolution else "no oneDNN") + ", " + (
        f"MKL {mkl[1]} {mkl[2]}" if mkl else f"OpenBLAS {openblas}" if openblas else "generic BLAS")


def main():
    steps, described = {}, kernels()
    print("PyTorch", torch.__version__.split("+")[0], flush=True)
    for line in sys.stdin:
        what, case, mode, *rest = line.split()
        if what == "load":
            steps[case, mode], losses = load(case, mode, rest[0], int(rest[1]))
            print(*losses, f"{mode}, {described}", flush=True)
        else:
            print(measure(steps[case, mode], float(rest[0])), flush=True)


if __name__ == "__main__":
    main()
