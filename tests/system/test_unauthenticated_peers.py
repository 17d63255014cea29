"""Every port admits only peers that prove the token, and with TLS a certificate of the job's authority with the role
that fits. Any other peer is refused with one line in the log; all roles stay alive and the job's result is exact.
"""

# folders: net net/rpc

import collections
import contextlib
import dataclasses
import errno
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import pytest

import leat
from peers import (ADMITTED, CHALLENGE_BYTES, HELLO_BYTES, MESSAGES, OTHER_BUILD, PORTS, PROOF_BYTES, WRONG_TOKEN,
                   Impostor, Recorder, RecordedTls, certificate, client_hello, connected, expired, has_certificate, hello,
                   lasting, listening_ports, log_of, mismatch, ports_of, proof, read, refused_for, replays, shake_hands,
                   shake_tls, speaks, tls_context)

ALL = "coordinator,server,worker,bots,admin"
TOKEN = "known to all"


def train(tmp_path, strategy, security, *arguments, **changes):
    """A job that counts, with or without TLS, and the folders of certificates, or None."""
    folders = None
    text = (leat.EXAMPLES / "counter.yaml").read_text()
    environment = None
    if security == "tls":
        text += "\nsecurity: tls\n"
        folders = {
            "all": certificate(tmp_path, "all", ALL, "127.0.0.1"),
            "worker": certificate(tmp_path, "worker", "worker", "127.0.0.1"),
            "observer": certificate(tmp_path, "observer", "observer"),
            "elsewhere": certificate(tmp_path, "elsewhere", "coordinator", "10.0.0.5"),
            "expired": expired(tmp_path, "expired", "coordinator,worker"),
            "other authority": certificate(tmp_path, "other", "coordinator,worker", "127.0.0.1", authority="authority-2"),
        }
        arguments = [*arguments, "--security", folders["all"]]
        environment = {**os.environ, "LEAT_TOKEN": TOKEN}
    changes["strategy: async"] = f"strategy: {strategy}"
    job_file = leat.write_job(tmp_path / "counter.yaml", text, **changes)
    job = leat.Job("train", job_file, "--directory", tmp_path / "counter", *arguments, directory=tmp_path / "counter",
                   env=environment, security=folders and folders["all"])
    return job, folders


def check_counts(tmp_path, job, events):
    assert job.wait(180) == 0, job.text()
    assert job.summary()["evictions"] == 0
    assert {x for v in leat.tensors(tmp_path / "counter").values() for x in v} == {float(events)}


# ---- attacks in turn, at every port

@dataclasses.dataclass
class Target:
    port: int
    role: str
    token: str
    folders: dict | None  # None: no TLS
    recorded: bytes = b""  # bytes that the connecting side sent in TLS

    def open(self):
        return shake_tls(self.port, self.folders["worker"]) if self.folders else connected(self.port)


def proves(token_of):
    """A handshake with another token. The answer says so."""
    def attack(target):
        s = target.open()
        s.sendall(hello(target.role))
        s.sendall(proof(target.role, token_of(target), read(s, CHALLENGE_BYTES)))
        assert read(s, 100) == WRONG_TOKEN
        return s
    return attack


def proves_outside_the_session(target):
    """The right token, but the proof does not cover the secret of the TLS session."""
    peer = RecordedTls(target.port, target.folders["worker"])
    peer.sendall(hello(target.role))
    peer.sendall(proof(target.role, target.token, peer.recv(CHALLENGE_BYTES)))
    assert peer.recv(100) == WRONG_TOKEN
    target.recorded = peer.sent
    return peer.socket


def replays_the_connecting_side(target):
    if target.folders:
        s = connected(target.port)
        s.sendall(target.recorded)
        read(s, 100_000)
        return s
    sent, answered = shake_hands(target.port, target.role, target.token)
    assert answered[CHALLENGE_BYTES:] == ADMITTED, "this test can speak the protocol"
    s = connected(target.port)
    s.sendall(sent)
    assert read(s, CHALLENGE_BYTES) != answered[:CHALLENGE_BYTES]
    assert read(s, 100) == WRONG_TOKEN, "a recorded proof is useless"
    return s


def truncates(content):
    def attack(target):
        s = target.open()
        s.sendall(content(target))
        s.shutdown(socket.SHUT_WR)
        read(s, 1000)
        return s
    return attack


def truncates_tls(target):
    s = connected(target.port)
    s.sendall(client_hello(target.folders["worker"])[:100])
    s.shutdown(socket.SHUT_WR)
    return s


def is_refused(content):
    """A hello that gets no more than what the port is for and which messages it speaks."""
    def attack(target):
        s = target.open()
        s.sendall(content(target))
        answer = read(s, 1000)
        assert len(answer) == CHALLENGE_BYTES and not any(answer[24:]), "it proves nothing"
        return s
    return attack


