#!/usr/bin/env python3
"""Builds the wheel of the Python package from a release build: `./leat wheel`.

    wheel.py [--build build/release] [--to dist]

The wheel has the package, the native module, the program `leat`, and the shared libraries that they need, except those of
every Linux and those that are loaded on demand (MPI, UCX).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The oldest glibc that Debian 12's libraries run with.
PLATFORM = "manylinux_2_36_x86_64"
TAG = "cp311-abi3-linux_x86_64"
# Loaded from the system where a job asks for them.
EXCLUDED = ("libmpi.so*", "libmpi_cxx.so*", "libopen-*.so*", "libucp.so*", "libucs.so*", "libuct.so*", "libucm.so*")


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(leat VERSION ([\d.]+)", text)[1]


def stage(build, folder):
    package = folder / "leat"
    shutil.copytree(build / "python/leat", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "bin").mkdir()
    programs = [build / "bin/leat"]
    if (build / "bin/leat_mpi.so").exists():
        programs.append(build / "bin/leat_mpi.so")
    for program in programs:
        shutil.copy2(program, package / "bin" / program.name)
    for binary in [package / "_native.abi3.so", *(package / "bin").iterdir()]:
        subprocess.run(["strip", "--strip-unneeded", binary], check=True)
    info = folder / f"leat-{version()}.dist-info"
    info.mkdir()
    summary = "Trains neural networks on live event streams, across any number of machines"
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: leat\nVersion: {version()}\nSummary: {summary}\n"
        "Requires-Python: >=3.11\nRequires-Dist: numpy>=1.23\n\n" +
        (ROOT / "python/README.md").read_text(encoding="utf-8"), encoding="utf-8")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: leat\nRoot-Is-Purelib: false\nTag: {TAG}\n",
                                encoding="utf-8")
    (info / "entry_points.txt").write_text("[console_scripts]\nleat = leat._program:main\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    environment = ROOT / "build/baselines/wheel"
    subprocess.run([sys.executable, ROOT / "bench/frame/environment.py", ROOT / "deploy/pip-wheel.txt", environment],
                   check=True)
    python = environment / "bin/python3"
    path = {**os.environ, "PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="leat-wheel-") as scratch:
        scratch = Path(scratch)
        for folder in ("tree", "packed"):
            (scratch / folder).mkdir()
        stage(options.build, scratch / "tree")
        quiet = {"check": True, "env": path, "stdout": subprocess.DEVNULL}
        subprocess.run([python, "-m", "wheel", "pack", scratch / "tree", "--dest-dir", scratch / "packed"], **quiet)
        packed = next((scratch / "packed").glob("*.whl"))
        done = subprocess.run(
            [python, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "--disable-isa-ext-check",
             *(f"--exclude={name}" for name in EXCLUDED), "--wheel-dir", scratch / "repaired", packed],
            env=path, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"leat: auditwheel failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        made = next((scratch / "repaired").glob("*.whl"))
        for old in options.to.glob("leat-*.whl"):
            old.unlink()
        target = shutil.move(made, options.to / made.name)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
