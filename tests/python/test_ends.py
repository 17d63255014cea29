"""The end of processes that use Leat: scripts that simply end, and forked children that drop what they inherited."""

# folders: python

import subprocess
import sys

import pytest

BEGIN = """
import atexit, gc, multiprocessing, os, socket, sys, threading
import numpy as np
from leat import _native, _run

SETTINGS = '''model:
  layers:
    - dense: {units: 256, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: adam, learning_rate: 0.01}
batch_size: 256
intra_op_threads: 4
'''
X, y = np.ones((256, 64), np.float32), np.ones(256)

def learner():
    made = _native.Learner(SETTINGS, "test", "", 64, 1)
    made.learn(X, y)
    return made

def silent_coordinator():
    # Accepts, and never answers.
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"

def in_thread(f):
    threading.Thread(target=f, daemon=True).start()
"""


def status_of(text, *arguments, timeout=120):
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", BEGIN + text, *map(str, arguments)], check=False,
                          capture_output=True, text=True, timeout=timeout)
    assert done.stderr == "", done.stderr
    return done.returncode


def test_a_script_that_ends_while_a_run_is_followed():
    assert status_of("""
def look():
    # Registered before the module's own functions, so called after them.
    os._exit(7 if run._follower.is_alive() else 5)
atexit.unregister(_run._unfollow)
atexit.register(look)
atexit.register(_run._unfollow)
listener, address = silent_coordinator()
run = _run.Run(_native.Client(address, "t" * 40, "", False))
listener.accept()  # the follower waits for an answer
""") == 5


def test_a_script_that_ends_while_threads_compute():
    assert status_of("""
shared = learner()
begun = [threading.Event() for _ in range(3)]
def learn(event):
    mine = learner()
    while True:
        mine.learn(X, y)
        event.set()
for event in begun:
    in_thread(lambda: learn(event))
    event.wait()
sys.exit(3)
""") == 3


@pytest.mark.parametrize("how", ["exit", "multiprocessing"])
def test_a_forked_child_that_drops_what_it_inherited(tmp_path, how):
    assert status_of("""
listener, address = silent_coordinator()
objects = {"learner": learner(), "client": _native.Client(address, "t" * 40, "", False),
           "writer": _native.LogWriter(sys.argv[1], "events", 2)}
objects["run"] = _run.Run(objects["client"])
directory = objects["directory"] = _run.Directory()
objects["arrays"] = [array for _, array, _ in objects["learner"].variables()]
listener.accept()

def drop():
    for name in list(objects):
        del objects[name]
        gc.collect()

if sys.argv[2] == "multiprocessing":
    child = multiprocessing.get_context("fork").Process(target=drop)
    child.start()
    child.join()
    assert child.exitcode == 0, child.exitcode
else:
    pid = os.fork()
    if pid == 0:
        sys.exit(6)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6
# The parent's are as before.
assert os.path.isdir(directory.name)
objects["learner"].learn(X, y)
objects["writer"].append(0, [b"record"])
objects["writer"].seal()
assert objects["run"]._follower.is_alive()
drop()
""", tmp_path, how) == 0
