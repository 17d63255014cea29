"""A client that means harm: python3 hostile_client.py HOST:PORT SECONDS LEAST [tls]. It has no token, and never needs one.

Goes on for SECONDS, and until it has sent LEAST random requests, or with `tls` made as many random attempts at a handshake. Prints
their number. Nothing that it meets is an error.
"""

import contextlib
import os
import random
import resource
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

SILENT, IDLE, SLOW = 2000, 2000, 150
HANDSHAKES = 300  # unfinished ones; each costs the server a signature
PATHS = ["/", "/v2", "/v1/predict", "/v2/health/live", "/v2/health/ready", "/v2/models/payments", "/v2/models/x/infer",
         "/v2/models/payments/infer", "*", "http://localhost/v2", "http://attacker.example/v2/health/live", "//", "/%",
         "https://127.0.0.1", "http://a@b/", "/" + "a" * 3000, "/v2?" + "b=c&" * 50, "\x00", "/\xff"]
METHODS = ["GET", "POST", "HEAD", "PUT", "OPTIONS", "CONNECT", "BREW", "", "get", "GET GET"]
HEADERS = ["Host: localhost", "Host: 127.0.0.1", "Host: attacker.example", "Host: a\r\nHost: b", "Content-Length: 5",
           "Content-Length: 99999999999999999999", "Content-Length: -1", "Content-Length: 1048576",
           "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue", "Connection: close",
           "Connection: keep-alive", "Content-Type: application/json", "Content-Type: text/csv", "Content-Encoding: gzip",
           "Inference-Header-Content-Length: 3", "Authorization: Bearer 0123456789abcdef", "Origin: http://attacker.example",
           " folded: x", "no colon", "A: " + "a" * 5000, "A: \x01", ": x", "Upgrade: h2c"]
BODIES = ["", "hello", "{}", "[" * 2000, '{"amount": 5}', "5;x=y\r\nhello\r\n0\r\n\r\n", "0\r\nA: b\r\n\r\n", "fffffffff\r\n",
          "1;" + "a" * 3000, "0\r\nA: " + "a" * 3000, "\xef\xbb\xbf[]", '{"inputs": [{"name": "features"}]}', "\r\n\r\n"]


