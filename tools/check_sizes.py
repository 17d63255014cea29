#!/usr/bin/env python3
"""Checks the sizes of sources in src/, tests aside: long files, too many short ones, and routers, which only ask each concern.

Prints one line per mistake, and exits with 1 if there are any.
"""

import sys

import check_main
from count_lines import counted

LONGEST = 600
SHORT, MOST_SHORT = 40, 0.15
# All files of a router together: x.h, x.cc and x_*.cc.
ROUTER = 400
ROUTERS = ["protocol/coordinator/coordinator", "protocol/server/server", "protocol/worker/worker", "run/roles/coordinator_role", "lab/sim/cluster/cluster"]


def check(root):
    source = root / "src"
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in sorted(source.rglob("*.*"))
             if path.suffix in (".cc", ".h") and counted(path.relative_to(root))}
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
    found = check_main.found_in({f"src/{name}": "\n" * count for name, count in tree.items()}, check)
    wanted = ["src/net/long.cc: 601 lines", "src/protocol/worker/worker: 450 lines", "src: 2 of 8 files"]
    if len(found) != len(wanted) or not all(line.startswith(start) for line, start in zip(found, wanted)):
        sys.exit(f"check_sizes --selftest: found {found}, not {wanted}")


if __name__ == "__main__":
    check_main.main(__doc__, check, selftest)