def begins_tls(target):
    s = connected(target.port)
    s.sendall(b"\x16\x03\x01\x00\xa0" + bytes(160))
    assert len(read(s, 1000)) == CHALLENGE_BYTES
    return s


def speaks_plainly(target):
    return is_refused(lambda _: hello(target.role))(dataclasses.replace(target, folders=None))


def shows(name):
    def attack(target):
        s = shake_tls(target.port, target.folders[name])
        with contextlib.suppress(OSError):
            s.sendall(hello(target.role))
        assert read(s, 1000) == b"", "it says nothing"
        return s
    return attack


NAMES = {"coordinator": "a coordinator", "ps": "a parameter server", "worker": "a worker of an all-reduce group",
         "transfer": "a file transfer service", "feed": "a feed"}
ALLOWED = {"ps": "server, worker", "worker": "worker", "transfer": "coordinator, server, worker",
           "feed": "coordinator, server, worker, bots"}
OTHER_TOKEN = "the peer has the token of another job"
RECORDED = "recorded answers"
CLOSED = "the connection was closed during the handshake"


def another_build(peer):
    return lambda role: f"the peer is of another build: it speaks {peer}, this program {speaks(MESSAGES[role])}; run the " \
        "same build on both sides"


def wrong_role(role):
    """At the coordinator every role may connect."""
    if role not in ALLOWED:
        return None
    return f"the peer's certificate is for the role observer, here it must be for {ALLOWED[role]}"