class Hostile:
    def __init__(self, address, seconds, least):
        host, port = address.rsplit(":", 1)
        self.address = host, int(port)
        self.until = time.monotonic() + seconds
        self.least = least
        self.requests = 0

    def over(self):
        return time.monotonic() > self.until and self.requests >= self.least

    def connect(self):
        connection = socket.create_connection(self.address, timeout=2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def many(self, count, first=b"", say=None, until=select.EPOLLIN | select.EPOLLRDHUP):
        """Holds `count` connections, and opens those again that the server closes, or answers. Each begins with `first`,
        and says something now and then."""
        open_now = {}
        events = select.epoll()
        while not self.over():
            while len(open_now) < count and not self.over():
                connection = socket.socket()
                connection.setblocking(False)
                connection.connect_ex(self.address)
                with contextlib.suppress(OSError):
                    connection.send(first)
                open_now[connection.fileno()] = connection
                events.register(connection.fileno(), until)
            for number, _ in events.poll(0.05):
                connection = open_now.pop(number)
                events.unregister(number)
                connection.close()
            for connection in list(open_now.values()) if say else []:
                with contextlib.suppress(OSError):
                    connection.send(say())
        for connection in open_now.values():
            connection.close()

    def silent(self):
        self.many(SILENT)

    def idle(self):
        self.many(IDLE, first=b"GET ")

    def kept(self):
        """Everyone may ask this, and keep the connection."""
        self.many(IDLE, first=b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", until=select.EPOLLRDHUP)

    def slow_heads(self):
        rng = random.Random(1)
        self.many(SLOW, say=lambda: bytes([rng.choice(b"GET / HTTP/1.1\r\nHost: x")]))

    def endless(self):
        """Sends parts of a request without an end: extensions, trailers, sizes, heads, bodies without permission."""
        kinds = [("Transfer-Encoding: chunked\r\n\r\n1;", b"a"), ("Transfer-Encoding: chunked\r\n\r\n0\r\nA: ", b"a"),
                 ("Transfer-Encoding: chunked\r\n\r\n", b"0"), ("A: ", b"a"), ("", b"A: b\r\n"),
                 ("Content-Length: 100000000\r\n\r\n", b"a"), ("Transfer-Encoding: chunked\r\n\r\n", b"1;aaaa\r\nx\r\n"),
                 ("Transfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"), ("\r\n", b"\r\n"),
                 ("Content-Length: 8000000\r\n\r\n", b"a")]
        for turn in range(10 ** 9):
            if self.over():
                return
            start, rest = kinds[turn % len(kinds)]
            path = ["/v2/health/live", "/v1/predict", "/v2/health/x"][turn // len(kinds) % 3]
            with contextlib.suppress(OSError), contextlib.closing(self.connect()) as connection:
                connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{start}".encode())
                for _ in range(50):
                    connection.sendall(rest * (16384 // len(rest)))

    @staticmethod
    def chunked(rng):
        """A request with extensions and trailers, often without a mistake."""
        extensions = ["", "", ";a", ";a=b", ';a="b;c"', " ; a = b", ";" + "x" * 500, ";\x00", "\r"]
        trailers = ["", "A: b\r\n", "A: b\r\n" * 20, "Content-Length: 9\r\n", " folded\r\n", "no colon\r\n", "A: " + "a" * 3000 + "\r\n"]
        body = ""
        for _ in range(rng.randint(0, 4)):
            size = rng.choice([1, 2, 15, 16, 300])
            shown = rng.choice([f"{size:x}", f"{size:X}", f"{size:016x}", f"{size + rng.choice([0, 0, -1, 1]):x}", f"+{size:x}"])
            body += f"{shown}{rng.choice(extensions)}\r\n{rng.choice(['[', '{', 'x']) * size}" + rng.choice(["\r\n"] * 9 + ["\n"])
        target = rng.choice(["", "http://localhost", "http://attacker.example"]) + rng.choice(PATHS[:8])
        return (f"POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{body}0"
                f"{rng.choice(extensions)}\r\n{rng.choice(trailers)}\r\n").encode("latin-1")

    def random_requests(self, seed):
        rng = random.Random(seed)
        while not self.over():
            with contextlib.suppress(OSError), contextlib.closing(self.connect()) as connection:
                for _ in range(20):
                    if rng.random() < 0.05:
                        request = rng.randbytes(rng.randint(1, 5000))
                    elif rng.random() < 0.2:
                        request = self.chunked(rng)
                    else:
                        lines = [f"{rng.choice(METHODS)} {rng.choice(PATHS)} HTTP/1.{rng.choice('1110')}"]
                        lines += rng.sample(HEADERS[:2], 1) if rng.random() < 0.9 else []
                        lines += rng.sample(HEADERS, rng.choice([0, 0, 1, 2, 3]))
                        request = ("\r\n".join(lines) + "\r\n\r\n" + rng.choice(BODIES)).encode("latin-1")
                    self.requests += 1
                    connection.sendall(request)
                    if rng.random() < 0.2:
                        connection.settimeout(0.01)
                        connection.recv(65536)
                        connection.settimeout(2)
                if rng.random() < 0.3:  # a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def never_reads(self):
        with contextlib.ExitStack() as stack:
            while not self.over():
                with contextlib.suppress(OSError):
                    connection = stack.enter_context(contextlib.closing(self.connect()))
                    connection.sendall(b"GET /v2/models/payments HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20000)
                time.sleep(0.2)


class HostileTls(Hostile):
    """The same against the handshake, and against what follows it."""

    @staticmethod
    def client():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def hello(self):
        said = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            self.client().wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
        return said.read()

    def endless_handshakes(self):
        """They begin, and then nothing comes."""
        self.many(HANDSHAKES, first=self.hello(), until=select.EPOLLRDHUP)

    def slow_handshakes(self):
        rng = random.Random(2)
        self.many(SLOW, first=self.hello()[:20], say=lambda: rng.randbytes(1))

    def random_handshakes(self, seed):
        rng = random.Random(seed)
        hello = self.hello()
        while not self.over():
            self.requests += 1
            with contextlib.suppress(OSError), contextlib.closing(self.connect()) as connection:
                kind = rng.randrange(6)
                if kind == 0:
                    connection.sendall(rng.randbytes(rng.randint(1, 20000)))
                elif kind == 1:  # a request without TLS
                    connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                elif kind == 2:  # cut, or with a mistake
                    changed = bytearray(hello)
                    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
                    connection.sendall(changed[:rng.randint(1, 2 * len(changed))])
                elif kind == 3:  # closed in the middle
                    connection.sendall(hello)
                else:
                    with self.client().wrap_socket(connection, server_hostname="localhost") as tls:
                        tls.sendall(b"GET /v2/health/li")
                        # The next bytes are in the clear: another handshake, or no record at all.
                        with socket.socket(fileno=os.dup(tls.fileno())) as clear:
                            clear.sendall(hello if kind == 4 else rng.randbytes(rng.randint(1, 20000)))
                if rng.random() < 0.5:
                    connection.settimeout(0.05)
                    connection.recv(65536)
                if connection.fileno() >= 0 and rng.random() < 0.3:  # a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def renegotiations(self):
        """Asks for another handshake within TLS 1.2, and for other keys within TLS 1.3, again and again."""
        host, port = self.address
        while not self.over():
            for version, command in [("-tls1_2", b"R\n"), ("-tls1_3", b"K\n")]:
                command_line = ["openssl", "s_client", "-connect", f"{host}:{port}", version]
                client = subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                with contextlib.suppress(OSError):
                    for _ in range(20):
                        os.write(client.stdin.fileno(), command)
                        time.sleep(0.01)
                client.kill()
                client.wait()


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    tls = sys.argv[4:] == ["tls"]
    hostile = (HostileTls if tls else Hostile)(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
    if tls:
        tasks = [hostile.silent, hostile.endless_handshakes, hostile.slow_handshakes, hostile.renegotiations]
        tasks += [lambda seed=seed: hostile.random_handshakes(seed) for seed in range(2)]
    else:
        tasks = [hostile.silent, hostile.idle, hostile.kept, hostile.slow_heads, hostile.endless, hostile.never_reads]
        tasks += [lambda seed=seed: hostile.random_requests(seed) for seed in range(2)]
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(hostile.requests)


if __name__ == "__main__":
    main()
