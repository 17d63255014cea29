#!/usr/bin/env python3
"""Generates NAME.onnx and modules.json: modules as PyTorch exports them (some also by its newer exporter), and their
losses in 100 steps.

    build/baselines/frameworks/bin/python3 tests/goldens/modules/make.py [NAME]...

It needs the Python package (PYTHONPATH). `spread` is the largest relative difference between the losses with one thread and
with two. For each module, a sum of every value that training has changed is kept; `tied` has the other names of tied weights.
"""

import json
import sys
from pathlib import Path

import modules

HERE = Path(__file__).resolve().parent


def tied(module):
    first = {}
    return {name: first[id(value)] for name, value in module.named_parameters(remove_duplicate=False)
            if first.setdefault(id(value), name) != name}


def main():
    from leat._torch import Torch

    names = sys.argv[1:] or list(modules.INPUTS)
    made = json.loads((HERE / "modules.json").read_text(encoding="utf-8")) if sys.argv[1:] else {}
    for name in names:
        shape = modules.INPUTS[name]
        (HERE / f"{name}.onnx").write_bytes(Torch(modules.make(name), shape).export(shape))
        if name in ("separable", "parts"):
            (HERE / f"{name}_dynamo.onnx").write_bytes(Torch(modules.make(name), shape, "dynamo").export(shape))
        start = {key: value.clone() for key, value in modules.make(name).state_dict().items()}
        one, module = modules.train(name, 1)
        two, _ = modules.train(name, 2)
        made[name] = {
            "inputs": list(shape),
            "rate": modules.RATES[name],
            "losses": one,
            "spread": max(abs(a - b) / abs(a) for a, b in zip(one, two)),
            "tied": tied(module),
            "sums": {key: float(value.double().sum()) for key, value in module.state_dict().items()
                     if not key.endswith("num_batches_tracked") and not value.equal(start[key])},
        }
    (HERE / "modules.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
