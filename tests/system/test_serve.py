"""Live predictions: `leat serve` beside jobs that run, end, fail and start again, and on their checkpoints."""

# folders: serve

import contextlib
import http.client
import itertools
import json
import os
import random
import re
import resource
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import threading
import time

import pytest

import leat
from observers import Observer, view_token
from peers import certificate
from test_strategies import EVENTS, counting, values

TOKEN = "the token of a job"
LONG = os.environ.get("LEAT_LONG") == "1"


def event(rng):
    return {"amount": round(rng.lognormvariate(3.5, 1), 2), "times_usual": round(rng.uniform(0.1, 4), 2),
            "hour": round(rng.uniform(0, 24), 2), "hours_off": round(rng.uniform(0, 12), 2),
            "since_last": round(rng.uniform(0, 1000), 1), "distance_km": round(rng.uniform(0, 500), 1),
            "new_device": rng.randint(0, 1), "kind": rng.choice(["grocery", "fuel", "travel"]),
            "country": rng.choice(["ES", "MX"]), "channel": rng.choice(["online", "chip"])}


def payments(folder, events=100_000_000, rate=20_000, **changes):
    return leat.write_job(folder / "payments.yaml", (leat.EXAMPLES / "demo.yaml").read_text(),
                          **{"name: demo": "name: payments", "events: 2000000": f"events: {events}",
                             "rate: 40000": f"rate: {rate}", "interval_s: 15": "interval_s: 1", **changes})


def float32(x):
    """The float that the shortest text of it was read from."""
    return struct.unpack("f", struct.pack("f", x))[0]


class Serve:
    """`leat serve` in the background, and a client of it."""

    def __init__(self, folder, *arguments, token=TOKEN, security=None, client_token=None):
        self.log = folder / f"serve-{time.monotonic_ns()}.log"
        self.ready, ready = os.pipe()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [leat.PROGRAM, "serve", "--listen", "127.0.0.1:0", "--ready-fd", str(ready), *map(str, arguments)],
                env={**os.environ, "LEAT_TOKEN": token}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[ready], start_new_session=True)
        os.close(ready)
        self.address = os.read(self.ready, 100).decode().strip()
        assert self.address, self.text()
        self.tls = ssl.create_default_context(cafile=security / "ca.pem") if security else None
        self.headers = {"Authorization": f"Bearer {client_token}"} if client_token else {}

    def text(self):
        return self.log.read_text()

    def connect(self, source=None):
        """`source`: the address of another host, from which the connection comes."""
        host, port = self.address.rsplit(":", 1)
        more = {"timeout": 60, "source_address": source and (source, 0)}
        if self.tls:
            return http.client.HTTPSConnection(host, int(port), context=self.tls, **more)
        return http.client.HTTPConnection(host, int(port), **more)

    def ask(self, path, body=None, headers=None, connection=None):
        """(status, the reply as JSON)"""
        with contextlib.ExitStack() as stack:
            if connection is None:
                connection = stack.enter_context(contextlib.closing(self.connect()))
            kind = {"Content-Type": "application/json"} if body is not None else {}
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request("POST" if body is not None else "GET", path, body=data,
                               headers={**kind, **self.headers, **(headers or {})})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def predict(self, body, connection=None):
        status, reply = self.ask("/v1/predict", body, connection=connection)
        assert status == 200, (status, reply, self.text()[-2000:])
        return reply

    def is_ready(self):
        assert self.process.poll() is None, self.text()
        return self.ask("/v2/health/ready")[0] == 200

    def await_ready(self):
        leat.wait_for(self.is_ready, "the first version")

    def stop(self, timeout=60):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ready)


