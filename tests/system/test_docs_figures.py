"""Figures in the documentation equal the output of their generators: tables, and the demo's picture."""

# folders: docs bench lab/sim

import json
import os
import pathlib
import re
import sys

import leat
import pytest

sys.path.insert(0, str(leat.ROOT / "tools"))
import bench_table  # noqa: E402
import demo_picture  # noqa: E402
import lab  # noqa: E402
import simulated_tables  # noqa: E402
import update_tables  # noqa: E402

BENCHES = pathlib.Path(os.environ.get("LEAT_BENCHES", leat.ROOT / "build/release/bench"))
SIMULATED = "tools/simulated_tables.py "
LAB = "tools/lab.py "
# Tolerance of an accuracy: processors round differently, and training amplifies the differences.
TOLERANCE = 0.02
PAGES = {path: path.read_text(encoding="utf-8") for path in update_tables.pages()}
# (page, command, lines) of each generated table
GENERATED = [(path, match["command"], match["body"].splitlines()) for path, text in PAGES.items()
             for match in update_tables.TABLE.finditer(text)]
MEASURED = [table for table in GENERATED if not table[1].startswith((SIMULATED, LAB))]
MEASURED_IDS = [command for _, command, _ in MEASURED]


def documented(name):
    """The rows of a simulated table on its page, whose head and tail have to be the generator's."""
    table = simulated_tables.TABLES[name]
    found = [(path, lines) for path, command, lines in GENERATED if command == SIMULATED + name]
    assert len(found) == 1, f"{name} is in {len(found)} places of the documentation"
    path, lines = found[0]
    assert path == leat.ROOT / table.page
    head, tail = len(table.head), len(table.tail)
    assert lines[:head] == table.head and lines[len(lines) - tail:] == table.tail
    lines = lines[head:len(lines) - tail]
    height, rest = divmod(len(lines), len(table.rows))
    assert height > 0 and rest == 0, f"{path}: {len(table.rows)} rows in {len(lines)} lines"
    return ["\n".join(lines[i:i + height]) for i in range(0, len(lines), height)]


def two_of(rows):
    """The positions of the rows to compare. The last row is often the largest cluster."""
    return [0, max(1, len(rows) - 2)][:len(rows)]


def accuracies(row):
    return re.sub(r"0\.\d{3}\b", "0.###", row), [float(x) for x in re.findall(r"0\.\d{3}\b", row)]


@pytest.mark.parametrize("name", simulated_tables.TABLES)
def test_the_page_of_a_simulated_table_names_its_options(name):
    table = simulated_tables.TABLES[name]
    assert documented(name)
    assert table.options in " ".join(PAGES[leat.ROOT / table.page].split())


@pytest.mark.parametrize("name", [name for name, table in simulated_tables.TABLES.items() if not table.real])
def test_two_rows_of_a_simulated_table_come_out_again(name, monkeypatch):
    monkeypatch.setenv("LEAT_PROGRAM", leat.PROGRAM)
    rows = documented(name)
    for i in two_of(rows):
        assert simulated_tables.TABLES[name].rows[i]() == rows[i]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, table in simulated_tables.TABLES.items() if table.real])
def test_two_rows_of_a_trained_table_come_out_again(name, monkeypatch):
    leat.data("mnist")
    monkeypatch.setenv("LEAT_PROGRAM", leat.PROGRAM)
    rows = documented(name)
    for i in two_of(rows):
        now, then = accuracies(simulated_tables.TABLES[name].rows[i]()), accuracies(rows[i])
        assert now[0] == then[0]
        assert now[1] == pytest.approx(then[1], abs=TOLERANCE)


@pytest.mark.parametrize("name", ["reduction", "placement"])
def test_a_table_of_the_lab_comes_out_again(name, tmp_path, monkeypatch):
    leat.data("mnist")
    monkeypatch.setenv("LEAT_PROGRAM", leat.PROGRAM)
    monkeypatch.setattr(lab, "PICTURES", tmp_path)
    ((_, _, lines),) = [table for table in GENERATED if table[1] == LAB + name]
    assert (lab.reduction() if name == "reduction" else lab.study(name)) == lines
    if name in lab.STUDIES:
        assert (tmp_path / f"{name}.svg").read_text() == (lab.LAB / f"{name}.svg").read_text()


# Stands in for the program in a benchmark: jobs end at once, with one summary for all of them.
INSTANT = """#!/bin/sh
echo '{"test_accuracy": 0.99, "test_loss": 1.5, "auc": 0.93, "auc_possible": 0.935}'
"""


def shape(line):
    """A row with the number of its measured value masked."""
    row = line.split("|")
    return [*row[:2], re.sub(r"\d+(\.\d+)?", "#", row[2]), *row[3:]]


