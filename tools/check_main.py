"""Options of the checks of the tree, and a small tree with mistakes on which a check tries itself."""

import argparse
import sys
import tempfile
from pathlib import Path


def found_in(tree, check):
    """Mistakes that `check` finds in a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as name:
        for path, text in tree.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_text(text, encoding="utf-8")
        return check(Path(name))


def main(description, check, selftest):
    """Prints the mistakes that `check` finds in a root, one per line, and exits with 1 if there are any."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--selftest", action="store_true")
    args = parser.parse_args()
    if args.selftest:
        sys.exit(selftest())
    errors = check(args.root)
    for error in errors:
        print(error)
    sys.exit(1 if errors else 0)