class Clients:
    """Ask for predictions all the time, each over a connection of its own. Every reply is checked."""

    def __init__(self, serve, count=4, fresh=False, source=None):
        self.serve, self.over, self.source = serve, threading.Event(), source
        self.fresh = fresh  # a connection for each request
        self.replies, self.failures, self.versions = 0, [], set()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        rng = random.Random(seed)
        connection = self.serve.connect(self.source)
        while not self.over.is_set():
            several = rng.random() < 0.2
            events = [event(rng) for _ in range(rng.randint(2, 20))] if several else [event(rng)]
            try:
                status, reply = self.serve.ask("/v1/predict", events if several else events[0], connection=connection)
                found = [p["score"] for p in reply["predictions"]] if several and status == 200 else [reply.get("score")]
                good = status == 200 and len(found) == len(events) and all(0 <= score <= 1 for score in found)
                if self.fresh:
                    connection.close()  # the next request opens it again
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as e:
                status, reply, good = None, repr(e), False
                connection = self.serve.connect(self.source)
            with self.lock:
                self.replies += 1
                if not good:
                    self.failures.append((time.monotonic(), status, reply))
                else:
                    self.versions.add(reply["version"])
        connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def started(folder, job_file, *arguments, directory=None, **more):
    directory = directory or folder / "job"
    return leat.Job("train", job_file, "--directory", directory, *arguments, directory=directory,
                    env={**os.environ, "LEAT_TOKEN": TOKEN}, **more)


def settled(serve):
    """Waits until nothing new comes from a job that has paused."""
    def same():
        before = serve.predict(event(random.Random(1)))
        leat.wait_for(lambda: serve.predict(event(random.Random(1)))["age_seconds"] < before["age_seconds"], "a refresh")
        leat.wait_for(lambda: serve.predict(event(random.Random(1)))["age_seconds"] < 0.05, "another refresh")
        return serve.predict(event(random.Random(1)))["version"] == before["version"]
    leat.wait_for(same, "the last version")


def test_a_job_that_runs_and_ends(tmp_path):
    with started(tmp_path, payments(tmp_path)) as job:
        with Serve(tmp_path, "--coordinator", job.address(), "--metrics", "127.0.0.1:0") as serve:
            assert serve.ask("/v2/health/live") == (200, {"live": True})
            serve.await_ready()
            assert serve.ask("/v2/models/payments")[1]["platform"] == "leat"
            with Clients(serve) as clients:
                leat.wait_for(lambda: clients.replies > 100 and len(clients.versions) > 10, "replies with new versions")
            assert not clients.failures, clients.failures[:3]
            # Its count comes with a keep-alive, later than the replies.
            leat.wait_for(lambda: next(m for m in job.status()["members"] if m["role"] == "serve")["done"] > 10,
                          "the versions in the status")
            job.command("pause")
            leat.wait_for(lambda: job.status()["phase"] == "paused", "the pause")
            settled(serve)
            job.interrupt()
            assert job.wait() == 0, job.text()
            assert job.summary()["evictions"] == 0
            # The last version, with its age, although nobody is there any more.
            last = leat.wait_for(lambda: (r := serve.predict(event(random.Random(1))))["age_seconds"] > 1 and r,
                                 "a version that grows old")
            assert serve.is_ready()
            with Serve(tmp_path, "--directory", job.directory) as still:
                still.await_ready()
                # The checkpoint has the same values, so scores are the same to the last bit.
                for seed in range(20):
                    asked = event(random.Random(seed))
                    assert still.predict(asked)["score"] == serve.predict(asked)["score"]
                many = [event(random.Random(seed)) for seed in range(50)]
                assert still.predict(many)["predictions"] == serve.predict(many)["predictions"]
                assert still.stop() == 0
            assert serve.predict(event(random.Random(1)))["version"] == last["version"]
            assert serve.stop() == 0, serve.text()


