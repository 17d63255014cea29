"""Debian packages that single tests need. Packages with a service are unpacked into build/packages/ and not installed, so
that none is started."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import leat

FOLDER = leat.ROOT / "build/packages"


def names(listed):
    """The packages of deploy/apt-packages-LISTED.txt."""
    lines = (leat.ROOT / f"deploy/apt-packages-{listed}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def apt_get(*arguments, cwd):
    return subprocess.run(["apt-get", "-q", *arguments], cwd=cwd, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=600, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def download(package, folder):
    """Returns the output of apt-get if there is no such package to be had."""
    done = apt_get("download", package, cwd=folder)
    if done.returncode != 0:  # the lists of packages may be missing, or old
        update = apt_get("update", cwd=folder) if os.geteuid() == 0 else done
        done = apt_get("download", package, cwd=folder) if update.returncode == 0 else update
    return None if done.returncode == 0 else done.stdout


def unpacked(listed):
    """The folder with the packages of a list: usr/bin/ and so on. Skips the test if they cannot be had."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / listed
    with open(FOLDER / f".{listed}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            pytest.skip(f"this is no Debian: it has no package {', '.join(names(listed))}")
        with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
            content = pathlib.Path(scratch, "content")
            for package in names(listed):
                if (failure := download(package, scratch)) is not None:
                    pytest.skip(f"no package {package}: {failure.strip()[-500:]}")
            for archive in pathlib.Path(scratch).glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", archive, content], check=True)
            content.rename(target)
    return target


def missing(packages):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages], capture_output=True,
                          text=True)
    there = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in there]


def installed(listed):
    """Installs the missing packages of deploy/apt-packages-LISTED.txt. Skips the test if that is not possible here."""
    wanted = missing(names(listed))
    if not wanted:
        return
    if os.geteuid() != 0:
        pytest.skip(f"as root, run: apt-get install {' '.join(wanted)}")
    options = ["-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *wanted]):
        done = subprocess.run(["apt-get", *options, *command], env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            pytest.skip(f"apt-get {command[0]} failed: {done.stderr[-500:]}")
    assert not missing(wanted)