# The attacks at every port, and the reason in its log without TLS and with TLS. None: there is no such attack. A port
# writes at most ten lines in ten seconds, of which ports_of() takes one.
ATTACKS = {
    "no token": (proves(lambda target: ""), OTHER_TOKEN, OTHER_TOKEN),
    "another token": (proves(lambda target: target.token + "x"), OTHER_TOKEN, OTHER_TOKEN),
    "the token, proven outside the session": (proves_outside_the_session, None, OTHER_TOKEN),
    "a recorded connection": (replays_the_connecting_side, OTHER_TOKEN, "TLS: "),
    "half a hello": (truncates(lambda target: hello(target.role)[:20]), CLOSED, None),
    "half a proof": (truncates(lambda target: hello(target.role) + bytes(PROOF_BYTES // 2)), CLOSED, None),
    "a hello for another port": (is_refused(lambda target: hello("feed" if target.role != "feed" else "coordinator")),
                                 "the connection is for ", None),
    "another build": (is_refused(lambda target: hello(target.role, OTHER_BUILD)), another_build(speaks(OTHER_BUILD)), None),
    "an older version": (is_refused(lambda target: hello(target.role, version=5)), another_build("5"), None),
    "TLS at a port without": (begins_tls, "the peer uses TLS, this role does not", None),
    "half of TLS's first message": (truncates_tls, None, "the connection was closed during the TLS handshake"),
    "no TLS": (speaks_plainly, None, "the peer does not use TLS, which this port requires"),
    "an expired certificate": (shows("expired"), None, "certificate has expired"),
    "a certificate of another authority": (shows("other authority"), None, "the peer's certificate: "),
    "a certificate for another role": (shows("observer"), None, wrong_role),
}


def impostors(job, folders):
    """Listeners in the place of a coordinator, and the message of a worker: {name: (answer, message)}."""
    recorder = Recorder(int(job.address().rsplit(":", 1)[1]))
    done = leat.run("status", "--coordinator", f"127.0.0.1:{recorder.port}", *job.secured,
                    env={"LEAT_TOKEN": job.token()})
    assert done.returncode == 0 and recorder.accepts, done.stderr
    recorder.end()
    if folders is None:
        here = f", this program {speaks(MESSAGES['coordinator'])}; run the same build on both sides"
        return {
            RECORDED: (replays(recorder.accepts), "the token is not this job's"),
            "another build": (replays(mismatch("coordinator")), f"it speaks {speaks(OTHER_BUILD)}{here}"),
            "an older version": (replays(mismatch("coordinator", version=5)), f"it speaks 5{here}"),
        }
    here = "here it must be for coordinator"
    return {
        RECORDED: (replays(recorder.accepts), "could not be reached within 10 s: "),
        "no TLS": (replays(hello("coordinator") + bytes(PROOF_BYTES)), "the peer does not use TLS"),
        "a worker's certificate": (has_certificate(folders["worker"]), f"for the role worker, {here}"),
        "the certificate of another host": (has_certificate(folders["elsewhere"]), "not for the host 127.0.0.1"),
        "an expired certificate": (has_certificate(folders["expired"]), "certificate has expired"),
        "a certificate of another authority": (has_certificate(folders["other authority"]), "the peer's certificate: "),
    }


@pytest.mark.parametrize("security", ["tcp", "tls"])
@pytest.mark.parametrize("strategy", PORTS)
def test_every_port_refuses_every_attack(tmp_path, strategy, security):
    events = 40_000
    job, folders = train(tmp_path, strategy, security, "--pause-at", events // 2,
                         **{"events: 1000000": f"events: {events}"})
    with job:
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        before = lasting(job)
        ports = ports_of(job)
        assert sorted(kind for _, _, kind in ports) == PORTS[strategy], ports
        for pid, port, role in ports:
            target = Target(port, role, job.token(), folders)
            for name, (attack, *whys) in ATTACKS.items():
                why = whys[folders is not None]
                if callable(why):
                    why = why(role)
                if why is None:
                    continue
                with attack(target) as s:
                    try:
                        refused_for(pid, s, why)
                    except AssertionError as e:
                        raise AssertionError(f"{name} at the port of {NAMES[role]}") from e
        for name, (answer, why) in impostors(job, folders).items():
            unreadable = name == RECORDED and folders
            if unreadable and strategy != "async":
                continue  # a worker tries again for ten seconds; once is enough
            impostor = Impostor(answer)
            command = ["worker", "--coordinator", f"127.0.0.1:{impostor.port}",
                       *(["--security", folders["worker"]] if folders else [])]
            if unreadable:  # as bytes that a bad network has changed: they may heal, so a worker waits
                with subprocess.Popen([leat.PROGRAM, *map(str, command)], env={**os.environ, "LEAT_TOKEN": job.token()},
                                      stderr=subprocess.PIPE, text=True) as worker:
                    line = worker.stderr.readline()
                    worker.kill()
                impostor.end()
                assert "waits for the coordinator" in line and why in line, line
            else:
                done = leat.run(*command, env={"LEAT_TOKEN": job.token()})
                impostor.end()
                leat.refused(done, f"127.0.0.1:{impostor.port}", why)
            assert impostor.received, name
            if folders is None:
                assert [len(r) for r in impostor.received] == [HELLO_BYTES], "it learns a nonce"
            else:
                assert not any(b"LEATWIRE" in r for r in impostor.received), "it learns nothing"
        assert lasting(job) <= before, "a role has died"
        job.go_on()
        check_counts(tmp_path, job, events)


@pytest.mark.parametrize("command", ["status", "stop", "scale --workers 2", "timeline --seconds 1 --out {}/timeline",
                                     "worker", "ps", "jobs --pool", "submit {}/counter.yaml --pool"])
def test_every_client_refuses_another_build(tmp_path, command):
    """With one line that names both versions. It tells the other side a nonce and nothing else."""
    leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text())
    impostor = Impostor(replays(mismatch("pool" if "--pool" in command else "coordinator")))
    address = f"127.0.0.1:{impostor.port}"
    words = command.format(tmp_path).split() + ([] if "--pool" in command else ["--coordinator"])
    done = leat.run(*words, address, env={"LEAT_TOKEN": "a token for this test, and no other"})
    impostor.end()
    leat.refused(done, address, f"the peer is of another build: it speaks {speaks(OTHER_BUILD)}, this program ",
                 "; run the same build on both sides")
    assert [len(r) for r in impostor.received] == [HELLO_BYTES]


# ---- floods

HELD = 400  # connections that a flood leaves half open: more than a port keeps
PENDING = 256  # unauthenticated connections that a port keeps
LINES = 11  # in ten seconds, about refused connections of one port
MOST_GROWTH = 16 << 20  # bytes


class Flood:
    """Connections to one port with random content and a random end."""

    def __init__(self, port, role, rng, folders):
        self.port, self.rng = port, rng
        self.beginnings = [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"LEAT", hello(role), b"\x16\x03\x01"]
        if folders:
            self.beginnings.append(client_hello(folders["worker"]))
        self.held = collections.deque()

    def content(self):
        beginning = self.rng.choice(self.beginnings)
        size = self.rng.choice([len(beginning), self.rng.randrange(1 + len(beginning))])
        more = self.rng.choice([0, 0, self.rng.randrange(200), self.rng.randrange(200), self.rng.randrange(100_000)])
        return beginning[:size] + self.rng.randbytes(more)

    def connect(self):
        s = socket.socket()
        s.settimeout(60)
        with contextlib.suppress(OSError):  # the role may refuse it at once, as it should
            s.connect(("127.0.0.1", self.port))
            s.sendall(self.content())
            end = self.rng.randrange(4)
            if end == 0:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
            elif end == 1:
                s.shutdown(socket.SHUT_WR)
            elif end == 2:
                self.held.append(s)
                if len(self.held) > HELD:
                    self.held.popleft().close()
                return
        s.close()

    def end(self):
        for s in self.held:
            s.close()


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lines_about_refusals(pid):
    return sum(" refused " in line for line in log_of(pid).splitlines())


def flood(pid, peers, connections, most_descriptors):
    """Returns by how much the memory of the role has grown after the first quarter."""
    warm = 0
    for i in range(connections):
        peers.connect()
        if i % 100 == 0:
            assert descriptors(pid) <= most_descriptors
        if i == connections // 4:
            warm = resident_bytes(pid)
    return resident_bytes(pid) - warm


def cases(few):
    """Two combinations with few connections, all of them with many."""
    found = [("async", "tcp", few), ("allreduce", "tls", few)]
    for strategy in PORTS:
        for security in ["tcp", "tls"]:
            found.append(pytest.param(strategy, security, 10_000, marks=pytest.mark.long))
    return found


@pytest.mark.parametrize("strategy, security, connections", cases(500))
def test_floods_of_random_connections_do_no_harm(tmp_path, strategy, security, connections):
    """The job goes on. The roles keep neither memory nor descriptors of the peers, and write few lines."""
    events, rate = (1_000_000, 10_000) if connections == 10_000 else (120_000, 10_000)
    rng = random.Random(3)
    job, folders = train(tmp_path, strategy, security, "--pause-at", 3 * events // 4,
                         **{"events: 1000000": f"events: {events}, rate: {rate}"})
    with job, contextlib.ExitStack() as floods:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        before = lasting(job)
        ports = ports_of(job)
        assert sorted(kind for _, _, kind in ports) == PORTS[strategy], ports
        idle = {pid: descriptors(pid) for pid, _, _ in ports}
        listens = collections.Counter(pid for pid, _, _ in ports)
        lines, begin = {pid: lines_about_refusals(pid) for pid in idle}, time.monotonic()
        counted = job.status()["events"]
        for pid, port, role in ports:
            peers = Flood(port, role, rng, folders)
            floods.callback(peers.end)
            grown = flood(pid, peers, connections, idle[pid] + 50 + PENDING * listens[pid])
            assert grown < MOST_GROWTH, f"{NAMES[role]} has grown by {grown} bytes"
        leat.wait_for(lambda: job.status()["events"] > min(counted, 3 * events // 4 - 1), "the next events")
        # The role gives up on the peers that are still there.
        for pid, most in idle.items():
            leat.wait_for(lambda: descriptors(pid) <= most + 10, "the end of connections that are half open")
        for pid in idle:
            most = listens[pid] * LINES * (2 + (time.monotonic() - begin) / 10)
            assert lines_about_refusals(pid) - lines[pid] <= most, log_of(pid)[-3000:]
        assert lasting(job) <= before, "a role has died"
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause", 300)
        job.go_on()
        check_counts(tmp_path, job, events)


# ---- the port of a server that has died

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


def impostor_at(port, answer):
    """None while another socket has the port: a killed process keeps its sockets for a moment."""
    try:
        return Impostor(answer, port)
    except OSError as e:
        assert e.errno == errno.EADDRINUSE, e
        return None


@pytest.mark.parametrize("security", ["tcp", "tls"])
def test_workers_tell_nothing_to_an_impostor_on_the_port_of_a_dead_server(tmp_path, security):
    """Without TLS the impostor replays a recording of the server, with TLS it has the certificate of a worker."""
    events = 400_000
    job, folders = train(tmp_path, "async", security, **{"events: 1000000": f"events: {events}, rate: 30000",
                                                         "interval_s: 5": "interval_s: 0.5"})
    with job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        victim = job.pids("ps")[0]
        (port,) = listening_ports(victim)
        answer = has_certificate(folders["worker"]) if folders else replays(shake_hands(port, "ps", job.token())[1])
        # First the server stands still, so that workers wait for its answer when it dies. Then the coordinator does, so
        # that no worker learns the address of the replacement.
        (coordinator,) = job.pids("coordinator")
        os.kill(victim, signal.SIGSTOP)
        leat.wait_for(stands_still(job), "the workers' wait for the server")
        os.kill(coordinator, signal.SIGSTOP)
        try:
            os.kill(victim, signal.SIGKILL)
            impostor = leat.wait_for(lambda: impostor_at(port, answer), "the end of the dead server's socket")
            leat.wait_for(lambda: impostor.received, "a worker that tries to reach the server")
        finally:
            os.kill(coordinator, signal.SIGCONT)
        assert job.wait(180) == 0, job.text()
        impostor.end()
    assert {len(r) for r in impostor.received} == {0 if folders else HELLO_BYTES}
    assert {x for v in leat.tensors(tmp_path / "counter").values() for x in v} == {float(events)}
