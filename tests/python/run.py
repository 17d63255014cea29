#!/usr/bin/env python3
"""Runs tests of the Python package in an environment of their own: `run.py [--with NAME] FILE... [PYTEST OPTION]...`.

The environment is made from deploy/pip-python.txt; in the long tier, the interpreter is that of deploy/pip-NAME.txt, and what
the former has comes after what the latter has. The package is that of the build that LEAT_PYTHON_PACKAGE names, and the
program that of LEAT_PROGRAM.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(name):
    """The interpreter of an environment, and its packages."""
    folder = ROOT / "build/baselines" / name
    subprocess.run([sys.executable, ROOT / "bench/frame/environment.py", ROOT / f"deploy/pip-{name}.txt", folder], check=True)
    return folder / "bin/python3", next(folder.glob("lib/python3*/site-packages"))


def main():
    arguments = sys.argv[1:]
    more = None
    if arguments[0] == "--with":
        more, arguments = arguments[1], arguments[2:]
    python, packages = environment("python")
    paths = []
    if more and os.environ.get("LEAT_LONG") == "1":
        python, own = environment(more)
        paths += [str(own), str(packages)]
    package = os.environ.get("LEAT_PYTHON_PACKAGE", str(ROOT / "build/release/python"))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *paths]), "PYTHONDONTWRITEBYTECODE": "1"}
    variables.setdefault("LEAT_PROGRAM", str(ROOT / "build/release/bin/leat"))
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *arguments]
    os.execve(command[0], command, variables)


if __name__ == "__main__":
    main()
