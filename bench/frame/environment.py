#!/usr/bin/env python3
"""Creates a virtual environment with the packages of a pinned list.

    environment.py LIST DIRECTORY

Does nothing if DIRECTORY was created from the same list by the same interpreter. LIST has the format of `pip install
--require-hashes`, with a line `# size: DOWNLOAD INSTALLED` in megabytes.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def say(text):
    print(f"leat: {text}", file=sys.stderr, flush=True)


def gigabytes(megabytes):
    return f"{megabytes / 1000:.1f} GB"


def make(packages, directory):
    size = re.search(r"^# size: (\d+) (\d+)$", packages.read_text(encoding="utf-8"), re.MULTILINE)
    if not size:
        sys.exit(f"leat: {packages} has no line '# size: DOWNLOAD INSTALLED'")
    download, installed = int(size[1]), int(size[2])
    shutil.rmtree(directory, ignore_errors=True)
    # pip keeps the downloads on the same disk until the packages are installed.
    free, needed = shutil.disk_usage(directory.parent).free // 10**6, download + installed
    say(f"creating the Python environment {directory} from {packages.name}: {gigabytes(download)} to download, "
        f"{gigabytes(installed)} installed")
    if free < needed:
        sys.exit(f"leat: {directory.parent} has {gigabytes(free)} free; {gigabytes(needed)} are needed")
    scratch = directory / "tmp"
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    scratch.mkdir()
    subprocess.run(
        [directory / "bin/python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
         "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", packages],
        env={**os.environ, "TMPDIR": str(scratch)}, check=True)
    shutil.rmtree(scratch)


def main():
    packages, directory = Path(sys.argv[1]), Path(sys.argv[2])
    directory.parent.mkdir(parents=True, exist_ok=True)
    made_of = hashlib.sha256(packages.read_bytes() + sys.version.encode()).hexdigest()
    stamp = directory / "made-of"
    # The lock keeps concurrent benchmarks from creating it twice.
    with open(directory.parent / f".{directory.name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text(encoding="ascii") == made_of:
            return
        try:
            make(packages, directory)
        except subprocess.CalledProcessError as e:
            sys.exit(f"leat: {e}")
        stamp.write_text(made_of, encoding="ascii")


if __name__ == "__main__":
    main()
