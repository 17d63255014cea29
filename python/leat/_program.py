"""The program `leat`, which comes with this package."""

import os
import shutil
import sys
from pathlib import Path


def program():
    """Returns the path of the program `leat`.

    It is the one of this package, or else that of the environment variable LEAT_PROGRAM or of PATH.
    """
    own = Path(__file__).parent / "bin" / "leat"
    if own.exists():
        return str(own)
    found = os.environ.get("LEAT_PROGRAM") or shutil.which("leat")
    if not found:
        raise RuntimeError("the program leat is neither in this package nor in PATH; set LEAT_PROGRAM to its path")
    return found


def main():
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
