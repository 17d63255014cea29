#!/usr/bin/env python3
"""Checks ONNX files that Leat has written with other readers: LEAT_KEEP_ONNX=DIR onnx_test, then check.py DIR.

onnx.checker (python3-onnx) checks each file. If onnxruntime is installed, it runs them on the inputs next to them.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

worst = 0.0
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if onnxruntime is None:
        continue
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    golden = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    shape = [d if isinstance(d, int) else 2 for d in session.get_inputs()[0].shape]
    inputs = np.array(golden["inputs"], dtype=np.float32).reshape(shape)
    made = session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: inputs})[0].reshape(-1)
    error = np.abs(made - np.array(golden["outputs"], dtype=np.float32)).max()
    worst = max(worst, error)
    print(f"{path.name}: {error:.2g}")
    assert error < 1e-4, path
print(f"passed; onnxruntime {'is not installed' if onnxruntime is None else f'differs by at most {worst:.2g}'}")
