#!/usr/bin/env python3
"""Prints a table of the documentation from the rows of a benchmark.

    tools/bench_table.py BENCHMARK

The table has the rows with a bound, which compare Leat with its fastest baseline.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# By benchmark: the suffix of the table's cases, their bound, and the titles.
TABLES = {"engine": (" step", 1, ["training step on one core", "time, relative to the fastest framework", "bound"])}


def table(benchmark, lines):
    """The table for the JSON lines that a benchmark has printed."""
    ending, bound, titles = TABLES[benchmark]
    rows = []
    for line in lines:
        row = json.loads(line)
        if row["case"].endswith(ending) and row["bound"] == bound and row["bound_of"] == "ratio":
            rows.append([row["case"].removesuffix(ending), f"{row['ratio']:.2f}",
                         f"{row['direction'].replace('<=', '≤')} {row['bound']:g}"])
    head, *body = ("| " + " | ".join(cells) + " |" for cells in [titles, *rows])
    return "\n".join([head, "|" + "---|" * len(titles), *body]) + "\n"


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(f"{__doc__}\nBenchmarks: {', '.join(TABLES)}")
    done = subprocess.run([ROOT / "leat", "bench", sys.argv[1], "--json"], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"bench_table: the benchmark ended with status {done.returncode}")
    print(table(sys.argv[1], done.stdout.splitlines()), end="")


if __name__ == "__main__":
    main()
