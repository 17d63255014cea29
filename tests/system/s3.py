"""An S3 server that checks signatures, and a proxy before it that injects faults."""

import contextlib
import http.client
import http.server
import json
import os
import random
import socket
import struct
import subprocess
import threading
import urllib.request

import leat

PYTHON = leat.ROOT / "build/baselines/s3"
BUCKET = "checkpoints"

# Without authentication until the user has its key: create_user, put_user_policy, create_access_key, create_bucket.
OPEN_REQUESTS = 4
PREPARE = """
import boto3, json, sys
endpoint, bucket = sys.argv[1:]
of = dict(endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
iam = boto3.client("iam", **of)
iam.create_user(UserName="leat")
allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="leat", PolicyName="all", PolicyDocument=json.dumps(allow))
key = iam.create_access_key(UserName="leat")["AccessKey"]
boto3.client("s3", **of).create_bucket(Bucket=bucket)
print(json.dumps({"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}))
"""
LIST = """
import boto3, json, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
keys = [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=sys.argv[2]) for o in page.get("Contents", [])]
print(json.dumps([keys, [u["Key"] for u in s3.list_multipart_uploads(Bucket=sys.argv[2]).get("Uploads", [])]]))
"""


def python(script, *arguments, env=None):
    done = subprocess.run([PYTHON / "bin/python3", "-c", script, *arguments], text=True, capture_output=True, timeout=120,
                          env={**os.environ, **(env or {})})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Server:
    """moto with signature checks, and one user who may do everything."""

    def __init__(self, folder):
        subprocess.run(["/usr/bin/python3", leat.ROOT / "bench/frame/environment.py", leat.ROOT / "deploy/pip-s3.txt", PYTHON],
                       check=True, timeout=600)
        self.port = leat.free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.log = open(folder / "s3.log", "w")
        self.process = subprocess.Popen(
            [PYTHON / "bin/python3", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)], stdout=self.log,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(OPEN_REQUESTS)})

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            assert self.process.poll() is None, (folder / "s3.log").read_text()
            return False
        try:
            leat.wait_for(answers, "the S3 server's start")
            self.keys = python(PREPARE, self.endpoint, BUCKET)
        except BaseException:
            self.end()
            raise

    def env(self, endpoint=None):
        return {**self.keys, "AWS_ENDPOINT_URL": endpoint or self.endpoint, "AWS_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true"}

    def contents(self):
        """(keys of objects, keys of uploads that are neither complete nor given up)"""
        return python(LIST, self.endpoint, BUCKET, env=self.env())

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Faults:
    """An HTTP proxy before the server. `rate`: of requests that fail, by each of `kinds` in turn."""

    KINDS = ("500", "503", "reset", "lost", "truncated", "slow")

    def __init__(self, server, rate=0.0, kinds=KINDS, seed=1):
        self.rate, self.kinds, self.random = rate, kinds, random.Random(seed)
        self.injected, self.requests = {}, 0
        self.lock = threading.Lock()
        faults, port = self, server.port

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def reset(self):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = faults.draw()
                if fault in ("500", "503"):
                    return self.send(int(fault), [], b"<Error><Code>SlowDown</Code><Message>later</Message></Error>")
                if fault == "reset":
                    return self.reset()
                if fault == "slow":
                    faults.ended.wait(0.3)
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                with contextlib.closing(upstream):
                    upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        upstream.putheader(name, value)
                    upstream.endheaders(body)
                    reply = upstream.getresponse()
                    content = reply.read()
                    headers = [(n, v) for n, v in reply.getheaders()
                               if n.lower() not in ("connection", "transfer-encoding", "date", "server")]
                if fault == "lost":
                    return self.reset()
                self.send(reply.status, headers, content, fault == "truncated" and len(content) > 0)

            def send(self, status, headers, content, truncated=False):
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() != "content-length" or self.command == "HEAD":
                        self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[:len(content) // 2] if truncated else content)
                if truncated:
                    self.wfile.flush()
                    self.close_connection = True

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

        class Proxy(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that has gone

        self.ended = threading.Event()
        self.proxy = Proxy(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.proxy.server_address[1]}"
        self.thread = threading.Thread(target=self.proxy.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def draw(self):
        with self.lock:
            self.requests += 1
            if self.random.random() >= self.rate:
                return None
            kind = self.kinds[sum(self.injected.values()) % len(self.kinds)]
            self.injected[kind] = self.injected.get(kind, 0) + 1
            return kind

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.proxy.shutdown()
        self.proxy.server_close()
        self.thread.join()
