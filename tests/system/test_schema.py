"""From a data file to a trained job: leat schema, delimiters, and text labels."""

# folders: stream job

import contextlib
import gzip
import json
import pathlib
import random

import pytest

import leat
import poison

MODEL = """model:
  layers:
    - dense: {units: %d, activation: relu}
    - dense: {units: %d}
  loss: %s
optimizer: {type: adam, learning_rate: 0.005}
train: {batch_size: 32, split_batches: 8}
cluster: {workers: 2, ps: 1}
"""
SOFTMAX = MODEL % (16, 2, "softmax_cross_entropy")
SIGMOID = MODEL % (16, 1, "sigmoid_cross_entropy")


def customers(count=4000, seed=1):
    """Customers who churn if they are young and pay much or are of kind c; a tenth decides at random."""
    chance = random.Random(seed)
    for number in range(count):
        age, paid, kind = chance.randint(18, 80), round(chance.lognormvariate(3, 1), 2), chance.choice("abc")
        leaves = (age < 40 and paid > 15) or kind == "c"
        if chance.random() < 0.1:
            leaves = not leaves
        yield {"id": f"k{number:05}", "age": age, "paid": paid, "kind": kind, "shop": "north",
               "churned": "yes" if leaves else "no"}


def write_csv(path, delimiter=",", header=True):
    rows = list(customers())
    with (gzip.open if path.name.endswith(".gz") else open)(path, "wt") as out:
        if header:
            out.write(delimiter.join(rows[0]) + "\n")
        for row in rows:
            out.write(delimiter.join(str(v) for v in row.values()) + "\n")
    return path


def proposal(*arguments, cwd=None):
    done = leat.run("schema", *arguments, cwd=cwd)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def train(folder, text, *arguments, epochs=3, timeout=240):
    text = text.replace("stream:\n", f"stream:\n  epochs: {epochs}\n", 1)
    (folder / "job.yaml").write_text(text)
    return leat.run("train", "job.yaml", *arguments, "--json", cwd=folder, timeout=timeout)


@pytest.mark.parametrize("name, delimiter, header", [
    ("rows.csv", ",", True), ("rows.csv.gz", ";", True), ("rows.tsv", "\t", False), ("rows.csv", "|", True)])
@pytest.mark.parametrize("model", [SOFTMAX, SIGMOID])
def test_a_csv_file_becomes_a_job_that_learns(tmp_path, name, delimiter, header, model):
    write_csv(tmp_path / name, delimiter, header)
    label = "churned" if header else "c6"
    proposed = proposal(name, "--label", label, cwd=tmp_path)
    assert f"{label}: {{type: category, values: [no, yes], role: label}}" in proposed
    result = leat.summary(train(tmp_path, proposed + model))
    assert result["events"] == 3 * 4000 and result["dead_letters"] == 0
    assert result["accuracy"] > 0.8 and result["auc"] > 0.8, result


def test_json_lines_become_a_job_that_learns(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in customers()))
    result = leat.summary(train(tmp_path, proposal("rows.jsonl", "--label", "churned", cwd=tmp_path) + SOFTMAX))
    assert result["events"] == 3 * 4000 and result["dead_letters"] == 0
    assert result["accuracy"] > 0.8, result


@pytest.mark.parametrize("folder, name, label, accuracy", [
    ("adult", "adult.data.gz", "c15", 0.80),
    ("credit-default", "UCI_Credit_Card.csv.gz", "default.payment.next.month", 0.79),
    ("elec2", "electricity.csv.gz", "class", 0.72)])
def test_real_data_become_a_job_that_learns(tmp_path, folder, name, label, accuracy):
    data = pathlib.Path(leat.data(folder))
    proposed = proposal(data / name, "--label", label)
    model = SOFTMAX.replace("batch_size: 32", "batch_size: 64")
    result = leat.summary(train(tmp_path, proposed + model, epochs=2))
    assert result["dead_letters"] == 0 and result["accuracy"] > accuracy, result


def test_a_delimiter_is_found_and_said_once_and_a_resumed_job_keeps_it(tmp_path):
    path = write_csv(tmp_path / "rows.csv", ";")
    text = proposal("rows.csv", "--label", "churned", cwd=tmp_path) + SOFTMAX
    assert 'delimiter: ";"' in text
    text = text.replace('  delimiter: ";"\n', "")
    done = train(tmp_path, text, "--directory", "job")
    result = leat.summary(done)
    assert result["events"] == 3 * 4000
    assert done.stderr.count("rows.csv: delimiter ';' found, 6 columns") == 1, done.stderr
    assert "found" not in leat.run("train", "--resume", "job", cwd=tmp_path).stderr
    path.write_text(path.read_text().replace(";", ","))
    leat.refused(leat.run("train", "--resume", "job", cwd=tmp_path), "is not what job 'job' was trained on")


@pytest.mark.parametrize("form, record", [
    ("csv", lambda i: f"{i % 7},{'yes' if i % 3 else 'no'}\n"),
    ("json", lambda i: json.dumps({"x": i % 7, "y": "yes" if i % 3 else "no"}) + "\n")])
def test_a_label_that_is_text_is_said_how_to_read(tmp_path, form, record):
    (tmp_path / "rows").write_text("".join(record(i) for i in range(3000)))
    job = f"""stream:
  files: {{format: {form}, paths: [rows]}}
schema: {{format: {form}, fields: {{x: {{type: number}}, y: {{type: number, role: label}}}}}}
"""
    done = train(tmp_path, job + SOFTMAX)
    leat.refused(done, "'no' is not a number", "`type: category, values: [no, yes]` would read 'y'")
    job = job.replace("y: {type: number,", "y: {type: category, values: [no, yes],")
    result = leat.summary(train(tmp_path, job + SOFTMAX))
    assert result["events"] == 3 * 3000 and result["dead_letters"] == 0


