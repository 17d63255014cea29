#!/usr/bin/env python3
"""Generates expressions.json: values, gradients and second derivatives of expressions, computed by PyTorch.

    OMP_NUM_THREADS=1 /usr/bin/python3 tests/goldens/expressions.py > tests/goldens/expressions.json

An expression is in postfix notation. Its inputs a, b, c are filled by `fill` of networks.py, scaled to a range. The
loss is the sum of y · w, where w is filled likewise. The second derivatives are those of the sum of the squared gradients.
"""

import json
import sys

import numpy as np
import torch
from networks import fill
from torch.nn import functional as F

UNARY = {
    "abs": torch.abs, "cos": torch.cos, "elu": F.elu, "erf": torch.erf, "exp": torch.exp, "expm1": torch.expm1,
    "gelu": F.gelu, "leaky_relu": F.leaky_relu, "log": torch.log, "log1p": torch.log1p, "neg": torch.neg,
    "log_softmax": lambda x: F.log_softmax(x, -1), "reciprocal": torch.reciprocal, "relu": F.relu,
    "row_max": lambda x: x.amax(-1), "row_mean": lambda x: x.mean(-1), "row_sum": lambda x: x.sum(-1),
    "row_logsumexp": lambda x: torch.logsumexp(x, -1), "sigmoid": torch.sigmoid, "silu": F.silu, "sin": torch.sin,
    "softmax": lambda x: F.softmax(x, -1), "softplus": F.softplus, "sqrt": torch.sqrt, "square": torch.square,
    "sum": torch.sum, "tanh": torch.tanh, "transpose": lambda x: x.transpose(-1, -2),
}
BINARY = {
    "add": torch.add, "concat": lambda a, b: torch.cat([a, b], -1), "div": torch.div, "matmul": torch.matmul,
    "maximum": torch.maximum, "minimum": torch.minimum, "mul": torch.mul, "pow": torch.pow, "sub": torch.sub,
}

# The expression, and the shape and range of each input.
EXPRESSIONS = [
    ("a b matmul c add tanh", [([4, 6], -1, 1), ([6, 3], -1, 1), ([3], -1, 1)]),
    ("a exp b mul a sub sigmoid", [([3, 5], -1, 1), ([3, 5], -2, 2)]),
    ("a b div log c mul", [([4, 4], 0.5, 2), ([4], 0.5, 3), ([4, 1], -1, 1)]),
    ("a a transpose matmul softmax b matmul", [([5, 3], -1, 1), ([5, 2], -1, 1)]),
    ("a square row_sum sqrt b mul", [([6, 4], 0.2, 2), ([6], -1, 1)]),
    ("a log_softmax b mul row_sum neg", [([5, 7], -2, 2), ([5, 7], 0, 1)]),
    ("a b mul tanh a sigmoid mul c add", [([2, 3, 4], -2, 2), ([3, 1], -2, 2), ([2, 1, 4], -1, 1)]),
    ("a gelu b silu mul", [([4, 5], -3, 3), ([4, 5], -3, 3)]),
    ("a softplus b elu mul c leaky_relu add", [([3, 7], -3, 3), ([3, 7], -3, 3), ([3, 7], 0.2, 3)]),
    ("a erf b sin mul b cos add", [([17], -2, 2), ([17], -3, 3)]),
    ("a b pow", [([9], 0.3, 2), ([9], -2, 2)]),
    ("a b maximum a c minimum mul", [([11], -2, 2), ([11], -2, 2), ([11], -2, 2)]),
    ("a reciprocal b log1p mul a expm1 add", [([3, 3], 0.5, 2), ([3, 3], -0.5, 2)]),
    ("a row_logsumexp a row_max sub b mul", [([6, 5], -2, 2), ([6], -1, 1)]),
    ("a row_mean b mul exp sum", [([4, 6], -1, 1), ([4], -1, 1)]),
    ("a b concat c matmul relu", [([3, 2], 0.1, 1), ([3, 4], 0.1, 1), ([6, 5], 0.1, 1)]),
    ("a abs b mul exp log", [([8], 0.2, 1), ([8], -1, 1)]),
    ("a b matmul gelu c matmul softmax", [([2, 3], -1, 1), ([3, 4], -1, 1), ([4, 3], -1, 1)]),
]


def evaluate(text, inputs):
    stack = []
    for word in text.split():
        if word in inputs:
            stack.append(inputs[word])
        elif word in UNARY:
            stack.append(UNARY[word](stack.pop()))
        else:
            right = stack.pop()
            stack.append(BINARY[word](stack.pop(), right))
    (y,) = stack
    return y


def run(number, text, specs):
    inputs = {}
    for i, (shape, low, high) in enumerate(specs):
        values = np.float32(low) + (fill(10 * number + i, int(np.prod(shape))) + 1) / 2 * np.float32(high - low)
        inputs["abc"[i]] = torch.tensor(values.reshape(shape).astype(np.float32).astype(np.float64), requires_grad=True)
    y = evaluate(text, inputs)
    w = torch.tensor(fill(10 * number + 9, y.numel()).reshape(y.shape).astype(np.float64))
    gradients = torch.autograd.grad((y * w).sum(), list(inputs.values()), create_graph=True)
    squares = sum((g * g).sum() for g in gradients)
    second = torch.autograd.grad(squares, list(inputs.values()), allow_unused=True)
    second = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs.values(), second)]

    def numbers(t):
        return [float(f"{x:.9g}") for x in t.detach().flatten()]

    return {"expression": text, "inputs": [dict(zip(("shape", "low", "high"), s)) for s in specs],
            "value": numbers(y), "gradients": [numbers(g) for g in gradients], "second": [numbers(g) for g in second]}


def main():
    json.dump([run(i, *e) for i, e in enumerate(EXPRESSIONS)], sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
