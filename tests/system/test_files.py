"""Files as people have them: records of several lines, other encodings, marks of missing values, other kinds of files."""

# folders: stream job

import csv
import json
import random

import pytest

import leat

# The prediction is the sum of the features and labels are 0, so that `mae` is the mean of the sums.
SUM = """model:
  layers:
    - dense: {units: 1, init: {constant: 1}}
  loss: squared_error
optimizer: {type: sgd, learning_rate: 1.0e-30}
strategy: async
train: {split_batches: 1, batch_size: 4%s}
cluster: {workers: 1, ps: 1}
"""


def job_of(path, fields, form="csv", files="", schema="", train="", partitions=1):
    files = {"csv": "header: true, "}.get(form, "") + files
    return f"""name: t
stream:
  files: {{format: {form}, paths: [{path}], {files}partitions: {partitions}}}
schema:
  format: {form}
{"".join(f"  {line}" + chr(10) for line in schema.splitlines())}  fields: {fields}
{SUM % train}"""


def train(folder, text):
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    return leat.run("train", "job.yaml", "--json", cwd=folder)


AB = "{a: {type: number}, b: {type: number}, note: {role: ignore}, y: {type: number, role: label}}"


@pytest.mark.parametrize("partitions, end", [(1, "\n"), (3, "\r\n")])
def test_a_record_of_csv_may_have_several_lines(tmp_path, partitions, end):
    """Line ends inside quotes belong to the record, and no line from inside a text is trained as a record."""
    rows = [[a, 1, f"a note,{end}5,5,hello,9{end}" if a % 7 == 3 else "fine", 0] for a in range(60)]
    with open(tmp_path / "d.csv", "w", newline="") as out:
        csv.writer(out, lineterminator=end).writerows([["a", "b", "note", "y"], *rows])
    result = leat.summary(train(tmp_path, job_of("d.csv", AB, partitions=partitions)))
    assert (result["events"], result["dead_letters"]) == (60, 0)
    assert result["mae"] == pytest.approx(sum(a for a, *_ in rows) / 60 + 1, rel=1e-5)


def test_a_quote_that_is_never_closed_costs_one_record(tmp_path):
    rows = "".join(f'{a},1,{chr(34) if a == 50 else ""}x,0\n' for a in range(60))
    (tmp_path / "d.csv").write_text("a,b,note,y\n" + rows)
    result = leat.summary(train(tmp_path, job_of("d.csv", AB)))
    assert (result["events"], result["dead_letters"]) == (59, 1)
    assert "a quote is not closed" in result["last_dead_letter"]


def test_quotes_far_from_each_other_cost_their_lines_alone(tmp_path):
    rows = "".join(f'{a},1,{chr(34) if a in (100, 900) else ""}large table,0\n' for a in range(1000))
    (tmp_path / "d.csv").write_text("a,b,note,y\n" + rows)
    result = leat.summary(train(tmp_path, job_of("d.csv", AB)))
    assert (result["events"], result["dead_letters"]) == (998, 2)
    assert "column 3: a quote is not closed" in result["last_dead_letter"]


def propose_and_train(folder, fields, *options):
    """Trains with the settings that `leat schema` proposes, and other fields."""
    proposed = leat.run("schema", "d.csv", *options, cwd=folder)
    assert proposed.returncode == 0, proposed.stderr
    head = proposed.stdout.split("  fields:")[0]
    return proposed.stdout, leat.summary(train(folder, f"name: t\n{head}  fields: {fields}\n" + SUM % ""))


