"""Resuming jobs whose files have changed: what was added is trained exactly, and what was replaced is refused."""

# folders: job stream

import gzip
import pathlib
import shutil

import pytest

import leat
from test_bad_input import content_of

# The prediction is the sum of the features, and labels are 0: mae is the mean of `a` over what this run trains.
JOB = """name: grown
stream: {files: {format: csv, paths: [d.csv], partitions: 2, header: true}}
schema: {format: csv, delimiter: ",", fields: {a: {type: number}, y: {type: number, role: label}}}
model: {layers: [dense: {units: 1, init: {constant: 1}}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 1.0e-30}
strategy: async
train: {split_batches: 1, batch_size: 4}
cluster: {workers: 1, ps: 1}
"""
EPOCHS = {"stream: {files": "stream: {epochs: 3, files"}


def rows(values):
    return "".join(f"{a},0\n" for a in values)


def write(path, values, before="a,y\n"):
    pathlib.Path(path).write_text(before + rows(values))


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


def train(folder, *arguments):
    return leat.run("train", *arguments, "--json", cwd=folder)


def trained(folder, *arguments):
    return leat.summary(train(folder, *arguments))


def refused(folder, *parts, job=()):
    """The resume is refused with one line, before anything is written."""
    before = content_of(folder / "job")
    line = leat.refused(leat.run("train", *job, "--resume", "job", cwd=folder), *parts)
    assert content_of(folder / "job") == before, "something was written"
    return line


@pytest.mark.parametrize("changes", [{}, EPOCHS, {"strategy: async": "strategy: sync", **EPOCHS},
                                     {"partitions: 2": "partitions: 5", **EPOCHS}],
                         ids=["once", "epochs", "steps", "partitions"])
def test_rows_that_were_added_are_trained_and_no_others(tmp_path, changes):
    epochs = 3 if "stream: {files" in changes else 1
    leat.write_job(tmp_path / "job.yaml", JOB, **changes)
    write(tmp_path / "d.csv", [0] * 203)
    first = trained(tmp_path, "job.yaml", "--directory", "job")
    assert first["events"] == 203 * epochs and first["mae"] == 0
    for added, total in ((31, 234), (1, 235)):
        append(tmp_path / "d.csv", rows([1] * added))
        again = trained(tmp_path, "--resume", "job")
        assert again["events"] == total * epochs
        assert again["mae"] == 1 and again["window"] == added * epochs, again
    assert trained(tmp_path, "--resume", "job")["events"] == 235 * epochs, "nothing was added"


def test_a_job_that_was_stopped_and_its_file_grew_goes_on_with_every_row(tmp_path):
    leat.write_job(tmp_path / "job.yaml", JOB, **EPOCHS)
    write(tmp_path / "d.csv", [0] * 400)
    with leat.Job("train", "job.yaml", "--directory", "job", "--pause-at", 500, directory=tmp_path / "job", cwd=tmp_path) as job:
        leat.wait_for(lambda: job.status().get("events", 0) >= 500, "the pause, in the second of three epochs")
        job.command("stop")
        assert job.wait() == 0, job.text()
        before = job.summary()["events"]
    assert 500 <= before < 1200
    append(tmp_path / "d.csv", rows([2] * 100))
    again = trained(tmp_path, "--resume", "job")
    assert again["events"] == 3 * 500
    assert again["window"] == 1500 - before
    assert again["mae"] == pytest.approx(600 / (1500 - before)), "each new row three times"
    # A fourth epoch is one of all rows.
    leat.write_job(tmp_path / "four.yaml", JOB, **{"stream: {files": "stream: {epochs: 4, files"})
    more = trained(tmp_path, "four.yaml", "--resume", "job")
    assert more["events"] == 4 * 500 and more["window"] == 500 and more["mae"] == pytest.approx(200 / 500)


