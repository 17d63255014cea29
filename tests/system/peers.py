"""Peers that have no business at a role's ports: they speak the handshake of docs/formats/frame.md, and break it."""

import collections
import hmac
import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import threading

import leat

# 127.0.0.1 in the notation of /proc, as IPv4 and as an IPv4-mapped IPv6 address.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
VERSION = 6
PORT = {"coordinator": 1, "ps": 2, "worker": 3, "transfer": 4, "feed": 5, "pool": 6}
MESSAGES = {}  # by the port's role: the hash of the messages that it speaks, as a port has said
OTHER_BUILD = 0x0123456789abcdef  # another hash
NONCE = bytes(24)
HELLO_BYTES, CHALLENGE_BYTES, PROOF_BYTES, VERDICT_BYTES = 48, 80, 32, 4
ADMITTED, WRONG_TOKEN = bytes(4), b"\1\0\0\0"
PORTS = {  # open ports of a job with one coordinator and three workers
    "async": ["coordinator", "feed", "ps", "ps", "transfer"],
    "sync": ["coordinator", "feed", "ps", "ps", "transfer"],
    "allreduce": ["coordinator", "feed", "transfer", "worker", "worker", "worker"]}


# ---- the roles of a job and their ports

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


def log_of(pid):
    return pathlib.Path(os.readlink(f"/proc/{pid}/fd/2")).read_text()


def refusals(pid):
    return [line for line in log_of(pid).splitlines() if " refused 127.0.0.1:" in line]


SEEN = collections.Counter()  # lines about earlier connections: the system may give them the same source port


def refused_for(pid, s, why):
    """Waits for the one line in the log of a role about this connection."""
    name = f" refused 127.0.0.1:{s.getsockname()[1]}: "
    lines = leat.wait_for(lambda: [line for line in refusals(pid) if name in line][SEEN[pid, name]:], why)
    assert len(lines) == 1 and why in lines[0], (why, lines)
    SEEN[pid, name] += 1


def ports_of(job):
    """(pid, port, what the port is for) of all ports of a job. Costs each port a line about a refused connection."""
    found = []
    for _, pid in lasting(job):
        for port in listening_ports(pid):
            with connected(port) as s:
                kind = learn(s)
                refused_for(pid, s, "")
            found.append((pid, port, kind))
    return found


# ---- sockets and messages

def connected(port):
    s = socket.socket()
    s.settimeout(60)
    s.connect(("127.0.0.1", port))
    return s


def read(s, size):
    """Reads until `size` bytes have arrived or the peer closes the connection."""
    found = b""
    while len(found) < size:
        try:
            got = s.recv(size - len(found))
        except (ConnectionError, ssl.SSLError):
            break
        if not got:
            break
        found += got
    return found


def hello(role, messages=None, version=VERSION):
    """The hello of this build, or of a build with other messages or another version."""
    if messages is None:
        messages = MESSAGES[role]
    return b"LEATWIRE" + struct.pack("<IHHQ", version, 1, PORT[role], messages) + NONCE


def mismatch(role, messages=OTHER_BUILD, version=VERSION):
    """The answer of a port of another build."""
    return b"LEATWIRE" + struct.pack("<IHHQ", version, 2, PORT[role], messages) + NONCE + bytes(PROOF_BYTES)


def speaks(messages, version=VERSION):
    """A build's version, as refusals name it."""
    return f"{version}-{messages:016x}"


def learn(s):
    """The role of a port. Its answer to another build, which refuses the connection, also has its messages."""
    s.sendall(hello("coordinator", OTHER_BUILD))
    number, messages = struct.unpack_from("<HQ", read(s, CHALLENGE_BYTES), 14)
    role = next(kind for kind, n in PORT.items() if n == number & 0x7fff)
    MESSAGES[role] = messages
    return role


def proof(role, token, challenge):
    """The proof without TLS. With TLS it would cover a secret of the session, which Python cannot know."""
    text = b"leat handshake: connects" + struct.pack("<IIQ", VERSION, PORT[role], MESSAGES[role])
    return hmac.digest(token.encode(), text + NONCE + challenge[24:48], "sha256")