@pytest.mark.parametrize("strategy", ["async", "sync", "allreduce"])
def test_every_update_arrives(tmp_path, strategy):
    """The model is a bias that counts events, so a prediction is the number of events that it is from."""
    with started(tmp_path, counting(tmp_path, strategy, **{"units: 2048": "units: 1"}), "--pause-at", EVENTS // 2) as job:
        with Serve(tmp_path, "--coordinator", job.address(), "--refresh", 20) as serve:
            serve.await_ready()

            def predicted():
                return serve.predict({"amount": 0})["score"]

            seen = [predicted()]
            while job.status().get("phase") != "paused":
                seen.append(predicted())
            assert seen == sorted(seen), "values went back"
            # A worker's last count may come to the status a moment after the pause.
            leat.wait_for(lambda: predicted() == job.status()["events"] >= EVENTS // 2, "the last update")
            job.go_on()
            assert job.wait() == 0, job.text()
            assert job.summary()["events"] == EVENTS
        assert values(job.directory) == {float(EVENTS)}
        with Serve(tmp_path, "--directory", job.directory) as serve:
            serve.await_ready()
            assert serve.predict({"amount": 0})["score"] == EVENTS


@pytest.mark.parametrize("strategy", ["async"] if not LONG else ["async", "sync", "allreduce"])
def test_no_request_fails_while_all_else_does(tmp_path, strategy):
    """Servers, workers and the coordinator die and come back, slices move, the whole job is killed and resumed."""
    rng = random.Random(strategy)
    port = leat.free_port()
    servers = strategy != "allreduce"
    listen = ["--listen", f"127.0.0.1:{port}"]
    file = payments(tmp_path, **{"strategy: async": f"strategy: {strategy}"})

    def kill(role):
        pids = job.pids(role)
        if pids:
            os.kill(rng.choice(pids), signal.SIGKILL)

    def scale(job):
        job.status()
        where, token = job.where
        leat.run("scale", "--coordinator", where, "--ps", rng.randint(1, 4), env={"LEAT_TOKEN": token})

    with contextlib.ExitStack() as stack:
        job = stack.enter_context(started(tmp_path, file, "--workers", 2, *(["--ps", 3] if servers else []), *listen))
        serve = stack.enter_context(Serve(tmp_path, "--coordinator", job.address()))
        serve.await_ready()
        clients = stack.enter_context(Clients(serve))
        faults = [lambda: kill("worker"), lambda: kill("coordinator")]
        faults += [lambda: kill("ps"), lambda: kill("ps"), lambda: scale(job)] if servers else []
        until = time.monotonic() + (120 if LONG else 6)
        restarts = 0
        for round_ in itertools.count():
            if time.monotonic() > until and restarts > 0:
                break
            if round_ % 4 == 3 or (not LONG and round_ == 2):
                job.kill()
                restarts += 1
                job = stack.enter_context(leat.Job("train", "--resume", tmp_path / "job", *listen,
                                                   directory=tmp_path / "job", env={**os.environ, "LEAT_TOKEN": TOKEN}))
            else:
                rng.choice(faults)()
            time.sleep(rng.uniform(0.2, 2))
        # It follows again: a new version comes.
        before = max(clients.versions)
        leat.wait_for(lambda: max(clients.versions) > before + 3, "new versions")
        assert not clients.failures, clients.failures[:3]
        clients.over.set()
        job.interrupt()
        assert job.wait() == 0, job.text()[-3000:]
        assert serve.stop() == 0, serve.text()[-2000:]


def test_clients_need_their_tokens_and_no_certificate(tmp_path):
    security = certificate(tmp_path, "all", "coordinator,server,worker,bots,admin,serve", "127.0.0.1")
    tokens = tmp_path / "tokens"
    tokens.write_text("# shop\nshop-0123456789abcdef\n")
    tokens.chmod(0o600)
    job_file = leat.write_job(tmp_path / "p.yaml", payments(tmp_path).read_text() + "\nsecurity: tls\n")
    with started(tmp_path, job_file, "--security", security, security=security) as job:
        with Serve(tmp_path, "--coordinator", job.address(), "--security", security, "--tokens", tokens,
                   security=security, client_token="shop-0123456789abcdef") as serve:
            serve.await_ready()
            assert serve.predict(event(random.Random(1)))["score"] >= 0
            for token in ["", TOKEN, view_token(TOKEN), "shop-0123456789abcde"]:
                status, reply = serve.ask("/v1/predict", event(random.Random(1)), {"Authorization": f"Bearer {token}"})
                assert (status, reply["error"]) == (401, "a valid token is needed: Authorization: Bearer TOKEN")
            serve.tls = None
            status, reply = serve.ask("/v2/health/live")
            assert (status, reply["error"]) == (400, "this listener uses TLS (https)")
            assert serve.stop() == 0


def test_metrics_and_status(tmp_path):
    port = leat.free_port()
    with started(tmp_path, payments(tmp_path)) as job:
        with Serve(tmp_path, "--coordinator", job.address(), "--metrics", f"127.0.0.1:{port}") as serve:
            serve.await_ready()
            for i in range(20):
                serve.predict([event(random.Random(i)), {"amount": "no"}])
            observer = Observer(view_token(TOKEN))

            def figures():
                page = observer.get(f"127.0.0.1:{port}", "/metrics").body
                return dict(re.findall(r"^(leat_serve_\w+) (\S+)$", page, re.MULTILINE))

            leat.wait_for(lambda: "leat_serve_version" in figures(), "the version")
            found = figures()
            assert float(found["leat_serve_rows_total"]) == 20
            assert float(found["leat_serve_rejected_events_total"]) == 20
            assert float(found["leat_serve_version"]) > 0
            assert 0 <= float(found["leat_serve_age_seconds"]) < 30
            assert float(found["leat_serve_request_seconds_count"]) == 20
            leat.wait_for(lambda: observer.get(f"127.0.0.1:{port}", "/readyz").status == 200, "/readyz")
            done = leat.run("status", "--coordinator", job.address(), env={"LEAT_TOKEN": TOKEN})
            assert "serve 0" in done.stdout, done.stdout
            done = leat.run("drain", "serve", "0", "--coordinator", job.address(), env={"LEAT_TOKEN": TOKEN})
            assert done.returncode == 0, done.stderr
            assert serve.process.wait(60) == 0, serve.text()


def test_requests_that_are_refused(tmp_path):
    with started(tmp_path, payments(tmp_path, events=20_000, rate=0)) as job:
        assert job.wait() == 0, job.text()
    with Serve(tmp_path, "--directory", job.directory, "--max-rows", 3, "--max-body", 2000) as serve:
        serve.await_ready()
        good = event(random.Random(1))

        def refusal(path, body, headers=None):
            status, reply = serve.ask(path, body, headers)
            return status, reply["error"]

        assert refusal("/v1/predict", {**good, "amount": "x"}) == (400, "amount: 'x' is not a number")
        assert refusal("/v1/predict", [good] * 4) == (413, "more than 3 events in a request")
        status, reply = serve.ask("/v1/predict", [good, 5, None])
        assert status == 200 and [list(one) for one in reply["predictions"]] == [["score"], ["error"], ["error"]], reply
        assert refusal("/v1/predict", " " * 3000) == (413, "the body is larger than 2000 bytes")
        assert refusal("/v2/models/other/infer", "{}") == (404, "there is no model 'other'; this is 'payments'")
        assert refusal("/v2/models/payments/infer", {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 2],
                                                                 "data": [1, 2]}]}) == (
            400, "input 'features' has shape [1, 2]; it must be [n, 30]")
        assert serve.ask("/v1/predict")[0] == 405
        assert serve.ask("/")[0] == 404
        assert serve.predict(good)["score"] >= 0