@pytest.mark.parametrize("end, partitions", [("\n", 1), ("\r\n", 3)])
def test_escaped_line_ends_belong_to_the_record(tmp_path, end, partitions):
    """As Python's csv module writes them without quotes."""
    rows = [[a, 1, f"see{end}5,5" if a % 10 == 3 else "fine", 0] for a in range(40)]
    with open(tmp_path / "d.csv", "w", newline="") as out:
        csv.writer(out, lineterminator=end, quoting=csv.QUOTE_NONE, escapechar="\\").writerows([["a", "b", "note", "y"], *rows])
    for quote in ("none", '"\\""'):
        schema = f'quote: {quote}\nescape: "\\\\"'
        result = leat.summary(train(tmp_path, job_of("d.csv", AB, schema=schema, partitions=partitions)))
        assert (result["events"], result["dead_letters"]) == (40, 0)
        assert result["mae"] == pytest.approx(20.5, rel=1e-5)
    text, result = propose_and_train(tmp_path, AB)
    assert '  quote: none\n  escape: "\\\\"\n' in text
    assert (result["events"], result["dead_letters"]) == (40, 0)


def test_null_of_databases_is_a_missing_value(tmp_path):
    rows = "".join(f'{chr(92) + "N" if a % 4 == 0 else a % 2},{a},"say {chr(92)}"x{chr(92)}", ok",0\n' for a in range(80))
    (tmp_path / "d.csv").write_text("b,a,note,y\n" + rows)
    fields = AB.replace("b: {type: number}", "b: {type: number, default: 0}")
    text, result = propose_and_train(tmp_path, fields)
    assert '  escape: "\\\\"\n  missing: ["\\\\N"]\n' in text
    assert (result["events"], result["dead_letters"]) == (80, 0)
    assert result["mae"] == pytest.approx(39.5 + 0.5, rel=1e-5)


def test_quotes_and_escapes_can_be_told(tmp_path):
    (tmp_path / "d.csv").write_text("a,b,note,y\n" + "".join(f"{a * 7 % 80},1,'x^, y,0\n" for a in range(80)))
    text, result = propose_and_train(tmp_path, AB, "--quote", "none", "--escape", "^", "--decimal", ".")
    assert '  quote: none\n  escape: "^"\n' in text
    assert (result["events"], result["dead_letters"]) == (80, 0)
    leat.refused(leat.run("schema", "d.csv", "--quote", "ab", cwd=tmp_path), "--quote is 'ab'", "or none")
    leat.refused(leat.run("schema", "d.csv", "--delimiter", ",", "--escape", ",", cwd=tmp_path), "escape is ',', as delimiter is")


@pytest.mark.parametrize("dialect", [
    {"delimiter": ","}, {"delimiter": ";", "quotechar": "'"}, {"delimiter": "\t", "escapechar": "\\", "doublequote": False},
    {"delimiter": "|", "quoting": csv.QUOTE_ALL}])
def test_what_pythons_csv_writes_is_read_as_proposed(tmp_path, dialect):
    """Texts with everything in them: the proposal's settings decode each record as Python's csv module reads it."""
    chance = random.Random(3)
    quote = dialect.get("quotechar", '"')
    texts = ["plain", "a, b; c|d", "two\nlines", f"say {quote}hi{quote}, all", "tab\tin", "x\n\ny"]
    rows = [[chance.randint(0, 50), chance.choice(texts), 0] for _ in range(400)]
    with open(tmp_path / "d.csv", "w", newline="") as out:
        csv.writer(out, lineterminator="\n", **dialect).writerows([["a", "kind", "y"], *rows])
    with open(tmp_path / "d.csv", newline="") as lines:
        read = list(csv.reader(lines, **dialect))[1:]
    assert [row[1] for row in read] == [row[1] for row in rows]
    proposed = leat.run("schema", "d.csv", cwd=tmp_path)
    assert proposed.returncode == 0, proposed.stderr
    head = proposed.stdout.split("  fields:")[0]
    value = texts[3].replace('"', '\\"')
    fields = ("  fields:\n    a: {type: number}\n"
              f'    kind: {{type: category, values: ["{value}", "two\\nlines"]}}\n    y: {{type: number, role: label}}\n')
    done = train(tmp_path, "name: t\n" + head + fields + SUM % "")
    result = leat.summary(done)
    assert (result["events"], result["dead_letters"]) == (400, 0)
    listed = sum(kind in (texts[3], "two\nlines") for _, kind, _ in rows)
    assert result["mae"] == pytest.approx((sum(a for a, *_ in rows) + listed) / 400, rel=1e-5)


