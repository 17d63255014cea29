#!/usr/bin/env python3
"""The Python sides of `bench python`: steps of the same network on the same batches, in one thread.

    python_fit.py leat | sklearn | torch

Writes its version, then replies to each line of input with one line:

    measure SECONDS   the median seconds of a step, measured for about SECONDS
    import            seconds that an import of leat takes in a new interpreter, without and with the native module

Ends at the end of its input.
"""

import subprocess
import sys
import time

import numpy as np

ROWS, WIDTH, HIDDEN, CLASSES, RATE = 128, 30, (64, 32), 2, 1e-3

random = np.random.RandomState(1)
X = random.normal(size=(ROWS, WIDTH)).astype(np.float32)
y = (X[:, 0] > 0).astype(np.int64)


def with_leat():
    import leat

    estimator = leat.Classifier(hidden=HIDDEN, optimizer=leat.Adam(RATE), batch_size=ROWS, random_state=1)
    estimator.partial_fit(X, y, classes=np.arange(CLASSES))
    return f"leat {leat.__version__}", lambda: estimator.partial_fit(X, y)


def with_sklearn():
    import warnings

    import sklearn
    from sklearn.neural_network import MLPClassifier

    warnings.simplefilter("ignore")
    estimator = MLPClassifier(HIDDEN, solver="adam", alpha=0, learning_rate_init=RATE, batch_size=ROWS, random_state=1)
    estimator.partial_fit(X, y, classes=np.arange(CLASSES))
    return f"scikit-learn {sklearn.__version__}, MLPClassifier", lambda: estimator.partial_fit(X, y)


def with_torch():
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    sizes = (WIDTH, *HIDDEN, CLASSES)
    layers = [layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.ReLU())][:-1]
    net = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE, fused=True)
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss(net(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimizer.step()

    return f"PyTorch {torch.__version__.split('+')[0]}, fused Adam", step


def measure(step, seconds):
    times = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        begin = time.perf_counter()
        for _ in range(16):
            step()
        times.append((time.perf_counter() - begin) / 16)
    return sorted(times)[len(times) // 2]


def import_seconds(what):
    code = f"import time\nbegin = time.perf_counter()\n{what}\nprint(time.perf_counter() - begin)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main():
    version, step = {"leat": with_leat, "sklearn": with_sklearn, "torch": with_torch}[sys.argv[1]]()
    print(version, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "measure":
            print(measure(step, float(words[1])), flush=True)
        else:
            print(import_seconds("import leat"), import_seconds("import leat\nfrom leat import _native"), flush=True)


if __name__ == "__main__":
    main()