def test_a_model_that_does_not_fit_into_memory(tmp_path):
    """The server follows the job on a thread of its own: what fails there ends the process as anything else does."""
    port = leat.free_port()
    job_file = counting(tmp_path, "async", **{"units: 2048": "units: 1048576", "batch_size: 100, split_batches: 20":
                                              "batch_size: 4, split_batches: 4"})
    with Serve(tmp_path, "--coordinator", f"127.0.0.1:{port}") as serve:
        leat.wait_for(lambda: "waits for the coordinator" in serve.text(), "its first attempt")
        with open(f"/proc/{serve.process.pid}/status") as status:
            size = int(re.search(r"VmSize:\s+(\d+) kB", status.read())[1]) << 10
        # Enough to join; the scores of a batch alone are 256 MB.
        most = size + (200 << 20)
        resource.prlimit(serve.process.pid, resource.RLIMIT_AS, (most, most))
        with started(tmp_path, job_file, "--workers", 1, "--ps", 1, "--listen", f"127.0.0.1:{port}"):
            assert serve.process.wait(120) == 75, serve.text()[-2000:]
        # A thread's stack may be the first thing that does not fit.
        assert re.match("leat: (out of memory|no more threads)", serve.text().splitlines()[-1]), serve.text()[-2000:]


def test_bad_arguments(tmp_path):
    def refused(*arguments, **env):
        return leat.refused(leat.run("serve", *arguments, env={"LEAT_TOKEN": TOKEN, **env}, timeout=60))

    assert "serve needs --coordinator" in refused()
    assert "serve needs --coordinator" in refused("--coordinator", "127.0.0.1:1", "--directory", tmp_path)
    assert "there is no job in it" in refused("--directory", tmp_path)
    with started(tmp_path, payments(tmp_path, events=20_000, rate=0)) as job:
        assert job.wait() == 0, job.text()
    serve = ["--directory", job.directory]
    assert "--tls-cert and --tls-key go together" in refused(*serve, "--tls-cert", "x")
    assert "--allow-tls-1.2 needs a certificate" in refused(*serve, "--allow-tls-1.2")
    assert "nothing.pem" in refused(*serve, "--tls-cert", tmp_path / "nothing.pem", "--tls-key", tmp_path / "key.pem")
    assert "use --security DIR (TLS)" in refused(*serve, "--listen", "0.0.0.0:0")
    security = certificate(tmp_path, "serve", "serve", "127.0.0.1")
    assert "use --tokens FILE" in refused(*serve, "--listen", "0.0.0.0:0", "--security", security)
    (tmp_path / "tokens").write_text("short\n")
    (tmp_path / "tokens").chmod(0o600)
    assert "tokens:1: a token needs at least 16 characters" in refused(*serve, "--tokens", tmp_path / "tokens")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        leat.refused(leat.run("serve", *serve, "--listen", address, env={"LEAT_TOKEN": TOKEN}, timeout=60),
                     f"cannot listen on {address}", status=75)
    with started(tmp_path, payments(tmp_path), directory=tmp_path / "other") as running:
        where = running.address()
        done = leat.run("serve", "--coordinator", where, "--listen", "127.0.0.1:0", env={"LEAT_TOKEN": "not the token of it"},
                        timeout=60)
        assert done.returncode == 2
        assert re.fullmatch(r"leat: .*: the token is not this job's", done.stderr.strip().splitlines()[-1]), done.stderr