TOWN = "{a: {type: number}, town: {type: category, values: [Málaga, x]}, y: {type: number, role: label}}"


def test_text_that_is_not_utf8_is_no_silent_zero(tmp_path):
    text = "a,town,y\n" + "".join(f"{a},Málaga,0\n" for a in range(50))
    (tmp_path / "d.csv").write_bytes(text.encode("latin-1"))
    leat.refused(train(tmp_path, job_of("d.csv", TOWN)), "50 of the first 50 records", "is not UTF-8 (byte 0xe1 at 3)",
                 "encoding: latin-1")
    result = leat.summary(train(tmp_path, job_of("d.csv", TOWN, files="encoding: latin-1, ")))
    assert (result["events"], result["dead_letters"]) == (50, 0)
    assert result["mae"] == pytest.approx(25.5)
    leat.refused(leat.run("schema", "d.csv", cwd=tmp_path), "d.csv:2: is not UTF-8", "--encoding latin-1")
    (tmp_path / "e.csv").write_bytes(("town,y\n" + "Málaga,0\nCádiz,1\nCádiz,0\n" * 20).encode("latin-1"))
    proposed = leat.run("schema", "e.csv", "--encoding", "latin-1", cwd=tmp_path)
    assert "encoding: latin-1" in proposed.stdout and "Málaga" in proposed.stdout, proposed.stderr
    leat.refused(train(tmp_path, job_of("d.csv", TOWN, files="encoding: latin-99, ")), "job.yaml:3", "there is no encoding 'latin-99'")


def test_a_file_of_utf16_is_read_by_its_encoding(tmp_path):
    text = "a,town,y\n" + "".join(f"{a},Málaga,0\n" for a in range(50))
    (tmp_path / "d.csv").write_bytes(text.encode("utf-16"))
    leat.refused(train(tmp_path, job_of("d.csv", TOWN)), "d.csv: is utf-16 text, not UTF-8", "encoding: utf-16")
    result = leat.summary(train(tmp_path, job_of("d.csv", TOWN, files="encoding: utf-16, ")))
    assert (result["events"], result["dead_letters"], result["mae"]) == (50, 0, pytest.approx(25.5))


@pytest.mark.parametrize("mark", ["NA", "null", "?", "", "none"])
def test_marks_of_missing_numbers_take_the_default(tmp_path, mark):
    (tmp_path / "d.csv").write_text("a,b,y\n" + "".join(f"{a},{mark if a % 20 == 0 else 1},0\n" for a in range(200)))
    fields = "{a: {type: number}, b: {type: number, default: 0}, y: {type: number, role: label}}"
    result = leat.summary(train(tmp_path, job_of("d.csv", fields)))
    assert (result["events"], result["dead_letters"]) == (200, 0)
    assert result["mae"] == pytest.approx((199 * 100 + 190) / 200, rel=1e-5)


def test_missing_decimal_quote_and_escape_are_settings(tmp_path):
    rows = "".join(f"{a},5;'it\\'s\n{a}';{('-999', '-999,0')[a % 8 // 4] if a % 4 == 0 else 1};0\n" for a in range(80))
    (tmp_path / "d.csv").write_text("a;note;b;y\n" + rows)
    fields = "{a: {type: number}, note: {role: ignore}, b: {type: number, default: 0}, y: {type: number, role: label}}"
    schema = """delimiter: ";"\nquote: "'"\nescape: "\\\\"\ndecimal: ","\nmissing: ["-999"]"""
    result = leat.summary(train(tmp_path, job_of("d.csv", fields, schema=schema)))
    assert (result["events"], result["dead_letters"]) == (80, 0)
    assert result["mae"] == pytest.approx(39.5 + 0.5 + 0.75, rel=1e-5)
    leat.refused(train(tmp_path, job_of("d.csv", fields, schema=schema.replace('","', '";"'))), "job.yaml:9", "decimal")


