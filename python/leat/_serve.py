"""Live predictions, by `leat serve`."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping

from leat._job import _error
from leat._run import _close, _read_address, spawn
from leat._streams import as_events


class Server:
    """Predictions over HTTP with the newest parameters of a job: `server.predict(events)`, `server.address`.

    The process ends when this object or the interpreter does.
    """

    def __init__(self, process, life, address, token):
        self._process = process
        self._token = token
        self._lock = threading.Lock()
        self._connection = None
        self._made_in = os.getpid()
        self.address = address  # HOST:PORT
        # Not a method: this object must not be kept alive.
        self._finalizer = weakref.finalize(self, _end, process, life)

    @property
    def url(self):
        """Where events go to: http://HOST:PORT/v1/predict."""
        return f"http://{self.address}/v1/predict"

    def __repr__(self):
        return f"<leat.Server {self.url if self._process.poll() is None else 'ended'}>"

    def predict(self, events, errors="raise", timeout=60):
        """The scores of an event, a dict, as a float or an array; of several, as an array with a row for each.

        Several are an iterable of dicts, or a table as in streams. Values that are missing in a table, and NaN, are null.
        errors: what an event that does not fit the schema leads to, a ValueError ("raise") or NaN ("nan").
        """
        import numpy

        if errors not in ("raise", "nan"):
            raise ValueError(f"errors is '{errors}', it may be 'raise' or 'nan'")
        single = isinstance(events, Mapping)
        asked = as_events([events] if single else events)
        if not asked:
            return numpy.empty(0, dtype=numpy.float32)
        found = self._ask(f"[{','.join(asked)}]", timeout)["predictions"]
        for i, one in enumerate(found):
            if "error" in one and errors == "raise":
                raise ValueError(one["error"] if single else f"event {i}: {one['error']}")
        width = max((len(one["scores"]) for one in found if "scores" in one), default=1)
        missing = float("nan") if width == 1 else [float("nan")] * width
        rows = [one.get("scores", one.get("score", missing)) for one in found]
        scores = numpy.asarray([missing if row is None else row for row in rows], dtype=numpy.float32)
        return (float(scores[0]) if width == 1 else scores[0]) if single else scores

    def ready(self):
        """Whether there are parameters to predict with."""
        return self._request("GET", "/v2/health/ready", None, 10)[0] == 200

    def stop(self):
        """Ends the process, after it has answered its requests."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _ask(self, body, timeout):
        status, text = self._request("POST", "/v1/predict", body, timeout)
        reply = json.loads(text)
        if status == 200:
            return reply
        raise ValueError(reply["error"]) if 400 <= status < 500 else ConnectionError(reply["error"])

    def _request(self, method, path, body, timeout):
        if os.getpid() != self._made_in:
            raise RuntimeError("this leat.Server was made before a fork; use it in the process that made it")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        with self._lock:
            for attempt in (1, 2):
                if self._connection is None:
                    self._connection = http.client.HTTPConnection(self.address, timeout=timeout)
                try:
                    self._connection.request(method, path, body=body, headers=headers)
                    reply = self._connection.getresponse()
                    return reply.status, reply.read()
                except (http.client.HTTPException, OSError):
                    # The server closes connections that have been idle.
                    self._connection.close()
                    self._connection = None
                    if attempt == 2:
                        raise


def _end(process, life):
    life.close()  # which the process notices
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def serve(directory, **options):
    """A leat.Server with the newest checkpoint of a job's directory. Options as for Run.serve."""
    return start(["--directory", str(directory)], "", **options)


def start(what, job_token, *, listen="127.0.0.1:0", refresh=0.1, max_batch=64, max_wait=0.0, threads=1, tokens=None,
          token="", metrics=None, wait=30, arguments=(), over=None):
    """`wait`: seconds to wait for the first parameters. `over`: an event; None is returned if it is set before them."""
    words = ["serve", *what, "--listen", str(listen), "--refresh", repr(1000 * float(refresh)), "--max-batch",
             str(max_batch), "--max-wait", repr(1000 * float(max_wait)), "--threads", str(threads)]
    if tokens is not None:
        words += ["--tokens", str(tokens)]
    if metrics is not None:
        words += ["--metrics", str(metrics)]
    words += [str(word) for word in arguments]
    process, life, ready_read, output = spawn(words, {"LEAT_TOKEN": job_token} if job_token else {})
    try:
        server = Server(process, life, _read_address(ready_read, process, output), token)
    except BaseException:
        life.close()
        process.kill()
        process.wait()
        raise
    finally:
        _close(ready_read)
    for _ in range(int(20 * wait)):
        if process.poll() is not None:
            raise _error(process.returncode, output.read()[1])
        if server.ready():
            break
        if over is not None and over.is_set():
            server.stop()
            return None
        time.sleep(0.05)
    return server
