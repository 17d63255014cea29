"""Containers for tests: Podman with a storage, a network and mounts of its own."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import leat
import packages

FOLDER = leat.ROOT / "build/containers"
BASE = "debian:bookworm-slim"
# The ulimits of the package's defaults cannot be set everywhere. runc works with every kind of cgroups.
SETTINGS = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
[network]
network_config_dir = "{folder}/networks"
"""
STORAGE = """\
[storage]
driver = "{driver}"
runroot = "{folder}/run"
graphroot = "{folder}/storage"
"""
HARDENED = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", "256m", "--pids-limit", "128"]


class Engine:
    """Images stay in build/containers/ for the next run, so that layers are made once. Everything else ends with it."""

    def __init__(self, scratch):
        packages.installed("containers")
        if os.geteuid() != 0:
            pytest.skip("containers without a container manager need root")
        self.scratch = scratch
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.lock = open(FOLDER / "lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.environment = {**os.environ, "CONTAINERS_CONF": str(FOLDER / "containers.conf"), "DISABLE_HC_SYSTEMD": "true",
                            "CONTAINERS_STORAGE_CONF": str(FOLDER / "storage.conf")}
        (FOLDER / "containers.conf").write_text(SETTINGS.format(folder=FOLDER))
        prepare = "ip link set lo up && echo ready"
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", f"{prepare} && exec cat"], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if (said := self.holder.stdout.readline().strip()) != "ready":
            self.end()
            pytest.skip(f"unshare: {said}")
        for driver in ["overlay", "vfs"]:  # an overlay cannot be on every file system
            (FOLDER / "storage.conf").write_text(STORAGE.format(folder=FOLDER, driver=driver))
            done = self.podman("info", check=False)
            if done.returncode == 0:
                break
        else:
            self.end()
            pytest.skip(f"podman: {done.stderr[-500:]}")
        self.podman("rm", "--all", "--force", "--time", "0")  # of a run that was killed

    def command(self, *words, network=True):
        entered = ["--net", "--mount"] if network else ["--mount"]
        return ["nsenter", "--target", str(self.holder.pid), *entered, "--", *map(str, words)]

    def start(self, *words, **options):
        return subprocess.Popen(self.command(*words), env=self.environment, text=True, stdin=subprocess.DEVNULL, **options)

    def run(self, *words, timeout=600, check=True, cwd=None, env=None, network=True):
        done = subprocess.run(self.command(*words, network=network), env={**self.environment, **(env or {})}, cwd=cwd, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert not check or done.returncode == 0, (words, done.stdout[-1000:], done.stderr[-3000:])
        return done

    def podman(self, *words, **options):
        return self.run("podman", "--log-level", "error", *words, **options)

    def has(self, image):
        return self.podman("image", "exists", image, check=False).returncode == 0

    def base(self):
        """Debian's smallest root, as the image that users pull."""
        if not self.has(BASE):
            archive = self.scratch / "base.tar"
            done = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", archive], timeout=900, text=True,
                                  capture_output=True)
            if done.returncode != 0:
                pytest.skip(f"mmdebstrap: {done.stderr[-500:]}")
            self.podman("import", archive, BASE)
            archive.unlink()
        return BASE

    def build(self, name, context, file, *options, timeout=900):
        self.base()
        self.run("buildah", "bud", "--isolation", "chroot", "--pull-never", "--layers", "--format", "docker", *options, "-f", file,
                 "-t", name, context, timeout=timeout, network=False)  # packages come from Debian

    def inspect(self, what):
        return json.loads(self.podman("inspect", what).stdout)[0]

    def pid(self, container):
        """The first process of a container, as the host sees it."""
        return self.inspect(container)["State"]["Pid"]

    def end(self):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired, AttributeError):
            self.podman("rm", "--all", "--force", "--time", "0", "--volumes")
            self.podman("network", "prune", "--force")
            self.podman("volume", "prune", "--force")
            self.podman("image", "prune", "--force")
        self.holder.stdin.close()
        self.holder.wait(30)
        for left in ["run", "tmp", "networks"]:
            shutil.rmtree(FOLDER / left, ignore_errors=True)
        self.lock.close()


def program_image(engine):
    """The image `leat` around the program that is built already."""
    program = pathlib.Path(leat.PROGRAM).resolve()
    context = engine.scratch / "context"
    (context / "deploy").mkdir(parents=True)
    shutil.copy(leat.ROOT / "deploy/apt-packages.txt", context / "deploy")
    shutil.copy(program, context / "program")
    engine.build("leat", context, leat.ROOT / "deploy/Containerfile", "--build-arg", "PROGRAM=program")
    return "leat"
