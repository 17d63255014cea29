"""Shared by the system tests: runs the program, observes it, and reads its output."""

import contextlib
import json
import os
import pathlib
import random
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("LEAT_PROGRAM", str(ROOT / "build/release/bin/leat"))
WITHOUT_LEDGER = os.environ.get("LEAT_WITHOUT_LEDGER", PROGRAM + "_without_ledger")
EXAMPLES = ROOT / "examples"


def data(name):
    """The folder of a data set in LEAT_DATA. Skips the test if it is missing."""
    if not os.environ.get("LEAT_DATA"):
        pytest.skip(f"LEAT_DATA is not set: it names the folder with the data set {name}")
    folder = pathlib.Path(os.environ["LEAT_DATA"], name)
    if not folder.is_dir():
        pytest.skip(f"no data set {name} in LEAT_DATA={os.environ['LEAT_DATA']}")
    return str(folder)


def run(*arguments, timeout=300, cwd=None, env=None, program=None):
    """Runs the program to its end, and returns its result with stdout and stderr as text."""
    return subprocess.run(
        [program or PROGRAM, *map(str, arguments)], cwd=cwd, env={**os.environ, **(env or {})}, timeout=timeout,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def summary(done):
    """The result of a run with --json, which must have succeeded."""
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def refused(done, *parts, status=2):
    """Checks that a run has failed with this exit status and one line that contains all parts. Returns the line."""
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("leat: "), done.stderr
    for part in parts:
        assert part in lines[0], (part, lines[0])
    return lines[0]


def wait_for(condition, what, timeout=120):
    """Polls until the condition returns a true value, and returns it."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {timeout} s")


def free_ports(count):
    """Ports for listeners that end and come back: the kernel gives them to no connection meanwhile."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = []
    while len(found) < count:
        port = random.randrange(10_000, lowest)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] if port not in found else []
    return found


def free_port():
    return free_ports(1)[0]


@contextlib.contextmanager
def nobodys_address():
    """An address where nobody listens, and where no other test can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


class Job:
    """A job in the background: `leat train` and its child processes."""

    def __init__(self, *arguments, directory, program=None, cwd=None, env=None, security=None):
        self.directory = pathlib.Path(directory)
        self.secured = ["--security", security] if security else []  # for other commands about the job
        self.where = None
        self.last_status = {}
        self.output = open(self.directory.parent / (self.directory.name + ".out"), "w+")
        self.process = subprocess.Popen(
            [program or PROGRAM, *map(str, arguments)], cwd=cwd, env=env, text=True, stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def children(self):
        """(role, pid) of the role processes, from /proc, so they are current."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == self.process.pid:
                    arguments = (entry / "cmdline").read_bytes().split(b"\0")
                    if len(arguments) > 2:
                        found.append((arguments[1].decode(), int(entry.name)))
        return found

    def pids(self, role):
        return [pid for r, pid in self.children() if r == role]

    def address(self, timeout=120):
        """The coordinator's address, from the command line of another role."""
        def look():
            assert self.process.poll() is None, "the job has ended:\n" + self.text()[-2000:]
            for role, pid in self.children():
                with contextlib.suppress(OSError):
                    arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                    if "--coordinator" in arguments:
                        return arguments[arguments.index("--coordinator") + 1]
            return None
        return wait_for(look, "the coordinator's address", timeout)

    def token(self):
        def look():
            for _, pid in self.children():
                with contextlib.suppress(OSError):
                    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
                    if token := dict(e.split("=", 1) for e in environment if "=" in e).get("LEAT_TOKEN"):
                        return token
            return None
        return wait_for(look, "a role with the token")

    def status(self):
        """The output of `leat status`; after the end of the job, its last output."""
        if self.where is None:
            self.where = self.address(), self.token()
        address, token = self.where
        if self.process.poll() is None:
            done = run("status", "--coordinator", address, *self.secured, "--json", env={"LEAT_TOKEN": token})
            if done.returncode == 0:
                self.last_status = json.loads(done.stdout)
        return self.last_status

    def command(self, name):
        """`leat NAME` for this job, which must succeed."""
        address, token = self.where
        done = run(name, "--coordinator", address, *self.secured, env={"LEAT_TOKEN": token})
        assert done.returncode == 0, done.stderr

    def go_on(self):
        """Continues a job that has paused at --pause-at."""
        self.command("continue")

    def kill(self):
        """kill -9 of the job and all its roles, which have the job's directory until they are gone."""
        self.process.send_signal(signal.SIGSTOP)  # starts no more
        roles = select.poll()
        handles = []
        for _, pid in self.children():
            with contextlib.suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
                roles.register(handles[-1], select.POLLIN)
        self.process.kill()
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        self.process.wait()
        # Not by the state in /proc: a process is a zombie there while its other threads still hold its locks.
        wait_for(lambda: len(roles.poll(0)) == len(handles), "the end of the killed roles")
        for handle in handles:
            os.close(handle)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def wait(self, timeout=300):
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            said = self.text()
            self.end()
            raise AssertionError(f"still running after {timeout} s:\n{said[-3000:]}") from None
        return self.process.returncode

    def text(self):
        self.output.flush()
        return pathlib.Path(self.output.name).read_text()

    def summary(self):
        return json.loads((self.directory / "summary.json").read_text())

    def end(self):
        """Kills the remaining processes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def seal(partition):
    """Ends a partition of an embedded log, by its file: the stream of a job that reads it then has an end."""
    with contextlib.closing(sqlite3.connect(partition)) as log, log:
        log.execute("UPDATE state SET sealed = 1")


def checkpoints(directory):
    """The folders of a job's checkpoints, oldest first, without those that are kept aside."""
    return sorted(p for p in pathlib.Path(directory).glob("checkpoint-*") if not p.name.endswith(".damaged"))


def tensors(directory):
    """All tensors of the newest checkpoint in a job's directory: {name: [numbers]}."""
    newest = checkpoints(directory)[-1]
    found = {}
    assert (newest / "manifest.json").exists(), newest
    for shard in newest.glob("*.safetensors"):
        content = shard.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        head = json.loads(content[8:8 + length])
        for name, entry in head.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            assert name not in found, name
            letter, size = {"F32": ("f", 4), "F64": ("d", 8), "U64": ("Q", 8)}[entry["dtype"]]
            data = content[8 + length + begin:8 + length + end]
            found[name] = struct.unpack(f"<{len(data) // size}{letter}", data)
    return found


def write_job(path, text, **changes):
    """Writes a job file with some strings replaced, each of which must occur in the text."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    pathlib.Path(path).write_text(text)
    return path