# ---- requests without permission

@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The directory of a job that has ended."""
    folder = tmp_path_factory.mktemp("trained")
    with started(folder, payments(folder, events=20_000, rate=0)) as job:
        assert job.wait() == 0, job.text()
    return job.directory


def raw(serve, request):
    """The status and the body of a request as it is, and whether the connection ends."""
    host, port = serve.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request.encode("latin-1"))
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read().decode(), response.will_close


def test_health_pages_tell_no_names(tmp_path):
    """Everyone may ask them, so they know neither the job nor where its coordinator is."""
    nobody, metrics = leat.free_port(), leat.free_port()
    tokens = tmp_path / "tokens"
    tokens.write_text("shop-0123456789abcdef\n")
    tokens.chmod(0o600)
    with Serve(tmp_path, "--coordinator", f"127.0.0.1:{nobody}", "--metrics", f"127.0.0.1:{metrics}",
               "--tokens", tokens) as serve:
        assert serve.ask("/v2/health/ready") == (503, {"error": "the model is not known yet"})
        page = leat.wait_for(lambda: (r := Observer(None).get(f"127.0.0.1:{metrics}", "/readyz")).status == 503 and r,
                             "/readyz")
        assert "127.0.0.1" not in page.body and str(nobody) not in page.body, page.body
        for method, path in [("POST", "/v2/health/ready"), ("GET", "/v2/health/live")]:
            status, _, ends = raw(serve, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
            assert (status, ends) == (413, True), "a body is read"
        # Clients are told the reason.
        status, reply = serve.ask("/v2/models/payments/ready", headers={"Authorization": "Bearer shop-0123456789abcdef"})
        assert (status, str(nobody) in reply["error"]) == (503, True), reply


def test_pages_of_other_hosts_and_targets_with_a_host(tmp_path, trained):
    with Serve(tmp_path, "--directory", trained) as serve:
        serve.await_ready()
        for host in ["localhost", serve.address, "127.0.0.1", socket.gethostname()]:
            assert raw(serve, f"GET /v2 HTTP/1.1\r\nHost: {host}\r\n\r\n")[0] == 200, host
            assert raw(serve, f"GET http://{host}/v2 HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 200, host
        for line in ["Host: attacker.example", "Host: localhost.attacker.example:8000"]:
            assert raw(serve, f"GET /v2/health/live HTTP/1.1\r\n{line}\r\n\r\n")[0] == 421, line
        assert raw(serve, "GET http://attacker.example/v2 HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 421
        assert raw(serve, "GET /v2 HTTP/1.1\r\nHost: localhost\r\nOrigin: http://attacker.example\r\n\r\n")[0] == 403
        good = json.dumps(event(random.Random(1)))
        for body in [good, "\xef\xbb\xbf" + good]:
            status, reply, _ = raw(serve, "POST http://localhost/v1/predict HTTP/1.1\r\nHost: localhost\r\n"
                                   f"Content-Length: {len(body)}\r\n\r\n{body}")
            assert (status, "score" in reply) == (200, True), reply
        for method in ["GET", "POST", "PUT", "OPTIONS"]:
            assert raw(serve, f"{method} /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 404, method


# The kind of server, seconds, and the least number of requests or handshakes.
@pytest.mark.parametrize("kind, seconds, least", [("tokens", 600, 200_000), ("open", 600, 200_000), ("tls", 120, 200)] if LONG
                         else [("tokens", 10, 1000), ("open", 5, 500), ("tls", 5, 20)])
def test_a_hostile_client_beside_good_ones(tmp_path, trained, kind, seconds, least):
    """It has thousands of connections and no token, and sends broken requests or handshakes: the others do not notice."""
    metrics = f"127.0.0.1:{leat.free_port()}"
    more, security = ["--metrics", metrics], None
    if kind != "open":
        (tmp_path / "tokens").write_text("shop-0123456789abcdef\n")
        (tmp_path / "tokens").chmod(0o600)
        more += ["--tokens", tmp_path / "tokens"]
    if kind == "tls":
        security = certificate(tmp_path, "serve", "serve", "127.0.0.1")
        more += ["--tls-cert", security / "cert.pem", "--tls-key", security / "key.pem"]
    with Serve(tmp_path, "--directory", trained, *more, security=security, client_token="shop-0123456789abcdef") as serve:
        serve.await_ready()

        def resident():
            with open(f"/proc/{serve.process.pid}/status") as status:
                return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) / 1024

        # A handshake is long, and new connections of one host replace its oldest ones whose peers are not known yet.
        source = "127.0.0.2" if security else None
        with Clients(serve, 1) as steady, Clients(serve, 1, fresh=True, source=source) as fresh:
            hostile = subprocess.Popen([sys.executable, leat.ROOT / "tests/system/hostile_client.py", serve.address,
                                        str(seconds), str(least), *(["tls"] if security else [])], stdout=subprocess.PIPE,
                                       text=True)
            try:
                begin, memory = time.monotonic(), []
                while hostile.poll() is None and serve.process.poll() is None:
                    assert time.monotonic() < begin + 4 * seconds + 120, "the hostile client does not end"
                    memory.append(resident())
                    time.sleep(0.1)
                assert serve.process.poll() is None, serve.text()[-2000:]
                sent = int(hostile.communicate()[0])
            finally:
                hostile.kill()
                hostile.wait()
            before = steady.replies, fresh.replies
            leat.wait_for(lambda: steady.replies > before[0] and fresh.replies > before[1], "further replies")
        for clients, during in zip([steady, fresh], before):
            assert not clients.failures, (len(clients.failures), clients.replies, clients.failures[:3])
            # Handshakes share one thread with the hostile ones.
            assert during > (0 if security else 10), "no replies beside the hostile client"
        assert sent >= least
        page = Observer(view_token(TOKEN)).get(metrics, "/metrics").body
        ended = int(re.search(r"^leat_serve_connections_refused_total (\d+)$", page, re.MULTILINE)[1])
        assert ended > (100 if security else 500), "the connections were never all taken"
        early, late = (statistics.median(memory[len(memory) * i // 5:len(memory) * (i + 1) // 5]) for i in (1, 4))
        print(f"{sent} random requests, {ended} connections ended, {steady.replies} and {fresh.replies} good requests, "
              f"{early:.1f}, {late:.1f}, at most {max(memory):.0f} MB")
        # A short run with TLS ends while connections are still being made, each of which has about 0.1 MB.
        most = early + 8 if LONG else 256 if security else early + 32
        assert late < most, (early, late, max(memory))
        assert "exception" not in serve.text(), serve.text()[-2000:]
        assert serve.stop() == 0, serve.text()[-2000:]


# ---- Triton's client

CLIENT = """
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

