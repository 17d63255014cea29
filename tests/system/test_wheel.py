"""The wheel: what it has, and that it runs where nothing else is installed."""

# folders: python

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

import leat
import packages

MOST_MB = 40
USE = """
import sys
import numpy as np
import leat
X = np.random.RandomState(1).normal(size=(300, 4)).astype(np.float32)
y = (X[:, 0] > 0).astype(np.int64)
assert leat.Classifier(hidden=(16,), random_state=1).fit(X, y).score(X, y) > 0.9
assert "sklearn" not in sys.modules
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build = os.path.dirname(os.path.dirname(leat.PROGRAM))
    subprocess.run(["/usr/bin/python3", leat.ROOT / "tools/wheel.py", "--build", build, "--to", folder], check=True,
                   timeout=600, stdout=subprocess.DEVNULL)
    (made,) = folder.glob("*.whl")
    return made


def test_what_it_has(wheel):
    assert wheel.name.startswith("leat-") and wheel.name.endswith("-cp311-abi3-manylinux_2_36_x86_64.whl")
    assert wheel.stat().st_size <= MOST_MB * 1e6
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        needs = [line for line in content.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")]
    assert [line.split()[1].split(">")[0] for line in needs] == ["numpy"]
    assert {"leat/__init__.py", "leat/_native.abi3.so", "leat/bin/leat", "leat/py.typed"} <= set(names)
    brought = {os.path.basename(name).split("-")[0].split(".")[0] for name in names if name.startswith("leat.libs/")}
    assert {"libdnnl", "libgrpc", "librdkafka"} <= brought
    assert not any(name.startswith(("libmpi", "libucp", "libucs", "libc", "libstdc++")) and not name.startswith("libcrypto")
                   and name in ("libmpi", "libucp", "libucs", "libc", "libstdc++") for name in brought)


def test_in_an_empty_environment(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    python = tmp_path / "venv/bin/python3"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", wheel],
                   check=True, timeout=300)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run([python, "-c", USE], check=True, timeout=120, env=clean, cwd=tmp_path)
    done = subprocess.run([tmp_path / "venv/bin/leat", "demo", "--events", "50000", "--rate", "0", "--json"], check=False,
                          timeout=300, capture_output=True, text=True, env=clean, cwd=tmp_path)
    assert leat.summary(done)["events"] == 50_000


# ---- where not even Python is installed

@pytest.mark.long
@pytest.mark.parametrize("release, version", [("bookworm", "3.11"), ("trixie", "3.13")])
def test_in_a_bare_root(wheel, tmp_path, release, version):
    """Debian's smallest root with Python's interpreter, and nothing that Leat was built with."""
    packages.installed("chroot")
    root = tmp_path / "root"
    subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv,python3-numpy", release, root], check=True, timeout=1200, stdout=subprocess.DEVNULL)
    shutil.copy(wheel, root / "tmp")
    inside = ["chroot", str(root), "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "HOME=/root"]
    subprocess.run(["mount", "--bind", "/proc", root / "proc"], check=True)
    try:
        told = subprocess.run([*inside, "python3", "--version"], check=True, capture_output=True, text=True, timeout=60)
        assert f"Python {version}." in told.stdout
        subprocess.run([*inside, "python3", "-m", "venv", "--system-site-packages", "/venv"], check=True, timeout=120)
        subprocess.run([*inside, "/venv/bin/pip", "install", "-q", "--no-index", "--no-deps", f"/tmp/{wheel.name}"],
                       check=True, timeout=120)
        subprocess.run([*inside, "/venv/bin/python3", "-c", USE], check=True, timeout=120)
        done = subprocess.run([*inside, "sh", "-c", "cd /tmp && /venv/bin/leat demo --events 50000 --rate 0 --json"],
                              check=False, timeout=300, capture_output=True, text=True)
        assert leat.summary(done)["events"] == 50_000
    finally:
        subprocess.run(["umount", root / "proc"], check=True)
