#!/usr/bin/env python3
"""Generates the files of this folder: small ONNX networks with PyTorch's outputs (needs python3-torch, python3-onnx).

Each `<name>.onnx` has an entry in goldens.json: the sizes of a row in a job, the rows, and the outputs. A network in
the style of Keras is written node by node and computed with NumPy, because PyTorch cannot export one.
"""

import io
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

HERE = Path(__file__).resolve().parent
ROWS = 3
goldens = {}


def rounded(values):
    return [float(f"{v:.7g}") for v in np.asarray(values, dtype=np.float32).reshape(-1)]


def save(name, model, row, rows, outputs):
    onnx.checker.check_model(model)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())
    goldens[name] = {"row": list(row), "rows": len(rows), "inputs": rounded(rows), "outputs": rounded(outputs)}


def export(name, module, x, opset=13, batch="dynamic", training=False, row=None):
    """x: the module's input, batch first. row: the sizes of a row in a job, if they differ."""
    module.eval()
    if x.is_floating_point():
        x = torch.round(x * 100) / 100
    buffer = io.BytesIO()
    options = {"opset_version": opset, "input_names": ["x"], "output_names": ["y"], "do_constant_folding": not training}
    if batch == "dynamic":
        options["dynamic_axes"] = {"x": {0: "batch"}, "y": {0: "batch"}}
    if training:
        options["training"] = torch.onnx.TrainingMode.TRAINING
    example = x[: batch if isinstance(batch, int) else len(x)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, example, buffer, **options)
    module.eval()
    with torch.no_grad():
        y = module(x)
    rows = x
    if row is not None and len(row) == 3 and x.dim() == 4:
        rows = x.permute(0, 2, 3, 1)  # images with channels last, as jobs have them
    save(name, onnx.load_from_string(buffer.getvalue()), row or x.shape[1:], rows.numpy(), y.numpy())


class Norms(nn.Module):
    """All kinds of convolutions, with batch normalisation, a residual connection and a global pool."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point = nn.Conv2d(8, 8, 1)
        self.down = nn.Conv2d(8, 6, 3, stride=2, padding=(1, 0), dilation=(1, 2))
        self.up = nn.ConvTranspose2d(6, 5, 3, stride=2, padding=1, output_padding=1)
        self.groups = nn.GroupNorm(5, 5)
        self.pool = nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
        self.out = nn.Linear(5, 4)
        for p in self.norm.parameters():
            nn.init.uniform_(p, 0.5, 1.5)
        self.norm.running_mean.uniform_(-0.5, 0.5)
        self.norm.running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = x + nn.functional.silu(self.point(nn.functional.leaky_relu(self.depth(x), 0.1)))
        x = nn.functional.hardswish(self.groups(self.up(nn.functional.relu6(self.down(x)))))
        return self.out(self.pool(x).mean(dim=(2, 3)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.words = nn.Embedding(11, 4)
        self.steps = kind(4, 5, batch_first=True, **options)
        self.out = nn.Linear(5 * (2 if self.steps.bidirectional else 1), 3)

    def forward(self, ids):
        y, _ = self.steps(self.words(ids))
        return self.out(y[:, -1, :])


class Attention(nn.Module):
    """A causal transformer block with learnt positions."""

    def __init__(self, size=8, heads=2, time=6):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(13, size)
        self.places = nn.Parameter(torch.randn(1, time, size) * 0.1)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 16), nn.Linear(16, size)
        self.out = nn.Linear(size, 13, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(1, 1, time, time)))

    def forward(self, ids):
        x = self.words(ids) + self.places
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / (c // self.heads) ** 0.5
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return self.out(x + self.down(nn.functional.gelu(self.up(self.norm2(x)))))


def keras():
    """A small Keras network as tf2onnx writes it: channels-last images, transposed for the convolution and back."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=(4, 1, 3, 3)).astype(np.float32)
    b = rng.normal(size=(4,)).astype(np.float32)
    dense = (rng.normal(size=(3 * 3 * 4, 5)) * 0.2).astype(np.float32)
    bias = rng.normal(size=(5,)).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["input_1"], ["t1"], "conv/Transpose", perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t1", "conv/W", "conv/b"], ["c1"], "conv/Conv2D", auto_pad="SAME_UPPER",
                         kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"], "conv/Relu"),
        helper.make_node("Transpose", ["r1"], ["t2"], "conv/Back", perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["t2", "flat/shape"], ["f"], "flatten/Reshape"),
        helper.make_node("MatMul", ["f", "dense/W"], ["m"], "dense/MatMul"),
        helper.make_node("Add", ["m", "dense/b"], ["logits"], "dense/BiasAdd"),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "dense/Softmax", axis=-1),
    ]
    weights = {"conv/W": w, "conv/b": b, "dense/W": dense, "dense/b": bias,
               "flat/shape": np.array([-1, 36], dtype=np.int64)}
    graph = helper.make_graph(
        nodes, "keras",
        [helper.make_tensor_value_info("input_1", TensorProto.FLOAT, ["unk__1", 6, 6, 1])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["unk__2", 5])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    x = np.round(rng.normal(size=(ROWS, 6, 6, 1)), 2).astype(np.float32)
    t = torch.from_numpy(x).permute(0, 3, 1, 2)
    t = nn.functional.conv2d(nn.functional.pad(t, (0, 1, 0, 1)), torch.from_numpy(w), torch.from_numpy(b), stride=2)
    t = torch.relu(t).permute(0, 2, 3, 1).reshape(ROWS, 36)
    y = torch.softmax(t @ torch.from_numpy(dense) + torch.from_numpy(bias), dim=-1)
    save("keras", model, (6, 6, 1), x, y.numpy())


def main():
    torch.manual_seed(1)
    mlp = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))
    x = torch.randn(ROWS, 6)
    export("mlp", mlp, x)
    export("mlp_fixed", mlp, x, batch=1)
    dropout = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Sigmoid(), nn.Linear(8, 2))
    export("dropout", dropout, x, training=True)
    lenet = nn.Sequential(nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 10))
    images = torch.randn(ROWS, 1, 12, 10)
    export("lenet", lenet, images, row=(12, 10, 1))
    export("lenet_fixed", lenet, images, batch=1, row=(12, 10, 1))
    export("norms", Norms(), torch.randn(ROWS, 3, 8, 9), opset=14, row=(8, 9, 3))
    export("norms_training", Norms(), torch.randn(ROWS, 3, 8, 9), opset=14, row=(8, 9, 3), training=True)
    conv1d = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ELU(), nn.MaxPool1d(2), nn.Flatten(),
                           nn.Linear(16, 2))
    export("conv1d", conv1d, torch.randn(ROWS, 2, 8))
    ids = torch.randint(0, 11, (ROWS, 7))
    export("lstm", Recurrent(nn.LSTM), ids)
    export("lstm_fixed", Recurrent(nn.LSTM, num_layers=2), ids, batch=1)
    export("lstm_both", Recurrent(nn.LSTM, bidirectional=True), ids)
    export("gru", Recurrent(nn.GRU), ids)
    export("rnn", Recurrent(nn.RNN, nonlinearity="relu", bidirectional=True), ids)
    attention = Attention()
    export("attention", attention, torch.randint(0, 13, (ROWS, 6)))
    export("attention17", attention, torch.randint(0, 13, (ROWS, 6)), opset=17, batch=1)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    export("encoder", encoder, torch.randn(ROWS, 5, 8), opset=14)
    keras()
    (HERE / "goldens.json").write_text(json.dumps(goldens, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