def test_any_of_several_files_may_grow_and_others_may_follow(tmp_path):
    leat.write_job(tmp_path / "job.yaml", JOB, **{"[d.csv]": "[a.csv, b.csv.gz]"})
    write(tmp_path / "a.csv", [0] * 50)
    packed = gzip.compress(("a,y\n" + rows([0] * 30)).encode())
    (tmp_path / "b.csv.gz").write_bytes(packed)
    trained(tmp_path, "job.yaml", "--directory", "job")
    append(tmp_path / "a.csv", rows([1] * 7))
    (tmp_path / "b.csv.gz").write_bytes(packed + gzip.compress(rows([3] * 2).encode()))
    again = trained(tmp_path, "--resume", "job")
    assert again["events"] == 89 and again["window"] == 9 and again["mae"] == pytest.approx((7 + 6) / 9)
    write(tmp_path / "c.csv", [5] * 4)
    append(tmp_path / "a.csv", rows([1]))
    leat.write_job(tmp_path / "job.yaml", JOB, **{"[d.csv]": "[a.csv, b.csv.gz, c.csv]"})
    more = trained(tmp_path, "job.yaml", "--resume", "job")
    assert more["events"] == 94 and more["window"] == 5 and more["mae"] == pytest.approx(21 / 5)
    leat.write_job(tmp_path / "job.yaml", JOB, **{"[d.csv]": "[a.csv, b.csv.gz]"})
    refused(tmp_path, "3 files", "has 2", job=["job.yaml"])


def test_text_that_was_added_is_trained(tmp_path):
    leat.write_job(tmp_path / "job.yaml", """name: text
stream: {files: {format: text, paths: [t.txt], sequence: 8, partitions: 2}}
schema: {format: text, fields: {text: {type: characters, alphabet: ab}}}
model: {layers: [reshape: {shape: [8, 1]}, dense: {units: 2}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
strategy: async
train: {split_batches: 1, batch_size: 4}
cluster: {workers: 1, ps: 1}
""")
    (tmp_path / "t.txt").write_text("ab" * 100)
    done = train(tmp_path, "job.yaml", "--directory", "job")
    windows = leat.summary(done)["events"]
    append(tmp_path / "t.txt", "ab" * 40)
    assert trained(tmp_path, "--resume", "job")["events"] == windows + 10


@pytest.mark.parametrize("what", ["other", "shorter", "front", "byte"])
def test_a_file_that_was_replaced_is_refused(tmp_path, what):
    leat.write_job(tmp_path / "job.yaml", JOB)
    write(tmp_path / "d.csv", [0] * 60)
    trained(tmp_path, "job.yaml", "--directory", "job")
    size = (tmp_path / "d.csv").stat().st_size
    text = (tmp_path / "d.csv").read_text()
    (tmp_path / "d.csv").write_text({"other": "a,y\n" + rows([7] * 60), "shorter": text[:-4],
                                     "front": "a,y\n1,0\n" + text[4:], "byte": text[:40] + "9" + text[41:]}[what])
    refused(tmp_path, "d.csv", "is not what job 'grown' was trained on", f"it was {size}:", "it is ")
    (tmp_path / "d.csv").write_text(text)
    assert trained(tmp_path, "--resume", "job")["events"] == 60


@pytest.mark.parametrize("then", [None, "x,z\n1,2\n"], ids=["gone", "replaced"])
def test_what_was_trained_is_exported_whatever_becomes_of_the_data(tmp_path, then):
    leat.write_job(tmp_path / "job.yaml", JOB)
    write(tmp_path / "d.csv", [0] * 60)
    trained(tmp_path, "job.yaml", "--directory", "job")
    (tmp_path / "d.csv").unlink()
    if then:
        (tmp_path / "d.csv").write_text(then)
    done = leat.run("export", "--directory", "job", "--to", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "m.onnx").stat().st_size > 100, done.stderr
    refused(tmp_path, "d.csv")


