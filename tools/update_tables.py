#!/usr/bin/env python3
"""Replaces tables of measured figures in a Markdown file by what their commands print now.

    tools/update_tables.py README.md [PART]

A table stands between `<!-- table: COMMAND -->` and `<!-- end of table -->`. COMMAND runs in the root of the checkout;
its standard output becomes the table. With PART only commands that contain it run.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(<!-- table: (?P<command>[^\n]*?) -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path, part = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else ""
    text = path.read_text(encoding="utf-8")
    replaced = []

    def measure(match):
        command = match["command"]
        if part not in command:
            return match[0]
        done = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0 or not done.stdout.startswith("|"):
            sys.exit(f"update_tables: {path}: '{command}' ended with status {done.returncode} and printed "
                     f"{'no table' if not done.stdout.startswith('|') else 'a table'}; nothing is changed")
        replaced.append(command)
        return match[1] + done.stdout

    text = TABLE.sub(measure, text)
    if not replaced:
        sys.exit(f"update_tables: {path} has no table whose command contains '{part}'")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
