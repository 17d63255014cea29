#!/usr/bin/env python3
"""Checks the sizes of sources in src/, tests aside: long files, too many short ones, and routers, which only ask each concern.

Prints one line per mistake, and exits with 1 if there are any.
"""

import argparse
import sys
import tempfile
from pathlib import Path

LONGEST = 600
SHORT, MOST_SHORT = 40, 0.15
# All files of a router together: x.h, x.cc and x_*.cc.
ROUTER = 400
ROUTERS = ["protocol/coordinator/coordinator", "protocol/server/server", "protocol/worker/worker", "run/roles/coordinator_role", "lab/sim/cluster/cluster"]


def check(root):
    source = root / "src"
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in sorted(source.rglob("*.*")) if path.suffix in (".cc", ".h")
             and not path.name.endswith("_test.cc") and path.name != "testing.h" and "mutants" not in path.parts}
    errors = [f"{path.relative_to(root)}: {count} lines, at most {LONGEST}" for path, count in lines.items() if count > LONGEST]
    for router in ROUTERS:
        if (count := sum(lines.get(path, 0) for path in source.glob(router + "*"))) > ROUTER:
            errors.append(f"src/{router}: {count} lines, at most {ROUTER} for a router")
    short = [path for path, count in lines.items() if count < SHORT]
    if len(short) > MOST_SHORT * len(lines):
        errors.append(f"src: {len(short)} of {len(lines)} files have fewer than {SHORT} lines, at most {MOST_SHORT:.0%} may")
    return errors


def selftest():
    """Checks a small tree with one mistake of each kind: all must be found, and nothing else."""
    tree = {"net/long.cc": LONGEST + 1, "net/longest.cc": LONGEST, "net/a_test.cc": 2 * LONGEST, "net/c.h": SHORT - 1, "net/d.h": 1, "net/e.h": SHORT,
            "protocol/server/server.cc": ROUTER, "protocol/worker/worker.cc": ROUTER,
            "protocol/worker/worker.h": 50}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, count in tree.items():
            (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "src" / name).write_text("\n" * count)
        found = check(root)
    wanted = ["src/net/long.cc: 601 lines", "src/protocol/worker/worker: 450 lines", "src: 2 of 8 files"]
    if len(found) != len(wanted) or not all(line.startswith(start) for line, start in zip(found, wanted)):
        sys.exit(f"check_sizes --selftest: found {found}, not {wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--selftest", action="store_true")
    args = parser.parse_args()
    if args.selftest:
        return selftest()
    errors = check(args.root.resolve())
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
