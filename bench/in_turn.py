#!/usr/bin/env python3
"""Runs benchmarks of two trees in turn, and prints how the new one compares with the old one.

    bench/in_turn.py OLD NEW NAME... [--runs 5] [--worse 0.03] [-- OPTION...]

OLD, NEW: checkouts in which `./leat bench NAME` has run, so that its program is built. The options are the benchmark's.
A row is worse if the median of its value is, and that of its ratio to its reference, if it has one: by more than the share
--worse and by more than the old tree's runs differ from each other. Then the exit status is 1.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys


def measure(tree, name, options):
    """The rows by their case and reference."""
    program = pathlib.Path(tree).resolve() / f"build/release/bench/bench_{name}"
    done = subprocess.run([program, "--json", *options], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} ended with status {done.returncode}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(row["case"], row["reference"]): row for row in rows if row.get("value")}


def compare(old, new, key, worse):
    """(ratio of the medians: above 1 is worse; spread of the old figures; whether it is worse)"""
    before, after = ([row[key] for row in rows] for rows in (old, new))
    ratio = statistics.median(after) / statistics.median(before)
    if "/s" in old[0]["unit"]:  # a rate
        ratio = 1 / ratio
    spread = (max(before) - min(before)) / statistics.median(before)
    return ratio, spread, ratio > 1 + max(worse, spread)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--worse", type=float, default=0.03)
    arguments, options = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1:]
    args = parser.parse_args(arguments)

    any_worse = False
    print("| benchmark | old | new | new / old, above 1 is worse (spread of the old runs) | as ratios to the reference | |\n"
          "|---|---|---|---|---|---|")
    for name in args.names:
        runs = {}
        for _ in range(args.runs):
            for side, tree in enumerate([args.old, args.new]):
                for key, row in measure(tree, name, options).items():
                    runs.setdefault(key, ([], []))[side].append(row)
        for (case, reference), (old, new) in runs.items():
            if not old or not new:
                continue
            found = [compare(old, new, key, args.worse) for key in (["value", "ratio"] if reference else ["value"])]
            is_worse = all(worse for _, _, worse in found)
            any_worse |= is_worse
            cells = [f"{statistics.median(row['value'] for row in side):.4g}" for side in (old, new)]
            cells[0] += " " + old[0]["unit"]
            cells += [f"{ratio:.3f} ({spread:.3f})" for ratio, spread, _ in found] + [""] * (2 - len(found))
            print(f"| {name}: {case}{f' ({reference})' if reference else ''} | {' | '.join(cells)} |"
                  f" {'worse' if is_worse else ''} |", flush=True)
    return 1 if any_worse else 0


if __name__ == "__main__":
    sys.exit(main())