def test_the_last_row_may_not_have_ended(tmp_path):
    leat.write_job(tmp_path / "job.yaml", JOB)
    (tmp_path / "d.csv").write_text("a,y\n" + rows([0] * 40)[:-1])
    trained(tmp_path, "job.yaml", "--directory", "job")
    append(tmp_path / "d.csv", "5\n" + rows([1] * 3))
    refused(tmp_path, "d.csv has grown", "record 40 of 40 has changed")
    (tmp_path / "d.csv").write_text("a,y\n" + rows([0] * 40)[:-1] + "\n" + rows([1] * 3))
    again = trained(tmp_path, "--resume", "job")
    assert again["events"] == 43 and again["mae"] == 1


def test_a_topic_that_was_made_again_is_refused(tmp_path):
    leat.write_job(tmp_path / "job.yaml", JOB, **{
        "files: {format: csv, paths: [d.csv], partitions: 2, header: true}": "topic: rows, log: log, partitions: 1"})
    write(tmp_path / "d.csv", [0] * 40, before="")

    def publish():
        done = leat.run("publish", "d.csv", "--log", "log", "--topic", "rows", "--partitions", 1, "--no-header", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    publish()
    with leat.Job("train", "job.yaml", "--directory", "job", directory=tmp_path / "job", cwd=tmp_path) as job:
        leat.wait_for(lambda: job.status().get("events", 0) == 40, "all events")
        job.command("stop")
        assert job.wait() == 0, job.text()
    shutil.rmtree(tmp_path / "log")
    publish()
    refused(tmp_path, "topic 'rows'", "it was topic:", "it is topic:")


ONNX = """name: net
stream: {epochs: 2, files: {format: csv, paths: [rows.csv], partitions: 1}}
schema: {format: csv, delimiter: ",", fields: {a: {type: number}, b: {type: number}, c: {type: number}, d: {type: number},
                               e: {type: number}, f: {type: number}, kind: {type: number, role: label}}}
model: {layers: [onnx: {file: net.onnx}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
strategy: async
train: {batch_size: 20, split_batches: 5}
cluster: {workers: 1, ps: 1}
"""


def test_a_job_has_its_own_copy_of_the_model(tmp_path):
    (tmp_path / "job.yaml").write_text(ONNX)
    (tmp_path / "rows.csv").write_text("".join(f"{i % 5},{i % 7},1,{i % 3},0,2,{i % 3}\n" for i in range(300)))
    network = (leat.ROOT / "tests/goldens/onnx/mlp.onnx").read_bytes()
    (tmp_path / "net.onnx").write_bytes(network)
    trained(tmp_path, "job.yaml", "--directory", "job")

    def export(name):
        done = leat.run("export", "--directory", "job", "--to", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return (tmp_path / name).read_bytes()
    before = export("a.onnx")
    assert b"Relu" in before
    # Another network with parameters of the same names and shapes; then none.
    other = network.replace(b"Relu", b"Tanh")
    assert other != network
    (tmp_path / "net.onnx").write_bytes(other)
    assert export("b.onnx") == before
    leat.write_job(tmp_path / "three.yaml", ONNX, **{"epochs: 2": "epochs: 3"})
    assert trained(tmp_path, "three.yaml", "--resume", "job")["events"] == 900
    assert b"Relu" in export("c.onnx")
    (tmp_path / "net.onnx").unlink()
    assert export("d.onnx") == (tmp_path / "c.onnx").read_bytes()
    # Without the copy, the file has to be the same.
    shutil.rmtree(tmp_path / "job/assets")
    (tmp_path / "net.onnx").write_bytes(other)
    for command in (["export", "--directory", "job", "--to", "e.onnx"], ["train", "--resume", "job"]):
        leat.refused(leat.run(*command, cwd=tmp_path), "net.onnx is not the job's", f"the job has {len(network)}:")
    assert not (tmp_path / "e.onnx").exists()
    (tmp_path / "net.onnx").write_bytes(network)
    assert export("f.onnx") == (tmp_path / "c.onnx").read_bytes()
