#!/usr/bin/env python3
"""Checks that headers are self-contained, so that including one is enough to use it.

A header x.h has to be the first include of x.cc, or of x_test.cc if there is no x.cc, so that compiling the source proves it. CMake
compiles all other headers alone (the target `lone_headers`). Prints one line per mistake, and exits with 1 if there are any.
"""

import re
import sys

import check_main

FOLDERS = ("src", "bench", "fuzz", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def check(root):
    errors = []
    for header in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.h")):
        sources = [header.with_name(header.stem + end) for end in (".cc", "_test.cc")]
        source = next((path for path in sources if path.is_file()), None)
        if source is None:
            continue
        text = source.read_text(encoding="utf-8")
        first = INCLUDE.search(text)
        # An include names the path from src/, or a file next to the source.
        included = first and [path for path in (root / "src" / first[1], source.parent / first[1]) if path == header]
        if not included:
            line = text.count("\n", 0, first.start(1)) + 1 if first else 1
            errors.append(f"{source.relative_to(root)}:{line}: its first include must be {header.name}, which shows "
                          f"that the header is self-contained; it is {first[1] if first else 'missing'}")
    return errors


def selftest():
    """Checks a small tree with one mistake of each kind: all must be found, and nothing else."""
    tree = {
        "src/base/a.h": "", "src/base/a.cc": '// A.\n#include "base/a.h"\n#include <string>\n',
        "src/base/b.h": "", "src/base/b.cc": '#include <string>\n\n#include "base/b.h"\n',
        "src/base/c.h": "", "src/base/c.cc": "int c;\n",
        "src/base/d.h": "", "src/base/d_test.cc": '#include "base/a.h"\n#include "base/d.h"\n',
        "src/base/e.h": "", "src/base/e.cc": '#include "base/e.h"\n', "src/base/e_test.cc": "#include <string>\n",
        "src/net/a.h": "", "src/net/a.cc": '\n#include "base/a.h"\n',
        "bench/f.h": "", "bench/f.cc": '#include "f.h"\n',
        "bench/lone.h": "",
    }
    expected = ["src/base/b.cc:1", "src/base/c.cc:1", "src/base/d_test.cc:1", "src/net/a.cc:2"]
    found = [error.split(": ")[0] for error in check_main.found_in(tree, check)]
    if sorted(found) != expected:
        sys.exit(f"check_headers --selftest: expected {expected}, found {found}")


if __name__ == "__main__":
    check_main.main(__doc__, check, selftest)
