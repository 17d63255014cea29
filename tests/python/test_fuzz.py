"""Calls the native module with random arguments: an exception is right, the end of the interpreter is not."""

# folders: python train/learner

import os
import random
import subprocess
import sys

SECONDS = float(os.environ.get("LEAT_FUZZ_SECONDS", "20"))

FUZZ = r"""
import contextlib, random, sys, time
import numpy as np
from leat import _native

SETTINGS = '''model:
  layers:
    - dense: {units: 4}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
batch_size: 8
'''
seed, seconds, folder = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
draw = random.Random(seed)
array = np.random.RandomState(seed % (1 << 31))
learner = _native.Learner(SETTINGS, "fuzz", "", 3, 1)


def mutated(text):
    text = list(text)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(text))
        what = draw.randrange(3)
        if what == 0:
            text[at] = chr(draw.choice([draw.randrange(128), 0x20AC, 10, 58]))
        elif what == 1:
            del text[at]
        else:
            text.insert(at, draw.choice(["\n", "{", "[", "-", "9" * draw.randrange(30), "null", "\u00e9"]))
    return "".join(text)


def some_array():
    shape = tuple(draw.choice([0, 1, 2, 3, 5, 8, 9]) for _ in range(draw.randrange(4)))
    made = array.normal(size=shape).astype(draw.choice(["f4", "f8", "i8", "i4", "u1", "?", "c8", "i2", "f2", ">f4"]))
    change = draw.randrange(6)
    if change == 0 and made.ndim:
        made = made[::-1]
    elif change == 1:
        made.setflags(write=False)
    elif change == 2 and made.dtype.kind == "f" and made.size:
        made.flat[0] = draw.choice([np.nan, np.inf, -np.inf, 1e30])
    return made


def anything():
    return draw.choice([
        lambda: None, lambda: draw.randrange(-5, 1 << 70), lambda: draw.random() * 1e300, lambda: mutated(SETTINGS),
        lambda: SETTINGS, lambda: "", lambda: "x\0y", lambda: b"\xff\0" * draw.randrange(50), some_array, some_array, some_array,
        lambda: [some_array()], lambda: {}, lambda: object(), lambda: learner, lambda: float("nan"), lambda: "\udc80",
        lambda: folder, lambda: memoryview(b"abcd"), lambda: bytearray(12), lambda: int, lambda: True,
        lambda: array.normal(size=(draw.randrange(20), 3)).astype("f4"), lambda: array.randint(0, 2, size=draw.randrange(20)),
        lambda: [b"a", b"bc"], lambda: learner.save()[0], lambda: 3, lambda: 1])()


def client():
    return _native.Client("127.0.0.1:1", "t" * 32, "", False)


calls = 0
taken = 0
until = time.monotonic() + seconds
while time.monotonic() < until:
    calls += 1
    objects = [learner, _native, draw.choice([learner.variables()[0][1], learner])]
    try:
        if draw.random() < 0.1:
            objects.append(_native.LogWriter(folder, draw.choice(["t", "u", anything()]), draw.choice([1, 2, anything()])))
        if draw.random() < 0.02:
            objects.append(client())
        of = draw.choice(objects)
        names = [name for name in dir(of) if not name.startswith("__") and callable(getattr(of, name))]
        if not names:
            memoryview(of).tobytes()
            continue
        name = draw.choice(names)
        if name in ("checkpoint", "stop", "discard", "pause", "go_on", "drain", "scale") and of is not _native:
            continue  # they wait for a coordinator
        arguments = [anything() for _ in range(draw.randrange(7))]
        if name == "status":
            arguments = [draw.choice([0.001, -1.0, anything()])]
            with contextlib.suppress(Exception):  # it is no number, which an array without dimensions is, too
                if float(arguments[0]) > 0.01:
                    continue  # it waits for so long
        if draw.random() < 0.3 and name in ("learn", "predict"):
            n = draw.randrange(20)
            arguments = [array.normal(size=(n, 3)).astype("f4"),
                         array.randint(0, 2, size=n) if name == "learn" else np.empty((n, 2), "f4")]
        getattr(of, name)(*arguments)
        taken += 1
    except Exception as e:
        if isinstance(e, SystemError) or "\n" in str(e) and isinstance(e, ValueError):
            print(type(e), e, name, file=sys.stderr)
            sys.exit(3)
print(calls, taken)
"""


def test_random_arguments(tmp_path):
    seed = int(os.environ.get("LEAT_SEED", random.SystemRandom().randrange(1 << 31)))
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", FUZZ, str(seed), str(SECONDS), str(tmp_path)],
                          check=False, capture_output=True, text=True, timeout=SECONDS + 120,
                          env={**os.environ, "LEAT_TOKEN": "t" * 32})
    assert done.returncode == 0, f"LEAT_SEED={seed}: status {done.returncode}\n{done.stderr[-3000:]}"
    calls, taken = map(int, done.stdout.split())
    assert calls > 500 and taken > 50
