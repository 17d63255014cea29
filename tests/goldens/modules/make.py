#!/usr/bin/env python3
"""Generates NAME.onnx and modules.json: five modules as PyTorch exports them (one also by its newer exporter), and their
losses in 100 steps.

    build/baselines/frameworks/bin/python3 tests/goldens/modules/make.py

It needs the Python package (PYTHONPATH). `spread` is the largest relative difference between the losses with one thread and
with two. Of each trained module, a sum of every parameter is kept.
"""

import json
from pathlib import Path

import modules

HERE = Path(__file__).resolve().parent


def main():
    from leat._torch import Torch

    made = {}
    for name, shape in modules.INPUTS.items():
        (HERE / f"{name}.onnx").write_bytes(Torch(modules.make(name), shape).export(shape))
        if name == "separable":
            (HERE / f"{name}_dynamo.onnx").write_bytes(Torch(modules.make(name), shape, "dynamo").export(shape))
        one, module = modules.train(name, 1)
        two, _ = modules.train(name, 2)
        made[name] = {
            "inputs": list(shape),
            "rate": modules.RATES[name],
            "losses": one,
            "spread": max(abs(a - b) / abs(a) for a, b in zip(one, two)),
            "sums": {key: float(value.double().sum()) for key, value in module.state_dict().items()
                     if not key.endswith("num_batches_tracked")},
        }
    (HERE / "modules.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
