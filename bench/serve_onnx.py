#!/usr/bin/env python3
"""ONNX Runtime's side of `bench serve`: batches of the same network, in one thread.

    serve_onnx.py MODEL ROWS WIDTH

Writes its version, then replies to each line of input, the seconds to measure for, with the median seconds of a batch.
Ends at the end of its input.
"""

import sys
import time

import numpy as np
import onnxruntime


def main():
    path, rows, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    batch = np.random.RandomState(1).normal(size=(rows, width)).astype(np.float32)
    session.run(None, {name: batch})
    print(f"ONNX Runtime {onnxruntime.__version__}", flush=True)
    for line in sys.stdin:
        times = []
        until = time.perf_counter() + float(line)
        while time.perf_counter() < until:
            begin = time.perf_counter()
            for _ in range(16):
                session.run(None, {name: batch})
            times.append((time.perf_counter() - begin) / 16)
        print(sorted(times)[len(times) // 2], flush=True)


if __name__ == "__main__":
    main()
