"""Jobs as objects: what they say, and real processes."""

# folders: python run/launcher

import asyncio
import collections
import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import leat
from leat import layers

DEADLINE_S = 120


def wait_until(condition, what):
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"{what} has not happened within {DEADLINE_S} s")


def network():
    return leat.Sequential([layers.Dense(16, activation="relu"), layers.Dense(2)])


@pytest.fixture
def job(csv_file, schema):
    return leat.Job(stream=leat.Files(csv_file, header=True, epochs=4), schema=schema, model=network(),
                    optimizer=leat.Adam(0.01), name="small")


def test_says_what_it_is(job):
    assert repr(job).startswith("<leat.Job 'small': 3-16-2 softmax_cross_entropy, 98 parameters")
    assert job.description["variables"][0] == {"name": "dense1/weight", "shape": [3, 16], "role": "trained"}
    text = job.to_yaml()
    assert "    - dense: {units: 16, activation: relu}\n" in text


def test_mistakes_are_value_errors_with_the_line_of_the_job_file(csv_file, schema):
    def refused(text, **changes):
        settings = {"stream": leat.Files(csv_file, header=True), "schema": schema, "model": network(), **changes}
        with pytest.raises(ValueError, match=text) as error:
            leat.Job(**settings)
        assert "\n" not in str(error.value)

    refused(r"job:\d+: unknown optimizer 'adm'; did you mean 'adam'", optimizer={"type": "adm"})
    refused(r"job:\d+: .*staleness", strategy=leat.Sync(staleness=3))
    refused(r"job:\d+: .*units", model=leat.Sequential([layers.Dense(-3)]))
    refused("no_such_file.csv", stream=leat.Files("no_such_file.csv"))
    refused(r"job:\d+: .*checkpont", checkpont={"interval_s": 3})
    with pytest.raises(TypeError, match="a model is"):
        leat.Job(stream=leat.Files(csv_file), schema=schema, model=3)
    with pytest.raises(TypeError, match="a stream is"):
        leat.Job(stream="events.csv", schema=schema, model=network())
    with pytest.raises(ValueError, match="no such file"):
        leat.Onnx("no_such_file.onnx")


def test_schemas_are_inferred(csv_file):
    schema = leat.Schema.infer(csv_file, label="label")
    assert schema.features == 3
    assert "label" in repr(schema)
    job = leat.Job(stream=leat.Files(csv_file, header=True), schema=schema, model=network())
    assert job.description["labels"][0]["name"] == "label"
    with pytest.raises(ValueError, match="nothing.csv"):
        leat.Schema.infer("nothing.csv", label="x")


def test_a_run_from_start_to_end(job, tmp_path):
    run = job.start(workers=2, ps=2, directory=tmp_path / "run")
    assert "leat.Run" in repr(run)
    summary = run.wait(DEADLINE_S)
    assert summary["events"] == 4 * 3000
    assert summary["accuracy"] > 0.85
    assert not run.running
    metrics = run.metrics()
    assert metrics["events"][-1] == 12000
    assert len({len(values) for values in metrics.values()}) == 1
    state = run.state_dict()
    assert {name: v.shape for name, v in state.items()} == {
        "dense1/weight": (3, 16), "dense1/bias": (16,), "dense2/weight": (16, 2), "dense2/bias": (2,)}
    # The weights tell the classes apart by themselves.
    random = np.random.RandomState(5)
    x = random.normal(size=(500, 3))
    hidden = np.maximum(x @ state["dense1/weight"] + state["dense1/bias"], 0)
    told = (hidden @ state["dense2/weight"] + state["dense2/bias"]).argmax(axis=1)
    assert (told == (x[:, 0] - x[:, 1] > 0)).mean() > 0.9
    html = run._repr_html_()
    assert "<svg" in html and "12,000" in html
    with pytest.raises(ValueError, match="already holds a job"):
        job.start(directory=tmp_path / "run")