address, name, events = sys.argv[1], sys.argv[2], sys.argv[3:]
with triton.InferenceServerClient(address) as client:
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(name)
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    metadata = client.get_model_metadata(name)
    width = metadata["inputs"][1]["shape"][1]
    scores = []
    for binary in [True, False]:
        given = triton.InferInput("events", [len(events)], "BYTES")
        given.set_data_from_numpy(np.array([e.encode() for e in events], dtype=np.object_), binary_data=binary)
        wanted = triton.InferRequestedOutput("scores", binary_data=binary)
        result = client.infer(name, [given], outputs=[wanted], request_id="7")
        assert result.get_response()["id"] == "7"
        scores.append(result.as_numpy("scores"))
        assert scores[-1].shape == (len(events), 1) and scores[-1].dtype == np.float32
    assert (scores[0] == scores[1]).all()
    rows = np.zeros((5, width), dtype=np.float32)
    given = triton.InferInput("features", rows.shape, "FP32")
    given.set_data_from_numpy(rows)
    assert client.infer(name, [given]).as_numpy("scores").shape == (5, 1)
    for shape, kind in [((5, width + 1), "FP32"), ((5, width), "FP64")]:
        bad = triton.InferInput("features", shape, kind)
        bad.set_data_from_numpy(np.zeros(shape, dtype={"FP32": np.float32, "FP64": np.float64}[kind]))
        try:
            client.infer(name, [bad])
            sys.exit("nothing was wrong with " + str(shape))
        except InferenceServerException as e:
            assert "it must be" in e.message(), e.message()
    print(" ".join(map(repr, scores[0][:, 0].tolist())))
"""


@pytest.mark.long
def test_tritonclient(tmp_path):
    python = leat.ROOT / "build/baselines/serve"
    subprocess.run(["/usr/bin/python3", leat.ROOT / "bench/frame/environment.py", leat.ROOT / "deploy/pip-serve.txt",
                    python], check=True, timeout=600)
    with started(tmp_path, payments(tmp_path, events=50_000, rate=0)) as job:
        assert job.wait() == 0, job.text()
    with Serve(tmp_path, "--directory", job.directory) as serve:
        serve.await_ready()
        events = [event(random.Random(i)) for i in range(6)]
        done = subprocess.run([python / "bin/python3", "-c", CLIENT, serve.address, "payments", *map(json.dumps, events)],
                              text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        scores = [float(x) for x in done.stdout.split()]
        assert scores == [float32(p["score"]) for p in serve.predict(events)["predictions"]]
