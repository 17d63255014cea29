"""Every port admits only peers that prove the token. Any other connection leaves all roles alive and the job's result
exact: random bytes, other tokens, recorded and truncated handshakes, and impostors that listen in the place of a role.
"""

import errno
import hmac
import os
import pathlib
import random
import re
import signal
import socket
import struct
import threading
import time

import pytest

import leat

CONNECTIONS = 10_000
# 127.0.0.1 in the notation of /proc, as IPv4 and as an IPv4-mapped IPv6 address.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def listening_ports(pid):
    """TCP ports that a process listens on, from /proc; none if it has ended, as bots do."""
    inodes = set()
    try:
        opened = list(pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return []
    for fd in opened:
        try:
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd)):
                inodes.add(match[1])
        except OSError:
            pass
    found = []
    for table in ["tcp", "tcp6"]:
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                assert address in LOOPBACK, f"listens beyond loopback: {fields[1]}"
                found.append(int(port, 16))
    return found


def lasting(job):
    """The roles that stay until the job is over. Bots end as soon as they have published their events."""
    return {(role, pid) for role, pid in job.children() if role != "bots"}


def disturb(port, rng):
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    kind = rng.randrange(5)
    content = [b"", rng.randbytes(rng.randrange(1, 200)), preface + rng.randbytes(rng.randrange(60)),
               b"LEAT" + rng.randbytes(44), rng.randbytes(48) + b"\xff" * 64][kind]
    with socket.socket() as s:
        s.settimeout(60)
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(content)
            if kind == 4:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        except OSError:
            pass  # the connection was rejected, as it should be


