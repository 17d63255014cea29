#!/usr/bin/env python3
"""Prints a table of the documentation from the rows of a benchmark.

    tools/bench_table.py BENCHMARK [FILE]

FILE: what the benchmark has printed with --json; without it the benchmark is run. The table has rows with a bound.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def bound_of(row):
    return f"{row['direction'].replace('<=', '≤').replace('>=', '≥')} {row['bound']:g}"


def engine(rows):
    """Training steps compared with the fastest framework."""
    yield ["training step on one core", "time, relative to the fastest framework", "bound"]
    for row in rows:
        if row["case"].endswith(" step") and row["bound"] == 1 and row["bound_of"] == "ratio":
            yield [row["case"].removesuffix(" step"), f"{row['ratio']:.2f}", bound_of(row)]


def prediction(rows):
    """The largest error of each strategy, and the errors with a bound."""
    points = [row for row in rows if row["reference"] == "measured"]
    summary = {row["case"]: row for row in rows if row["bound"] is not None}
    largest = summary.pop("largest error of all")
    yield ["points", "error", "bound"]
    for strategy in dict.fromkeys(row["case"].split(",")[0] for row in points):
        worst = max(abs(row["ratio"] - 1) for row in points if row["case"].startswith(strategy + ","))
        yield [f"{strategy}: the worst", f"{100 * worst:.1f} %", bound_of(largest) + " %"]
    for case, row in summary.items():
        yield [case.removeprefix("error of "), f"{row['value']:.1f} %", bound_of(row) + " %"]


def timeline(rows):
    """Recording compared with the same without."""
    yield ["what", "relative to the same that is not recorded", "bound"]
    for row in rows:
        if row["bound"] is not None and row["bound_of"] == "ratio":
            yield [row["case"], f"{row['ratio']:.3f}", bound_of(row)]


def python(rows):
    """A step from Python, compared with the same in C++ and in other libraries, whose versions are left out."""
    yield ["time of a step", "ratio", "bound"]
    for row in rows:
        if row["bound"] is not None and row["bound_of"] == "ratio":
            case = re.sub(r" [0-9.]+,", ",", row["case"])
            yield [f"{case}, to {row['reference']}", f"{row['ratio']:.2f}", bound_of(row)]


def serve(rows):
    """Live predictions."""
    yield ["what", "measured", "bound"]
    for row in rows:
        if row["bound"] is None:
            continue
        if row["bound_of"] == "ratio":
            yield [f"{row['case']}, relative to {row['reference']}", f"{row['ratio']:.2f}", bound_of(row)]
        else:
            yield [row["case"], f"{row['value']:.2f} {row['unit']}", f"{bound_of(row)} {row['unit']}"]


TABLES = {"engine": engine, "prediction": prediction, "python": python, "serve": serve, "timeline": timeline}


def table(benchmark, lines):
    """The table for the JSON lines that a benchmark has printed."""
    head, *body = TABLES[benchmark]([json.loads(line) for line in lines])
    text = ["| " + " | ".join(cells) + " |" for cells in [head, *body]]
    return "\n".join([text[0], "|" + "---|" * len(head), *text[1:]]) + "\n"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in TABLES:
        sys.exit(f"{__doc__}\nBenchmarks: {', '.join(TABLES)}")
    if len(sys.argv) == 3:
        lines = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
    else:
        done = subprocess.run([ROOT / "leat", "bench", sys.argv[1], "--json"], stdout=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"bench_table: the benchmark ended with status {done.returncode}")
        lines = done.stdout.splitlines()
    print(table(sys.argv[1], lines), end="")


if __name__ == "__main__":
    main()
