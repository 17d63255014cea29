"""Debian packages that only some tests need."""

import os
import subprocess

import pytest

import leat


def missing(names):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names], capture_output=True, text=True)
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def require(file):
    """Installs what is missing of a list in deploy/. Skips the test if that is not possible here."""
    lines = (leat.ROOT / "deploy" / file).read_text().splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    wanted = missing(names)
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
    assert not missing(names)
