"""A client that means harm: python3 hostile_client.py HOST:PORT SECONDS LEAST. It has no token, and never needs one.

Goes on for SECONDS, and until it has sent LEAST random requests. Prints their number. Nothing that it meets is an error.
"""

import contextlib
import random
import resource
import select
import socket
import struct
import sys
import threading
import time

SILENT, IDLE, SLOW = 2000, 2000, 150
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

    def many(self, count, first=b"", say=None):
        """Holds `count` connections, and opens those again that the server closes. Each begins with `first`, and says
        something now and then."""
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
                events.register(connection.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
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

    def slow_heads(self):
        rng = random.Random(1)
        self.many(SLOW, say=lambda: bytes([rng.choice(b"GET / HTTP/1.1\r\nHost: x")]))

    def endless(self):
        """What has no end: extensions, trailers, sizes, heads, bodies of those who may send none."""
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

    def random_requests(self, seed):
        rng = random.Random(seed)
        while not self.over():
            with contextlib.suppress(OSError), contextlib.closing(self.connect()) as connection:
                for _ in range(20):
                    if rng.random() < 0.05:
                        request = rng.randbytes(rng.randint(1, 5000))
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


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    hostile = Hostile(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
    tasks = [hostile.silent, hostile.idle, hostile.slow_heads, hostile.endless, hostile.never_reads]
    tasks += [lambda seed=seed: hostile.random_requests(seed) for seed in range(2)]
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(hostile.requests)


if __name__ == "__main__":
    main()