def test_the_hint_comes_with_records_of_a_topic_too(tmp_path):
    """The job declares a number where the bots' records have text: it stops and suggests a type that fits."""
    job = """stream: {topic: payments, bots: {events: 30000}}
schema:
  format: json
  fields: {amount: {type: number}, channel: {type: number}, fraud: {type: number, role: label}}
"""
    (tmp_path / "job.yaml").write_text(job + SOFTMAX)
    done = leat.run("train", "job.yaml", cwd=tmp_path)
    assert done.returncode != 0
    assert "`type: category, values: [chip, contactless, online, phone]` would read 'channel'" in done.stderr, done.stderr


@pytest.mark.parametrize("content, arguments, parts", [
    (None, [], ["rows.csv", "No such file"]),
    (b"", [], ["rows.csv", "has no records"]),
    (b"\x00\x01\x02\n", [], ["rows.csv", "is not a text file"]),
    (b"1,5;2\n2,5;3\n", [], ["',' (2 columns) and ';' (2 columns)", "--delimiter"]),
    (b"a,b\n1,2\n", ["--delimiter", "x"], ["--delimiter is 'x'", "tab or one character"]),
    (b"a,b\n1,2\n3,4\n", ["--label", "c"], ["rows.csv", "no column 'c'"]),
    (b"a,b\n1,2\n3\n4\n", [], ["rows.csv:3", "has 1 columns instead of 2"]),
    (b"{\"a\": 1}\n{\n", [], ["rows.csv:2", "is not a JSON object"]),
    (b"a\n1\n1\n", [], ["no column would make a feature"]),
    (b"\x1f\x8b\x08\x00abc", [], ["rows.csv"]),
    (b"a,b\n1,2\n", ["--rows", "-1"], ["--rows", "-1"]),
    (b"a,b\n1,2\n", ["--rows", "0"], ["--rows", "0"]),
])
def test_a_file_that_cannot_be_proposed_for(tmp_path, content, arguments, parts):
    if content is not None:
        (tmp_path / "rows.csv").write_bytes(content)
    leat.refused(leat.run("schema", "rows.csv", *arguments, cwd=tmp_path), *parts)
    assert [p.name for p in tmp_path.iterdir()] == ([] if content is None else ["rows.csv"]), "something was written"


@pytest.mark.parametrize("setting, parts", [
    ('delimiter: ";;"', ["job.yaml:3", "delimiter is ';;'"]), ("delimiter: a", ["job.yaml:3", "delimiter is 'a'"])])
def test_a_delimiter_that_cannot_be(tmp_path, setting, parts):
    (tmp_path / "rows.csv").write_text("1;2\n")
    job = f"""stream:
  files: {{format: csv, paths: [rows.csv]}}
schema: {{format: csv, {setting}, fields: {{x: {{type: number}}, y: {{type: number, role: label}}}}}}
"""
    (tmp_path / "job.yaml").write_text(job + SOFTMAX)
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), *parts)


def test_files_that_two_delimiters_divide_alike(tmp_path):
    (tmp_path / "rows.csv").write_text("1,5;2\n2,5;3\n")
    job = """stream: {files: {format: csv, paths: [rows.csv]}}
schema: {format: csv, fields: {x: {type: number}, y: {type: number, role: label}}}
"""
    (tmp_path / "job.yaml").write_text(job + SOFTMAX)
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), "rows.csv: ',' (2 columns) and ';' (2 columns)", "delimiter")


def test_poisoned_records_are_dead_letters_and_all_others_count_once(tmp_path):
    count, form = 20_000, poison.Json()
    records, reasons = poison.records(form, count)
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(records) + b"\n")
    job = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "  topic: events\n  partitions: 4\n  bots: {events: 1000000, customers: 1000}\n":
            "  files: {format: json, paths: [events.jsonl], partitions: 1}\n", **form.changes(tmp_path)})
    done = leat.run("train", job, "--data", tmp_path, "--directory", tmp_path / "job", "--json")
    poison.check(tmp_path / "job", leat.summary(done), count, reasons)


def test_poisoned_protobuf_records_of_an_embedded_log(tmp_path):
    count, form = 10_000, poison.Protobuf()
    records, reasons = poison.records(form, count)
    lines = b"\n".join(records)
    assert lines.splitlines() == records
    (tmp_path / "events").write_bytes(lines)
    log = tmp_path / "log"
    done = leat.run("publish", tmp_path / "events", "--format", "json", "--topic", "events", "--log", log, "--partitions", 1)
    assert done.returncode == 0, done.stderr
    leat.seal(log / "events/0000.log")
    job = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "  partitions: 4\n  bots: {events: 1000000, customers: 1000}\n": f"  log: {log}\n", **form.changes(tmp_path)})
    done = leat.run("train", job, "--directory", tmp_path / "job", "--json")
    poison.check(tmp_path / "job", leat.summary(done), count, reasons)
    for file in [job, tmp_path / "job/job.yaml"]:
        peeked = leat.run("peek", "--job", file, "--json")
        assert peeked.returncode == 0, peeked.stderr
        shown = [json.loads(line) for line in peeked.stdout.splitlines()]
        assert all(x["features"]["amount"] == x["offset"] for x in shown if x["offset"] not in reasons), shown