def test_unauthenticated_peers_do_no_harm(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 400000, rate: 30000"})
    rng = random.Random(3)
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        before = lasting(job)
        ports = [(pid, port) for _, pid in before for port in listening_ports(pid)]
        assert len({pid for pid, _ in ports}) >= 3, "the coordinator and two servers listen"
        for _, port in ports:
            for _ in range(CONNECTIONS):
                disturb(port, rng)
        if job.process.poll() is None:
            assert lasting(job) <= before, "a role has died"
        assert job.wait(180) == 0, job.text()
        assert job.summary()["evictions"] == 0
    assert {x for v in leat.tensors(directory).values() for x in v} == {400_000.0}


# ---- the handshake of docs/formats/frame.md

VERSION = 3
PORT = {"coordinator": 1, "ps": 2, "worker": 3, "transfer": 4, "feed": 5}
HELLO_BYTES, CHALLENGE_BYTES, VERDICT_BYTES = 48, 80, 4
ADMITTED, WRONG_TOKEN = bytes(4), b"\1\0\0\0"


def hello(role, nonce=bytes(32)):
    return b"LEATWIRE" + struct.pack("<IHH", VERSION, 1, PORT[role]) + nonce


def proof(role, token, challenge, nonce=bytes(32)):
    text = b"leat handshake: connects" + struct.pack("<II", VERSION, PORT[role]) + nonce + challenge[16:48]
    return hmac.digest(token.encode(), text, "sha256")


def read(s, size):
    """Reads until `size` bytes have arrived or the peer closes the connection."""
    found = b""
    while len(found) < size:
        try:
            got = s.recv(size - len(found))
        except ConnectionError:
            break
        if not got:
            break
        found += got
    return found


def connected(port):
    s = socket.socket()
    s.settimeout(60)
    s.connect(("127.0.0.1", port))
    return s


def shake_hands(port, role, token):
    """Returns what both sides have sent."""
    with connected(port) as s:
        s.sendall(hello(role))
        challenge = read(s, CHALLENGE_BYTES)
        s.sendall(proof(role, token, challenge))
        return hello(role) + proof(role, token, challenge), challenge + read(s, VERDICT_BYTES)


def ports_of(job):
    """(pid, port, what the port is for) of all ports of a job."""
    found = []
    for _, pid in lasting(job):
        for port in listening_ports(pid):
            with connected(port) as s:
                name = f" refused 127.0.0.1:{s.getsockname()[1]}: "
                s.sendall(hello("coordinator"))
                (number,) = struct.unpack_from("<H", read(s, CHALLENGE_BYTES), 14)
            leat.wait_for(lambda: any(name in line for line in refusals(pid)), "the line about this connection")
            found.append((pid, port, next(kind for kind, n in PORT.items() if n == number & 0x7fff)))
    return found


class Impostor:
    """Listens in the place of a role and answers every connection with recorded bytes."""

    def __init__(self, recorded, port=0):
        self.recorded = recorded
        self.received = []  # per connection
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(20)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            with s:
                s.settimeout(60)
                first = read(s, HELLO_BYTES)
                try:
                    s.sendall(self.recorded)
                except OSError:
                    pass
                self.received.append(first + read(s, 1000))

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def stands_still(job, seconds=1.0):
    """A condition: no event has been counted for so long."""
    seen = {"events": None, "since": 0.0}

    def look():
        now = time.monotonic()
        events = job.status().get("events")
        if events != seen["events"]:
            seen.update(events=events, since=now)
        return now - seen["since"] >= seconds
    return look


def impostor_at(port, recorded):
    """None while another socket has the port: a killed process keeps its sockets for a moment."""
    try:
        return Impostor(recorded, port)
    except OSError as e:
        assert e.errno == errno.EADDRINUSE, e
        return None


def log_of(pid):
    return pathlib.Path(os.readlink(f"/proc/{pid}/fd/2")).read_text()


def refusals(pid):
    return [line for line in log_of(pid).splitlines() if " refused 127.0.0.1:" in line]


def attack(pid, port, role, token):
    """Each attempt is refused, with one line in the log of the role."""
    sent, answered = shake_hands(port, role, token)
    assert answered[CHALLENGE_BYTES:] == ADMITTED, "this test can speak the protocol"
    before = len(refusals(pid))

    def refused(why, s):
        name = f" refused 127.0.0.1:{s.getsockname()[1]}: "
        lines = leat.wait_for(lambda: [line for line in refusals(pid) if name in line], why)
        assert len(lines) == 1 and lines[0].endswith(why), (why, lines)

    for wrong in ["", "wrong", token.upper() + "x"]:
        with connected(port) as s:
            s.sendall(hello(role))
            s.sendall(proof(role, wrong, read(s, CHALLENGE_BYTES)))
            assert read(s, 100) == WRONG_TOKEN
            refused("the peer has the token of another job", s)
    with connected(port) as s:
        s.sendall(sent)
        challenge = read(s, CHALLENGE_BYTES)
        assert challenge != answered[:CHALLENGE_BYTES]
        assert read(s, 100) == WRONG_TOKEN, "a recorded proof is useless"
        refused("the peer has the token of another job", s)
    for truncated in [sent[:20], sent[:HELLO_BYTES], sent[:HELLO_BYTES + 20]]:
        with connected(port) as s:
            s.sendall(truncated)
            s.shutdown(socket.SHUT_WR)
            assert len(read(s, 1000)) in [0, CHALLENGE_BYTES]
            refused("the connection was closed during the handshake", s)
    others = sorted(set(PORT) - {role})[:2]  # a port writes at most ten lines in ten seconds
    for other in others:
        with connected(port) as s:
            s.sendall(hello(other))
            answer = read(s, 1000)
            assert len(answer) == CHALLENGE_BYTES and not any(answer[16:]), "it proves nothing"
            refused(f"the connection is for {NAMES[other]}", s)
    assert len(refusals(pid)) == before + 7 + len(others)
    return answered


NAMES = {"coordinator": "a coordinator", "ps": "a parameter server", "worker": "a worker of an all-reduce group",
         "transfer": "a file transfer service", "feed": "a feed"}
STRATEGIES = {  # the ports of a job
    "async": ["coordinator", "feed", "ps", "ps", "transfer"],
    "sync": ["coordinator", "feed", "ps", "ps", "transfer"],
    "allreduce": ["coordinator", "feed", "transfer", "worker", "worker", "worker"]}


@pytest.mark.parametrize("connections", [500, pytest.param(CONNECTIONS, marks=pytest.mark.long)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_port_admits_proven_peers_only(tmp_path, strategy, connections):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 40000", "strategy: async": f"strategy: {strategy}"})
    rng = random.Random(4)
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 20_000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        before = lasting(job)
        ports = ports_of(job)
        assert sorted(kind for _, _, kind in ports) == STRATEGIES[strategy], ports
        for pid, port, role in ports:
            answered = attack(pid, port, role, job.token())
            if role == "coordinator":
                recorded = answered
        for _, port, _ in ports:
            for _ in range(connections):
                disturb(port, rng)

        # An impostor of the coordinator has nothing to answer with.
        impostor = Impostor(recorded)
        done = leat.run("worker", "--coordinator", f"127.0.0.1:{impostor.port}", env={"LEAT_TOKEN": job.token()})
        impostor.end()
        leat.refused(done, f"127.0.0.1:{impostor.port}", "the token is not this job's")
        assert [len(r) for r in impostor.received] == [HELLO_BYTES]

        assert lasting(job) <= before, "a role has died"
        job.go_on()
        assert job.wait(180) == 0, job.text()
        assert job.summary()["evictions"] == 0
    assert {x for v in leat.tensors(directory).values() for x in v} == {40_000.0}


def test_workers_tell_nothing_to_an_impostor_on_the_port_of_a_dead_server(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 400000, rate: 30000", "interval_s: 5": "interval_s: 0.5"})
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        victim = job.pids("ps")[0]
        (port,) = listening_ports(victim)
        _, answered = shake_hands(port, "ps", job.token())
        # First the server stands still, so that workers wait for its answer when it dies. Then the coordinator does, so
        # that no worker learns the address of the replacement.
        (coordinator,) = job.pids("coordinator")
        os.kill(victim, signal.SIGSTOP)
        leat.wait_for(stands_still(job), "the workers' wait for the server")
        os.kill(coordinator, signal.SIGSTOP)
        try:
            os.kill(victim, signal.SIGKILL)
            impostor = leat.wait_for(lambda: impostor_at(port, answered), "the end of the dead server's socket")
            leat.wait_for(lambda: impostor.received, "a worker that tries to reach the server")
        finally:
            os.kill(coordinator, signal.SIGCONT)
        assert job.wait(180) == 0, job.text()
        impostor.end()
    assert {len(r) for r in impostor.received} == {HELLO_BYTES}
    assert {x for v in leat.tensors(directory).values() for x in v} == {400_000.0}