def markdown_of_a_benchmark(name, tmp_path):
    """The output of `./leat bench NAME --markdown`, without measuring."""
    benchmark = BENCHES / f"bench_{name}"
    if not benchmark.exists():
        pytest.skip(f"{benchmark} is not built")
    program = tmp_path / "instant"
    program.write_text(INSTANT)
    program.chmod(0o755)
    for data in "mnist", "tinyshakespeare":
        (tmp_path / data).mkdir()
    done = leat.run("--markdown", "--runs", 1, "--data", tmp_path, program=benchmark,
                    env={"LEAT_PROGRAM": str(program)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def table_of_a_benchmark(name):
    """The output of bench_table.py for the rows that the benchmark's sources name, and rows that it has to omit."""
    if name == "prediction":
        source = (leat.ROOT / "bench/prediction.cc").read_text()
        narrow, wide = (100 * float(re.search(f"{which} = ([0-9.]+)", source)[1]) for which in ("kNarrow", "kWide"))
        strategies = re.findall(r'"(\w+)"', re.search(r"kStrategies\{([^;]*)", source)[1])
        texts = re.findall(r'WorstRow\("([^"]+)"', source)
        point = {"reference": "measured", "ratio": 1.05, "bound": None}
        rows = [{**point, "case": f"{strategy}, {link}"} for strategy in strategies for link in ("slow", "fast")]
        rows += [{"case": case, "value": 5.0, "bound": bound, "direction": "<=", "reference": None}
                 for case, bound in zip(texts, (wide, narrow), strict=True)]
        return bench_table.table(name, map(json.dumps, rows))
    if name == "timeline":
        source = (leat.ROOT / "bench/timeline.cc").read_text()
        bounds = re.findall(r'(?:add|MedianRow)\("([^"]+)",(?:[^;]*?)Ratio(AtMost|AtLeast)\(([0-9.]+)\)', source)
        rows = [{"case": case, "ratio": 1.0, "bound": float(bound), "bound_of": "ratio",
                 "direction": "<=" if which == "AtMost" else ">="} for case, which, bound in bounds]
        return bench_table.table(name, map(json.dumps, rows))
    if name == "python":
        source = (leat.ROOT / "bench/python.cc").read_text()
        bounds = re.findall(r'MedianRow\("([^"]+)"( \+ \w+(?:->|\.)version)?,\s*\w+,\s*"us",\s*"([^"]+)"[^;]*?'
                            r'Ratio(AtMost|AtLeast)\(([0-9.]+)\)', source)
        versions = {"partial_fit of ": "scikit-learn 1.0, MLPClassifier", "a loop of ": "PyTorch 2.0, fused Adam"}
        rows = [{"case": case + versions.get(case, ""), "reference": reference, "ratio": 1.0, "bound": float(bound),
                 "bound_of": "ratio", "direction": "<=" if which == "AtMost" else ">="}
                for case, _, reference, which, bound in bounds]
        return bench_table.table(name, map(json.dumps, rows))
    if name == "serve":
        source = (leat.ROOT / "bench/serve.cc").read_text()
        bounds = re.findall(r'MedianRow\(\s*"([^"]+)",\s*\w+,\s*"([^"]+)",\s*(?:"([^"]+)"|\{\})[^;]*?'
                            r'(Ratio|Value)At(Most|Least)\(([0-9.]+)\)', source)
        rows = [{"case": case, "unit": unit, "reference": reference, "ratio": 1.0, "value": 1.0, "bound": float(bound),
                 "bound_of": of.lower(), "direction": "<=" if which == "Most" else ">="}
                for case, unit, reference, of, which, bound in bounds]
        return bench_table.table(name, map(json.dumps, rows))
    sources = {"engine": ("bench/frame/families.cc", "bench/engine.cc", r"kMaxRatio = (\S+);")}
    cases, bounds, pattern = sources[name]
    bound = float(re.search(pattern, (leat.ROOT / bounds).read_text())[1])
    rows = []
    for case in re.findall(r"(?:DenseCase\(|\.name = )\"(\w+)\"", (leat.ROOT / cases).read_text()):
        row = {"case": case + " step", "ratio": 0.5, "bound": bound, "bound_of": "ratio", "direction": "<="}
        rows += [row, {**row, "bound": None}, {**row, "bound": 1.15}, {**row, "case": case + " arena"}]
    return bench_table.table(name, map(json.dumps, rows))


@pytest.mark.parametrize("page, command, lines", MEASURED, ids=MEASURED_IDS)
def test_a_measured_table_has_the_rows_and_units_of_its_benchmark(page, command, lines, tmp_path):
    if bench := re.fullmatch(r"\./leat bench (\w+) --markdown", command):
        printed = markdown_of_a_benchmark(bench[1], tmp_path)
    else:
        bench = re.fullmatch(r"tools/bench_table\.py (\w+)", command)
        assert bench, f"{page}: '{command}' is neither a benchmark nor a simulation"
        printed = table_of_a_benchmark(bench[1])
    assert list(map(shape, lines)) == list(map(shape, printed.splitlines()))


@pytest.mark.parametrize("page, command, lines", MEASURED, ids=MEASURED_IDS)
def test_measured_values_reach_the_bounds_beside_them(page, command, lines):
    for line in lines[2:]:
        value, (direction, limit) = float(line.split("|")[2].split()[0]), line.split("|")[3].split()[:2]
        assert value <= float(limit) if direction == "≤" else value >= float(limit), line


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(leat.ROOT)) for path in PAGES])
def test_no_table_of_figures_is_typed_by_hand(page):
    # Thousands, three decimals, or decimals and a unit. Defaults of settings look otherwise.
    figure = re.compile(r"\| (?:[≤≥] )?(?:\d{1,3}(?:,\d{3})+|\d+\.(?!0)\d{3,}|\d+\.\d+ [^ |])")
    for line in update_tables.TABLE.sub("", PAGES[page]).splitlines():
        assert not (line.startswith("|") and figure.search(line)), f"no generator prints: {line}"


def test_the_picture_shows_what_the_demo_displays(monkeypatch):
    monkeypatch.setenv("LEAT_PROGRAM", leat.PROGRAM)

    def lines(svg):
        """The text without what differs between runs: bars, numbers, the checkpoint, slow marks, the order of lines."""
        svg = re.sub(r" y=\"\d+\"|[▁-█]+| +slow(?=<)|(?<=>checkpoint )[^<]*", "", svg)
        return sorted(re.sub(r"\d[\d.,:]*", "0", line) for line in re.sub(" +", " ", svg).splitlines())

    now = demo_picture.draw(["--events", "200000", "--rate", "100000"])
    assert lines(now) == lines((leat.ROOT / "docs/demo.svg").read_text(encoding="utf-8"))
