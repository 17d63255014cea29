#!/usr/bin/env python3
"""Updates tables of figures in Markdown files from the output of their commands.

    tools/update_tables.py [--only PART] [FILE...]

A table is enclosed by `<!-- table: COMMAND -->` and `<!-- end of table -->`. COMMAND runs in the root of the checkout;
its standard output, a Markdown table or a code block, replaces the table. --only runs the commands that contain PART.
Without files, all pages of the documentation are updated.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(<!-- table: (?P<command>[^\n]*?) -->\n)(?P<body>.*?)(?=<!-- end of table -->)", re.DOTALL)


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def update(path, part):
    """Rewrites one page and returns the number of updated tables."""
    text = path.read_text(encoding="utf-8")
    replaced = []

    def run(match):
        command = match["command"]
        if part not in command:
            return match[0]
        done = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        table = done.stdout.startswith(("|", "```\n"))
        if done.returncode != 0 or not table:
            sys.exit(f"update_tables: {path}: '{command}' ended with status {done.returncode} and printed "
                     f"{'a table' if table else 'no table'}; the page is not changed")
        replaced.append(command)
        return match[1] + done.stdout

    text = TABLE.sub(run, text)
    if replaced:
        path.write_text(text, encoding="utf-8")
    return len(replaced)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PART", default="", help="part of a command")
    parser.add_argument("files", metavar="FILE", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    if not sum(update(path, arguments.only) for path in arguments.files or pages()):
        sys.exit(f"update_tables: no table has a command that contains '{arguments.only}'")


if __name__ == "__main__":
    main()
