"""Containers for tests: Podman with a storage, a network and mounts of its own."""

import contextlib
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
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
        # DNS servers of other networks of this machine have their files there.
        prepare = "ip link set lo up && mkdir -p /run/containers && mount -t tmpfs none /run/containers && echo ready"
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
        self.podman("rm", "--all", "--force", "--time", "0")  # containers of a killed run

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


# As in deploy/.
IMAGE = "leat:" + re.search(r"project\(leat VERSION (\S+)", (leat.ROOT / "CMakeLists.txt").read_text())[1]


def program_image(engine):
    """The image of the version around the program that is built already."""
    program = pathlib.Path(leat.PROGRAM).resolve()
    context = engine.scratch / "context"
    (context / "deploy").mkdir(parents=True)
    shutil.copy(leat.ROOT / "deploy/apt-packages.txt", context / "deploy")
    shutil.copy(program, context / "program")
    engine.build(IMAGE, context, leat.ROOT / "deploy/Containerfile", "--build-arg", "PROGRAM=program")
    return IMAGE


# ---- Kafka, as the image of users

KAFKA = "apache/kafka:3.9.1"
KAFKA_FILE = """\
FROM debian:bookworm-slim
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends default-jre-headless
RUN useradd --create-home appuser && install -d -o appuser /var/lib/kafka/data
COPY jars /opt/kafka/libs
COPY --chmod=755 run /etc/kafka/docker/run
USER appuser
VOLUME /var/lib/kafka/data
CMD ["/etc/kafka/docker/run"]
"""
# The variables KAFKA_* are the broker's settings.
KAFKA_RUN = """\
#!/bin/bash
set -eu
env | grep ^KAFKA_ | grep -v ^KAFKA_HEAP_OPTS= | while IFS== read -r name value; do
  name=${name#KAFKA_} name=${name,,}
  echo "${name//_/.}=$value"
done > /tmp/server.properties
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format --ignore-formatted -t 5L6g3nShT-eMCtK--X86sw -c /tmp/server.properties
exec java $KAFKA_HEAP_OPTS -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/server.properties
"""


def kafka_image(engine):
    """The jars of tools/kafka in an image with the name, user, variables and folder of Apache Kafka's."""
    loader = importlib.machinery.SourceFileLoader("kafka_tool", str(leat.ROOT / "tools/kafka"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("kafka_tool", loader))
    loader.exec_module(tool)
    try:
        jars = tool.jars()
    except SystemExit as why:
        pytest.skip(str(why))
    context = engine.scratch / "kafka"
    shutil.copytree(jars, context / "jars")
    (context / "Containerfile").write_text(KAFKA_FILE)
    (context / "run").write_text(KAFKA_RUN)
    engine.build(KAFKA, context, context / "Containerfile")
    return KAFKA


class Compose:
    """podman-compose for deploy/compose.yaml."""

    def __init__(self, engine, **variables):
        self.engine = engine
        directory = leat.ROOT / "build/containers/python"
        subprocess.run(["/usr/bin/python3", leat.ROOT / "bench/frame/environment.py", leat.ROOT / "deploy/pip-containers.txt", directory],
                       check=True, timeout=600)
        self.program = [directory / "bin/python3", "-m", "podman_compose", "-f", leat.ROOT / "deploy/compose.yaml"]
        self.variables = {name: str(value) for name, value in variables.items()}

    def __call__(self, *words, **options):
        return self.engine.run(*self.program, *words, env=self.variables, **options)

    def containers(self, service=None):
        only = ["--filter", f"label=com.docker.compose.service={service}"] if service else []
        return self.engine.podman("ps", "--format", "{{.Names}}", "--filter", "label=com.docker.compose.project=leat",
                                  *only).stdout.split()