XY = "{a: {type: number}, y: {type: number, role: label}}"


def test_the_limit_of_dead_letters_holds_for_short_files(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n" + "".join(f"{'oops' if a % 10 else a},0\n" for a in range(1100)))
    leat.refused(train(tmp_path, job_of("d.csv", XY)), "990 of the first 1100 records do not fit the schema", "'oops' is not a number")
    done = train(tmp_path, job_of("d.csv", XY, train=", max_dead_letter_rate: 0.95"))
    assert leat.summary(done)["events"] == 110


def test_the_limit_of_dead_letters_holds_at_the_end_of_a_topic(tmp_path):
    """300 records, an eighth of them bad: too few to stop the job on its way, but at the end it says so."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"a": "oops" if i % 8 == 0 else i, "y": 0}) + "\n" for i in range(300)))
    done = leat.run("publish", "rows.jsonl", "--topic", "t", "--log", "log", "--partitions", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    leat.seal(tmp_path / "log/t/0000.log")
    job = f"""name: t
stream: {{topic: t, log: log}}
schema: {{format: json, fields: {XY}}}
{SUM % ""}"""
    (tmp_path / "job.yaml").write_text(job)
    done = leat.run("train", "job.yaml", "--directory", "job", "--data", ".", "--json", cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "too many dead letters: 38 of 300 events (12.7 %); at most 10 % are allowed" in done.stderr, done.stderr


@pytest.mark.parametrize("content, form, parts", [
    (b'[{"a":0,"y":0},{"a":1,"y":0}]', "json", ["is a JSON array; one object per line is needed", "jq -c '.[]'"]),
    (b'[\n{"a": 0, "y": 0},\n{"a": 1, "y": 0}\n]\n', "json", ["is a JSON array"]),
    (b'{\n  "a": 0,\n  "y": 0\n}\n', "json", ["objects of several lines"]),
    (b"BZh91AY&SY\x00\x01", "csv", ["bzip2", "bunzip2 -k"]),
    (b"\xfd7zXZ\x00\x00\x04", "csv", ["xz -dk"]),
    (b"PK\x03\x04\x14\x00\x00\x00 d.csv", "csv", ["zip archive", "unzip"]),
    (b"a,y\r1,0\r2,0\r", "csv", ["CR alone", "tr "]),
    (b"a,y\n1,0\r2,0\r", "csv", ["CR alone", "tr "]),
    (b"sep=;\r\na;y\r\n1;0\r\n", "csv", ["begins with sep=;", "tail -n +2"]),
    (b"@relation r\n@attribute a numeric\n@attribute y numeric\n@data\n1,0\n2,0\n", "csv", ["ARFF", "loadarff"]),
    (b"[[0,1],[1,2]]", "json", ["is a JSON array of arrays", "jq -r"]),
    (b"[0, 1]\n[1, 2]\n[1, 3]\n", "json", ["has JSON arrays", "jq -r '@csv'"]),
    (b'{"a":{"0":0,"1":1},"y":{"0":0,"1":0}}', "json", ["is one JSON object that holds columns", 'orient="records"']),
    (b'{"data": [{"a": 0, "y": 0}, {"a": 1, "y": 0}]}', "json", ["is one JSON object that holds all rows", "jq -c '.data[]'"]),
    (b"\x80\x04\x95\x10\x00\x00", "csv", ["pickle", "read_pickle"]),
    ("a,y\n1,0\n2,0\n".encode("utf-16-le"), "csv", ["utf-16le text", "encoding: utf-16le"]),
])
def test_a_file_of_another_kind_is_named(tmp_path, content, form, parts):
    """The error is one line: the file, its kind, the remedy."""
    (tmp_path / "d").write_bytes(content)
    leat.refused(leat.run("schema", "d", cwd=tmp_path), "d: ", *parts)
    leat.refused(train(tmp_path, job_of("d", XY, form)), "d: ", *parts)
    assert {p.name for p in tmp_path.iterdir()} == {"d", "job.yaml"}, "something was written"


def test_columns_that_are_missing_are_said_with_those_that_there_are(tmp_path):
    (tmp_path / "d.csv").write_text("alpha,beta\n1,0\n")
    leat.refused(train(tmp_path, job_of("d.csv", XY)), "'a' is not among the columns; there are 'alpha', 'beta'")
    (tmp_path / "d.csv").write_text("a,y,a\n1,0,2\n")
    leat.refused(train(tmp_path, job_of("d.csv", XY)), "job.yaml:", "2 columns have the name 'a'")


def test_the_file_that_does_not_fit_is_named(tmp_path):
    """The error names the bad one of several files, also among those of an evaluation."""
    (tmp_path / "g.csv").write_text("a,y\n" + "1,0\n" * 50)
    (tmp_path / "bad.csv").write_text("a,y\n" + "oops,0\n" * 50)
    leat.refused(train(tmp_path, job_of("g.csv, bad.csv", XY)), "bad.csv: 50 of the first 50 records do not fit the schema")
    (tmp_path / "g2.csv").write_text("año,y\n1,0\n", encoding="utf-8")
    job = job_of("g.csv", XY) + "evaluate: {files: {format: csv, paths: [g2.csv], header: true}}\n"
    leat.refused(train(tmp_path, job), "g2.csv: field 'a' is not among the columns; there are 'año', 'y'")
    (tmp_path / "g2.csv").write_text("Report of May\n\na,y\n1,0\n")
    leat.refused(train(tmp_path, job), "g2.csv: the names of the columns are in line 3", "tail -n +3")


@pytest.mark.parametrize("content, parts", [
    ("0.5 0\n1.5 1\n2.5 0\n" * 10, ["has columns divided by blanks", "awk '{$1 = $1} 1' OFS=, d > d.new.csv"]),
    ("   0.5   0\n   1.5   1\n" * 10, ["has columns divided by blanks"]),
    ("0 1:0.5 3:1\n1 2:0.5\n" * 10, ["has pairs INDEX:VALUE of libsvm"]),
    ("# made by hand\n# in May\na,y\n" + "1,0\n2,1\n" * 20, ["the names of the columns are in line 3", "tail -n +3 d"]),
])
def test_schema_takes_no_line_for_a_category(tmp_path, content, parts):
    (tmp_path / "d").write_text(content)
    leat.refused(leat.run("schema", "d", cwd=tmp_path), "d: ", *parts)


def test_a_delimiter_that_is_rare_is_found(tmp_path):
    (tmp_path / "d.csv").write_text("a\x01y\n" + "1\x010\n2\x011\n" * 40)
    proposed = leat.run("schema", "d.csv", "--label", "y", cwd=tmp_path)
    assert proposed.returncode == 0 and 'delimiter: "\\x01"' in proposed.stdout, (proposed.stdout, proposed.stderr)
    assert leat.summary(train(tmp_path, job_of("d.csv", XY)))["events"] == 80
    leat.refused(train(tmp_path, job_of("d.csv", XY, schema='delimiter: " "')), "delimiter is ' '", "awk")


def test_a_header_that_is_not_declared_is_no_record(tmp_path):
    """Without it, columns would be taken in the order of the fields."""
    (tmp_path / "d.csv").write_text("y,a\n" + "1,0\n" * 50)
    leat.refused(train(tmp_path, job_of("d.csv", XY).replace("header: true, ", "")), "d.csv: its first record names the fields", "header: true")


def test_advise_says_which_file_is_missing(tmp_path):
    (tmp_path / "job.yaml").write_text(job_of("d.csv", XY).replace("header: true, ", ""))
    leat.refused(leat.run("advise", "job.yaml", cwd=tmp_path), "d.csv: No such file", "--events")