def events(count):
    random = np.random.RandomState(3)
    for _ in range(count):
        x = random.normal(size=3)
        yield {"x0": x[0], "x1": float(x[1]), "x2": float(x[2]), "label": bool(x[0] > x[1])}


def test_frozen_layers_are_in_no_slice_and_everywhere_else(csv_file, schema, tmp_path):
    model = leat.Sequential([layers.Dense(16, activation="relu", trainable=False), layers.Dense(2)])
    job = leat.Job(stream=leat.Files(csv_file, header=True), schema=schema, model=model, optimizer=leat.Adam(0.01), name="half", seed=5)
    roles = {entry["name"]: entry["role"] for entry in job.description["variables"]}
    assert roles == {"dense2/weight": "trained", "dense2/bias": "trained", "dense1/weight": "frozen", "dense1/bias": "frozen"}
    run = job.start(workers=2, ps=2, directory=tmp_path / "run")
    assert run.wait()["events"] == 3000
    state = run.state_dict()
    assert set(state) == set(roles)
    # Values that an equal job begins with, trained or not.
    other = leat.Classifier([layers.Dense(16, activation="relu"), layers.Dense(2)], optimizer=leat.SGD(1e-9), random_state=5)
    other.partial_fit(np.zeros((2, 3), np.float32), [0, 1], classes=[0, 1])
    np.testing.assert_allclose(state["dense1/weight"], other.state_dict()["dense1/weight"], atol=1e-7)
    rows = np.random.RandomState(2).normal(size=(20, 3)).astype(np.float32)
    hidden = np.maximum(rows @ state["dense1/weight"] + state["dense1/bias"], 0)
    logits = hidden @ state["dense2/weight"] + state["dense2/bias"]
    expected = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    with leat.serve(run.directory, wait=DEADLINE_S) as server:
        found = server.predict([{f"x{i}": float(x) for i, x in enumerate(row)} for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    to = tmp_path / "net.onnx"
    subprocess.run([leat._program.program(), "export", "--directory", run.directory, "--to", str(to)], check=True, capture_output=True)
    exported = leat.Classifier(leat.Onnx(to, output="outputs"), optimizer=leat.SGD(1e-9))
    exported.partial_fit(rows[:2], [0, 1], classes=[0, 1])
    np.testing.assert_allclose(exported.predict_proba(rows)[:, 1], expected, atol=1e-5)


def test_any_iterable_is_a_stream(tmp_path):
    schema = leat.Schema({**{f"x{i}": {"type": "number"} for i in range(3)},
                          "label": {"type": "number", "role": "label", "classes": 2}})
    job = leat.Job(stream=events(20_000), schema=schema, model=network(), optimizer=leat.Adam(0.01),
                   train={"split_batches": 8})
    run = job.start(workers=1, ps=1, directory=tmp_path / "run")
    summary = run.wait(DEADLINE_S)
    assert summary["events"] == 20_000
    assert summary["dead_letters"] == 0
    assert summary["accuracy"] > 0.85


XY = leat.Schema({"a": {"type": "number", "default": 0}, "y": {"type": "number", "role": "label", "classes": 2}})


def test_a_dataframe_is_its_rows(tmp_path):
    import pandas

    frame = pandas.DataFrame({"a": [float(i % 7) if i % 3 else float("nan") for i in range(3000)],
                              "y": np.arange(3000) % 2, "when": "x"})
    job = leat.Job(stream=frame, schema=XY, model=network(), train={"split_batches": 4})
    for name in ("first", "second"):
        summary = job.start(workers=1, ps=1, directory=tmp_path / name).wait(DEADLINE_S)
        assert (summary["events"], summary["dead_letters"]) == (3000, 0), "values that are missing take the default"
    twice = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="more than one column 'a'"):
        leat.Job(stream=twice, schema=XY, model=network())


def test_rows_of_tables_are_dicts():
    import pandas

    from leat import _streams

    frame = pandas.DataFrame({"n": [1, 2], "x": [0.5, None], "t": ["a", None], "b": [True, False], 3: [pandas.NA, 4]})
    assert list(_streams._Rows(frame)) == [{"n": 1, "x": 0.5, "t": "a", "b": True, "3": None},
                                           {"n": 2, "x": None, "t": None, "b": False, "3": 4}]
    texts = [_streams.encode(row) for row in _streams._Rows(frame)]
    assert json.loads(texts[1]) == {"n": 2, "x": None, "t": None, "b": False, "3": 4}

    class Polars:
        columns = ["n"]

        def __len__(self):
            return 2

        def iter_rows(self, named):
            assert named
            return iter([{"n": 1}, {"n": 2}])

    assert list(_streams.as_stream(Polars()).events) == [{"n": 1}, {"n": 2}]
    assert json.loads(_streams.encode({"a": float("nan"), "b": [np.float64(1), np.nan], "c": np.array([1, np.nan])})) == {
        "a": None, "b": [1, None], "c": [1, None]}
    assert _streams.encode(b"\x00raw") == b"\x00raw"


@pytest.mark.parametrize("event, text", [
    ({"a": 1, "when": datetime.datetime(2026, 1, 31)}, "type datetime: 'when'; make it a number or a text"),
    ({"a": float("nan"), "shop": {"since": datetime.date(2026, 1, 31)}}, "type date: 'shop.since'"),
    ({"list": [1, {"b": object()}]}, "type object: 'list'"), ({(1, 2): 3}, "keys must be str")])
def test_a_value_that_is_no_json_is_named_by_its_key(event, text):
    from leat import _streams

    with pytest.raises(TypeError, match=text):
        _streams.encode(event)


def test_a_named_tuple_is_no_pair():
    from leat import _streams

    pair = collections.namedtuple("Pair", "a y")(1.0, True)
    with pytest.raises(TypeError, match=r"of named tuples, make event\._asdict\(\)$"):
        _streams.encode(pair)


@pytest.mark.parametrize("stream, text", [
    ([({"a": 1.0}, True)] * 300, r"not tuple: \({'a': 1.0}, True\); of pairs \(x, y\)"),
    (np.zeros((20, 2)), "not ndarray"), ([1, 2], "not int: 1"), ([["a", 1]], "not list"), (range(5), "not int: 0")])
def test_an_object_that_is_no_event_is_a_type_error_at_the_first(stream, text):
    with pytest.raises(TypeError, match=text):
        leat.Job(stream=stream, schema=XY, model=network())


def test_a_generator_of_other_objects_is_a_type_error(tmp_path):
    run = leat.Job(stream=iter([(1, 2)]), schema=XY, model=network()).start(workers=1, ps=1, directory=tmp_path / "run")
    with pytest.raises(TypeError, match="an event is a dict or a text, not tuple"):
        run.wait(DEADLINE_S)


def test_a_short_stream_with_too_many_dead_letters_is_an_error(tmp_path):
    stream = [{"a": "oops" if i % 8 == 0 else 1.0, "y": 0} for i in range(300)]
    run = leat.Job(stream=stream, schema=XY, model=network()).start(workers=1, ps=1, directory=tmp_path / "run")
    with pytest.raises(ValueError, match=r"too many dead letters: 38 of 300 events \(12.7 %\)"):
        run.wait(DEADLINE_S)


def test_the_format_of_files_is_that_of_their_suffix():
    formats = {name: leat.Files(name).section()["files"]["format"]
               for name in ("card_idx.csv", "idx.jsonl", "train-images-idx3-ubyte.gz", "A.CSV", "rows.tsv", "idx/rows.json.gz")}
    assert list(formats.values()) == ["csv", "json", "idx", "csv", "csv", "json"]


def test_an_iterator_is_read_by_one_run(tmp_path):
    rows = [{"a": 1.0, "y": i % 2} for i in range(100)]
    for stream, again in [(iter(rows), False), (rows, True)]:
        job = leat.Job(stream=stream, schema=XY, model=network())
        folder = tmp_path / type(stream).__name__
        assert job.start(workers=1, ps=1, directory=folder / "first").wait(DEADLINE_S)["events"] == 100
        if again:
            assert job.start(workers=1, ps=1, directory=folder / "second").wait(DEADLINE_S)["events"] == 100
        else:
            with pytest.raises(ValueError, match="an earlier run has read the events, which are an iterator"):
                job.start(workers=1, ps=1, directory=folder / "second")


@pytest.mark.parametrize("value", [np.datetime64(5, "ns"), np.timedelta64(5, "ns"), np.datetime64("2024-01-01"),
                                   np.array([5], "M8[ns]")])
def test_times_of_numpy_are_no_numbers(value):
    from leat import _streams

    with pytest.raises(TypeError, match="an event has a value of the type .*: 'a'; make it a number or a text"):
        _streams.encode({"a": value})


def test_long_doubles_are_numbers():
    from leat import _streams

    assert json.loads(_streams.encode({"a": np.longdouble(1.5), "b": np.array([2.5], np.longdouble)})) == {"a": 1.5, "b": [2.5]}


@pytest.mark.parametrize("error", [KeyError, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_an_iterable_that_fails_is_told(tmp_path, error):
    def failing():
        yield from events(500)
        raise error("no more")

    schema = leat.Schema({**{f"x{i}": {"type": "number"} for i in range(3)},
                          "label": {"type": "number", "role": "label", "classes": 2}})
    run = leat.Job(stream=failing(), schema=schema, model=network()).start(workers=1, ps=1, directory=tmp_path / "run")
    with pytest.raises(ValueError, match=f"the stream of events ended: {error.__name__}"):
        run.wait(DEADLINE_S)


@pytest.fixture
def endless(tmp_path):
    """A run whose stream never ends."""
    schema = leat.Schema({**{f"x{i}": {"type": "number"} for i in range(3)},
                          "label": {"type": "number", "role": "label", "classes": 2}})

    def forever():
        while True:
            yield from events(200)
            time.sleep(0.02)

    run = leat.Job(stream=forever(), schema=schema, model=network(), train={"split_batches": 4}).start(
        workers=1, ps=1, directory=tmp_path / "run")
    yield run
    run.stop()


def test_a_running_job_does_what_it_is_told(endless):
    run = endless
    wait_until(lambda: run.metrics()["events"][-1:].sum() > 1000, "training")
    run.scale(workers=2)
    wait_until(lambda: run.metrics()["workers"][-1] == 2, "a second worker")
    run.checkpoint()
    assert set(run.state_dict()) == {"dense1/weight", "dense1/bias", "dense2/weight", "dense2/bias"}
    with pytest.raises(TimeoutError):
        run.wait(0.2)
    with pytest.raises(ValueError, match="workers"):
        run.scale(workers="many")
    with pytest.raises(ValueError):
        run.drain("worker 17")
    run.stop()
    assert run.summary["stopped"] or run.summary["phase"] == "ended"
    with pytest.raises(ValueError, match="has ended"):
        run.checkpoint()


def test_attach(job, tmp_path):
    token = "t" * 40
    text = job.to_yaml().replace("epochs: 4", "epochs: 100000")
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([leat.program(), "train", "job.yaml", "--workers", "1", "--ps", "1", "--directory", "run",
                                    "--json", "--listen", "127.0.0.1:0"], cwd=tmp_path, stdout=log, stderr=log,
                                   env={**os.environ, "LEAT_TOKEN": token})
    try:
        log = tmp_path / "run/logs/coordinator.log"
        address = []

        def listening():
            if log.exists():
                address[:] = re.findall(r"serves on (127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8"))
            return bool(address)

        wait_until(listening, "the coordinator's address")
        run = leat.attach(address[0], token=token)
        wait_until(lambda: run.metrics()["events"][-1:].sum() > 0, "training")
        # Its values, from the server, twice: training goes on meanwhile.
        first, second = run.state_dict(), run.state_dict()
        assert set(first) == {"dense1/weight", "dense1/bias", "dense2/weight", "dense2/bias"}
        assert all(np.isfinite(values).all() for values in first.values())
        assert any((first[name] != second[name]).any() for name in first)
        # The newest status may be a moment old.
        wait_until(lambda: not any(member["role"] == "serve" for member in run.status()["members"]), "the reader's leaving")
        with pytest.raises(PermissionError):
            leat.attach(address[0], token="x" * 40)
        run.stop()
        assert not run.running
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_a_job_of_another_build():
    """Its port answers with its version and hash of messages (docs/formats/frame.md)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            peer, _ = listener.accept()
            with peer:
                hello = peer.recv(48, socket.MSG_WAITALL)
                peer.sendall(hello[:12] + b"\2\0" + hello[14:16] + b"\xab" + bytes(63))
                peer.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ValueError, match="another build: it speaks 6-00000000000000ab, this program 6-[0-9a-f]{16}; run"):
            leat.attach(address, token="x" * 40)


def test_nobody_listens():
    with pytest.raises((ConnectionError, TimeoutError)):
        leat.attach("127.0.0.1:1", token="x" * 40)


def test_simulate(job):
    summary = job.simulate(workers=200, ps=4, steps=20, compute="5ms")
    assert summary["wanted"] == {"workers": 200, "ps": 4}
    with pytest.raises(ValueError, match="'fast' is not a bandwidth"):
        job.simulate(link="fast")


CHILD = """
import gc, os, signal, sys, threading, time
import leat
from leat import layers

def interrupt():
    # Ctrl-C, once the main thread waits for the job.
    main = threading.main_thread().ident
    def waits(frame):
        return frame is not None and (frame.f_code.co_filename.endswith("_run.py") or waits(frame.f_back))
    while not waits(sys._current_frames()[main]):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

schema = leat.Schema({"x": {"type": "number"}, "label": {"type": "number", "role": "label", "classes": 2}})
def forever():
    while True:
        yield {"x": 1.0, "label": 1}
        time.sleep(0.001)
run = leat.Job(stream=forever(), schema=schema, model=[layers.Dense(2)]).start(workers=1, ps=1, directory=sys.argv[1])
while not run.metrics()["events"][-1:].sum() > 0:
    time.sleep(0.02)
if sys.argv[2] == "SIGKILL":
    # A forked child outlives this process, and does not keep the job.
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        os.close(1)
        signal.pause()
    print(child, flush=True)
print(run.pid, flush=True)
if sys.argv[2] == "end":
    # The client in the child drops a connection that is open.
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        del run
        gc.collect()
        sys.exit(6)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    run.checkpoint()
    sys.stdin.readline()
    sys.exit(5)
if sys.argv[2] == "SIGINT":
    sys.stdin.readline()
    threading.Thread(target=interrupt).start()
try:
    run.wait()
except KeyboardInterrupt:
    print("ended" if not run.running else "runs", flush=True)
"""


def group_of(leader):
    """Processes in the session of `leat train`."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "end"])
def test_processes_end_with_python(tmp_path, how):
    """A killed interpreter leaves no processes behind, nor does one that simply ends, and Ctrl-C ends the job after a
    checkpoint."""
    with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path / "run"), how], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:
        forked = int(child.stdout.readline()) if how == "SIGKILL" else None
        leader = int(child.stdout.readline())
        wait_until(lambda: len(group_of(leader)) >= 4, "the job's processes")
        if how == "SIGKILL":
            child.kill()
        else:
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline().strip() == ("ended" if how == "SIGINT" else "6")
        assert child.wait(DEADLINE_S) == {"SIGKILL": -signal.SIGKILL, "SIGINT": 0, "end": 5}[how]
    wait_until(lambda: not group_of(leader), "the end of the job's processes")
    if forked:
        os.kill(forked, signal.SIGKILL)
    assert list((tmp_path / "run").glob("checkpoint-*/manifest.json"))
    assert json.loads((tmp_path / "run/summary.json").read_text(encoding="utf-8"))["phase"] == "ended"
