#!/usr/bin/env python3
"""Counts lines of code and of comments of the program, without its tests.

    tools/count_lines.py                # of the working tree, by folder
    tools/count_lines.py v1 v2          # of commits, and the differences between the first and the last

Counted are `.cc`, `.h` and `.proto` in `src/`, and in `apps/` of older commits, without `*_test.cc`, `testing.h` and `mutants/`. A line with code and a comment
is in both counts; a blank one is in neither, and `lines` has them all.
"""

import argparse
import collections
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOKEN = re.compile(r'(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)|R"(?P<end>[^()\s\\]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'", re.S)
Count = collections.namedtuple("Count", "files lines code comments")


def counted(path):
    path = Path(path)
    return (path.parts[0] in ("src", "apps") and path.suffix in (".cc", ".h", ".proto") and not path.name.endswith("_test.cc")
            and path.name != "testing.h" and "mutants" not in path.parts)


def count(text):
    comments = set()

    def strip(match):
        body = match.group()
        if match.group("comment") is None:
            return re.sub(r"[^\n]+", "x", body)  # a literal is code on each of its lines
        first = text.count("\n", 0, match.start())
        comments.update(range(first, first + body.count("\n") + 1))
        return "\n" * body.count("\n")

    code = sum(1 for line in TOKEN.sub(strip, text).split("\n") if line.strip())
    return Count(1, text.count("\n"), code, len(comments))


def sources(revision):
    """(path, text) of each source; of the working tree without a revision."""
    if revision is None:
        names = subprocess.run(["git", "ls-files", "-z", "src", "apps"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return [(name, (ROOT / name).read_text()) for name in names.split("\0") if name and counted(name) and (ROOT / name).exists()]
    # Older commits have the program in apps/.
    folders = [f for f in ("src", "apps") if subprocess.run(["git", "cat-file", "-e", f"{revision}:{f}"], cwd=ROOT, capture_output=True).returncode == 0]
    archive = subprocess.run(["git", "archive", revision, *(folders or ["src"])], cwd=ROOT, capture_output=True)
    if archive.returncode:
        sys.exit(f"count_lines: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        return [(m.name, tar.extractfile(m).read().decode()) for m in tar if m.isfile() and counted(m.name)]


def by_folder(revision):
    folders = collections.defaultdict(lambda: Count(0, 0, 0, 0))
    for path, text in sources(revision):
        folder = "/".join(Path(path).parts[:2])
        folders[folder] = Count(*map(sum, zip(folders[folder], count(text))))
    return folders


def total(folders):
    return Count(*map(sum, zip(Count(0, 0, 0, 0), *folders.values())))


def row(name, c):
    share = f"{c.comments / c.code:>10.3f}" if c.code else ""
    print(f"{name:24}{c.files:>8}{c.lines:>10}{c.code:>10}{c.comments:>10}{share}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("revisions", nargs="*", help="commits; none: the working tree")
    revisions = parser.parse_args().revisions or [None]
    print(f"{'':24}{'files':>8}{'lines':>10}{'code':>10}{'comments':>10}{'per line':>10}")
    trees = [by_folder(r) for r in revisions]
    if len(trees) == 1:
        for name, c in sorted(trees[0].items()):
            row(name, c)
        return row("all", total(trees[0]))
    for revision, tree in zip(revisions, trees):
        row(revision[:22], total(tree))
    print()
    for name in sorted(trees[0].keys() | trees[-1].keys()):
        before, after = trees[0].get(name, Count(0, 0, 0, 0)), trees[-1].get(name, Count(0, 0, 0, 0))
        if before != after:
            print(f"{name:24}" + "".join(f"{b - a:>+{w}}" for a, b, w in zip(before, after, (8, 10, 10, 10))))


if __name__ == "__main__":
    main()