def shake_hands(port, role, token):
    """Returns what both sides have sent."""
    if role not in MESSAGES:
        with connected(port) as s:
            learn(s)
    with connected(port) as s:
        s.sendall(hello(role))
        challenge = read(s, CHALLENGE_BYTES)
        s.sendall(proof(role, token, challenge))
        return hello(role) + proof(role, token, challenge), challenge + read(s, VERDICT_BYTES)


# ---- certificates and TLS

def certificate(folder, name, roles, *hosts, authority="authority"):
    """Issues a certificate and returns its folder. Creates the authority if it is missing."""
    if not (folder / authority).exists():
        assert leat.run("cert", "init", folder / authority).returncode == 0
    done = leat.run("cert", "issue", roles, *hosts, "--authority", folder / authority, "--out", folder / name)
    assert done.returncode == 0, done.stderr
    return folder / name


def expired(folder, name, roles):
    """A certificate of the authority that was valid until yesterday, by openssl."""
    made = certificate(folder, name, roles, "127.0.0.1")
    request, extension = folder / "request.pem", folder / "extension"
    extension.write_text("subjectAltName=" + ",".join(f"URI:leat:role:{r}" for r in roles.split(",")) +
                         ",IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    for command in [["req", "-new", "-key", made / "key.pem", "-subj", "/CN=expired", "-out", request],
                    ["x509", "-req", "-in", request, "-CA", folder / "authority/ca.pem", "-CAkey",
                     folder / "authority/ca-key.pem", "-set_serial", "7", "-days", "-1", "-extfile", extension, "-out",
                     made / "cert.pem"]]:
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    return made


def tls_context(folder, server=False):
    """For a certificate. The other side's is not checked, so that the other side has to refuse."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def shake_tls(port, folder):
    return tls_context(folder).wrap_socket(connected(port))


class RecordedTls:
    """TLS over a socket of its own that keeps all bytes that this side has sent."""

    def __init__(self, port, folder):
        self.socket = connected(port)
        self.incoming, self.outgoing, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
        self.tls = tls_context(folder).wrap_bio(self.incoming, self.outgoing)
        self.call(self.tls.do_handshake)

    def call(self, function, *arguments):
        while True:
            try:
                return function(*arguments)
            except ssl.SSLWantReadError:
                self.flush()
                got = self.socket.recv(100_000)
                if not got:
                    self.incoming.write_eof()
                self.incoming.write(got)
            finally:
                self.flush()

    def flush(self):
        piece = self.outgoing.read()
        self.socket.sendall(piece)
        self.sent += piece

    def sendall(self, content):
        self.call(self.tls.write, content)

    def recv(self, size):
        return self.call(self.tls.read, size)


def client_hello(folder):
    """The first bytes of a TLS connection."""
    outgoing = ssl.MemoryBIO()
    try:
        tls_context(folder).wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


# ---- impostors

class Impostor:
    """Listens in the place of a role. `answer(socket)` handles each connection and returns what it has learnt."""

    def __init__(self, answer, port=0):
        self.answer = answer
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
                self.received.append(self.answer(s))

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def replays(recorded):
    """Answers every connection with recorded bytes."""
    def answer(s):
        first = read(s, HELLO_BYTES)
        try:
            s.sendall(recorded)
        except OSError:
            pass
        return first + read(s, 100_000)
    return answer


def has_certificate(folder):
    """Begins TLS with a certificate, and tells what arrives through it."""
    context = tls_context(folder, server=True)

    def answer(s):
        try:
            with context.wrap_socket(s, server_side=True) as tls:
                return read(tls, 1000)
        except OSError:  # ssl.SSLError, too
            return b""
    return answer


class Recorder:
    """Forwards one connection to a port, and keeps what both sides have sent."""

    def __init__(self, port):
        self.to, self.connects, self.accepts = port, b"", b""
        self.impostor = Impostor(self.forward)
        self.port = self.impostor.port

    def forward(self, caller):
        with connected(self.to) as role:
            back = threading.Thread(target=self.copy, args=(role, caller, "accepts"))
            back.start()
            self.copy(caller, role, "connects")
            back.join()
        return b""

    def copy(self, source, sink, name):
        try:
            while got := source.recv(100_000):
                setattr(self, name, getattr(self, name) + got)
                sink.sendall(got)
        except OSError:
            pass
        for one in [source, sink]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.impostor.end()
