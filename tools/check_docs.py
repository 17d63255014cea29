#!/usr/bin/env python3
"""Checks documents: bullets of README.md have at most two lines, and links in Markdown files lead somewhere.

A link is checked when it names a file of the repository, a heading, or both. Prints one line for each mistake, and
exits 1 when there is any.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

BULLET_LINES = 2
BULLET = re.compile(r"\s*([-*+]|\d+\.) ")
FENCE = re.compile(r"\s*```")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SKIPPED = ("build", ".git", ".cache")


def prose(path):
    """(number, line) of all lines; those of fenced blocks are empty."""
    fenced, lines = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        lines.append((number, "" if fenced or fence else line))
        fenced ^= bool(fence)
    return lines


def anchors(path):
    """The names that links may give the headings of a file, as GitHub makes them."""
    found = {}
    for _, line in prose(path):
        if heading := re.match(r"#+ (.*)", line):
            name = re.sub(r"[^\w\- ]", "", heading[1].strip().lower()).replace(" ", "-")
            found[name] = found.get(name, -1) + 1
    return {name if k == 0 else f"{name}-{k}" for name, last in found.items() for k in range(last + 1)}


def check_bullets(root, errors):
    began, length = None, 0
    for number, line in [*prose(root / "README.md"), (0, "")]:
        bullet = BULLET.match(line)
        if began and line.strip() and not bullet:
            length += 1
            continue
        if began and length > BULLET_LINES:
            errors.append(f"README.md:{began}: a bullet of {length} lines; at most {BULLET_LINES}")
        began, length = (number, 1) if bullet else (None, 0)


def check_links(root, errors):
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root)
        if name.parts[0] in SKIPPED:
            continue
        for number, line in prose(path):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                leads_to = path.parent / file if file else path
                if not leads_to.exists():
                    errors.append(f"{name}:{number}: no file {target}")
                elif anchor and anchor not in anchors(leads_to):
                    errors.append(f"{name}:{number}: no heading for {target}")


def check(root):
    errors = []
    check_bullets(root, errors)
    check_links(root, errors)
    return errors


def selftest():
    """A small tree with a mistake of each kind: each must be seen, and nothing else."""
    tree = {
        "README.md": "# A\n\n- one\n  two\n- one\n  two\n  three\n- [a](docs/a.md)\n1. one\n   two\n\n"
                     "prose\nprose\nprose\n\n2. one\n   two\n   three\n",
        "docs/a.md": "# One: `two`, three\n## Same\n## Same\n```\n# None\n[x](gone.md)\n```\n"
                     "[a](#one-two-three) [a](#same-1)\n[a](#same-2)\n[a](#none)\n[a](../README.md#a) [a](https://example.org/x#y) [a](../docs/)\n"
                     "[a](../README.md#b)\n[a](gone.md)\n`[x](gone.md)`\n",
        "build/b.md": "[a](gone.md)\n",
    }
    expected = ["README.md:16", "README.md:5", "docs/a.md:10", "docs/a.md:12", "docs/a.md:13", "docs/a.md:9"]
    with tempfile.TemporaryDirectory() as name:
        for path, text in tree.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_text(text, encoding="utf-8")
        found = sorted(error.split(": ")[0] for error in check(Path(name)))
    if found != expected:
        sys.exit(f"check_docs --selftest: expected {expected}, found {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--selftest", action="store_true")
    args = parser.parse_args()
    if args.selftest:
        return selftest()
    errors = check(args.root)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
