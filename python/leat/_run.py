"""Running jobs: started here, or anywhere else."""

import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from pathlib import Path

from leat import _native
from leat._directory import Directory
from leat._job import _error, make_directory
from leat._program import program
from leat._samples import Samples, value_of
from leat._streams import Events, encode

_POLL_S = 0.25
_START_S = 180
_followed = weakref.WeakSet()
os.register_at_fork(after_in_child=_followed.clear)


class Run:
    """A running job: `run.metrics()`, `run.scale(workers=4)`, `run.checkpoint()`, `run.stop()`, `run.wait()`.

    In a notebook it shows a table that follows the job; in a terminal, the line of progress.
    """

    def __init__(self, client, directory=None, model=None, address=None):
        self._client = client
        self._model = model
        self._address = address  # arguments of attach
        self.directory = directory  # the job's; None: it is on another host
        self._samples = Samples()
        self._status = None
        self._began = self._answered = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._failure = None
        self._process = None
        self._summary = None
        self._stopped = False  # by us
        self._silent = 0       # polls without an answer, one after the other
        self._unfollowed = threading.Event()
        self._follower = threading.Thread(target=_follow, args=(weakref.ref(self),), daemon=True, name="leat-run")
        self._follower.start()
        _followed.add(self)

    # ---- status and metrics

    def status(self):
        """The newest status, as a dict: that of `leat status --json`."""
        with self._lock:
            status = self._status
        if status is not None and (self._over.is_set() or self._follower.is_alive()):
            return dict(status)
        return json.loads(self._client.status(5))

    def metrics(self):
        """Arrays of what was measured so far, a value each for a moment of the job: ready for a DataFrame.

        time_s is in seconds since the run began; events and steps are totals; loss, accuracy and auc are those of the
        last events (metrics: window); lag is in events. Values that a model does not have are NaN. Moments are a quarter
        of a second apart in the last hour and a minute before it, more in runs of more than a week; then totals are the
        last ones, and other values are means.
        """
        with self._lock:
            columns = self._samples.columns()
        del columns["events_per_s_now"]
        return columns

    @property
    def running(self):
        return not self._over.is_set()

    @property
    def summary(self):
        """The result of a run that has ended, as a dict; None before."""
        return self._summary

    def __repr__(self):
        with self._lock:
            status = self._status
        if status is None:
            return f"<leat.Run: {'starting' if self.running else 'ended'}>"
        return f"<leat.Run {line(status)}>"

    def _ipython_display_(self):
        from leat import _notebook

        _notebook.show(self)

    def _repr_html_(self):
        from leat import _notebook

        return _notebook.html(self)

    # ---- commands

    def checkpoint(self):
        """Writes a checkpoint, and returns when it is complete."""
        self._call(self._client.checkpoint)

    def scale(self, workers=None, ps=None):
        """Sets how many workers ("2:8": a range for the autoscaler) and servers the job wants."""
        if workers is None and ps is None:
            raise ValueError("scale needs workers, ps, or both")
        self._call(self._client.scale, "" if workers is None else str(workers), -1 if ps is None else int(ps))

    def drain(self, member):
        """Lets a member, such as "worker 3", hand over its work, and leave."""
        self._call(self._client.drain, member)

    def pause(self):
        """Lets the job finish its current work, and wait."""
        self._call(self._client.pause)

    def go_on(self):
        """Lets a paused job go on."""
        self._call(self._client.go_on)

    def stop(self, wait=True):
        """Ends the job after a last checkpoint."""
        if self._over.is_set():
            return
        self._call(self._client.stop)
        self._stopped = True
        if wait:
            self.wait()

    def wait(self, timeout=None):
        """Waits until the job has ended, and returns its summary. Ctrl-C stops the job after a checkpoint.

        `timeout`: in seconds; then TimeoutError, and the job goes on.
        """
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._over.wait(0.1):
                if until is not None and time.monotonic() > until:
                    raise TimeoutError(f"the job has not ended within {timeout} s")
        except KeyboardInterrupt:
            self._interrupt()
            raise
        if self._failure is not None:
            raise self._failure
        return self._summary

    def state_dict(self):
        """The trained parameters by their names in the model that was given: the values of PyTorch or Keras, else arrays.

        While the job runs, a checkpoint is made first; of a job that runs elsewhere, its values come from its servers.
        """
        if self.directory is None:
            return _by_name(self._call(_native.values, *self._address, 120.0), self._model)
        if self.running:
            self.checkpoint()
        return load_checkpoint(self.directory, self._model)

    def serve(self, **options):
        """Live predictions with what the job has learned, ten times a second anew: a leat.Server.

        After the end of the job, they come from its directory; if that is on another host, ValueError.
        Options: listen ("127.0.0.1:0", any free port), refresh (seconds), max_batch, max_wait (seconds), threads,
        tokens (a file with the tokens of clients) and token (that of this one), metrics (HOST:PORT), wait (seconds to
        wait for the first parameters), arguments (further ones of `leat serve`).
        """
        from leat import _serve

        address, token, security, trusted = self._address
        what = ["--coordinator", address]
        if security:
            what += ["--security", security]
        if trusted:
            what += ["--trusted-network"]
        server = None
        try:
            if self.running:
                server = _serve.start(what, token, over=self._over, **options)
        except Exception:
            # The end of the job is noticed a moment later.
            if not self._over.wait(2 * _POLL_S):
                raise
        if server is not None:
            return server
        if self.directory is None:
            raise ValueError("the job has ended; leat.serve(directory) on its host predicts with what it has learned")
        load_checkpoint(self.directory)  # it says so if there is none
        return _serve.serve(self.directory, **options)

    def _call(self, call, *arguments):
        """A call that may take long, which Ctrl-C ends."""
        if self._over.is_set():
            raise ValueError("the job has ended")
        outcome = []

        def run():
            try:
                outcome.append((True, call(*arguments)))
            except BaseException as e:  # noqa: BLE001, it is raised below
                outcome.append((False, e))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while not outcome:
            thread.join(0.1)
        good, value = outcome[0]
        if not good:
            raise value
        return value

    def _interrupt(self):
        """As the first Ctrl-C of leat train: a checkpoint, and then the end."""
        with contextlib.suppress(Exception):
            self._call(self._client.stop)
        self._over.wait(60)

    # ---- the thread that follows it

    def _poll(self):
        """Polls the status once; false: the job has ended."""
        try:
            status = json.loads(self._client.status(2))
        except (ConnectionError, TimeoutError, RuntimeError, ValueError):
            status = None
        if status is not None:
            self._take(status, time.monotonic())
        return not self._ended(status)

    def _take(self, status, now):
        with self._lock:
            self._status = status
            self._answered = now
            self._samples.add(now - self._began, status)

    def _ended(self, status):
        self._silent = self._silent + 1 if status is None else 0
        if status is not None and status.get("phase") == "ended":
            self._finish(status, None)
        elif self._stopped and self._silent >= 3:
            # It answered until it had stopped as told, and is gone.
            with self._lock:
                last = self._status
            self._finish(last, None)
        elif status is None and time.monotonic() - self._answered > 60:
            self._finish(None, ConnectionError("the coordinator has not answered for a minute"))
        return self._over.is_set()

    def _finish(self, summary, failure):
        self._summary = summary
        self._failure = self._failure or failure
        self._over.set()


class LocalRun(Run):
    """A run whose processes this one has started. They end when this process does."""

    def __init__(self, process, life, client, directory, model, output, address):
        self._output = output
        self._local = process
        # Not a method of this object, which must not be kept alive.
        self._end_life = weakref.finalize(self, life.close)
        super().__init__(client, directory, model, address)
        self._process = process

    @property
    def pid(self):
        """The process of `leat train`, which has started all others."""
        return self._local.pid

    def _interrupt(self):
        with contextlib.suppress(ProcessLookupError):
            self._local.send_signal(signal.SIGINT)
        self._over.wait(120)

    def _ended(self, status):
        code = self._local.poll()
        if code is None:
            return False
        out, err = self._output.read()
        summary = None
        with contextlib.suppress(ValueError, IndexError):
            summary = json.loads(out.strip().split("\n")[-1])
        if summary is not None:
            self._take(summary, time.monotonic())
        failed = code != 0 and not (summary and summary.get("stopped"))
        self._finish(summary, _error(code, err) if failed else None)
        self._end_life()
        return True


class _Output:
    """The program's output, in files, so that it never waits for this process."""

    def __init__(self):
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()

    def read(self):
        texts = []
        for file in (self.out, self.err):
            size = os.fstat(file.fileno()).st_size
            texts.append(os.pread(file.fileno(), min(size, 1 << 20), max(0, size - (1 << 20)))
                         .decode("utf-8", "replace"))
        return texts


def _close(descriptor):
    with contextlib.suppress(OSError):
        os.close(descriptor)


class Life:
    """An end of a pipe: a program that this process has started ends when it is closed, or when this process ends.

    It is closed once, because another file may have its number afterwards. A forked child closes its copy.
    """

    _all = weakref.WeakSet()

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._all.add(self)

    def close(self):
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _close(descriptor)

    @classmethod
    def close_all(cls):
        for life in list(cls._all):
            life.close()


os.register_at_fork(after_in_child=Life.close_all)


def _follow(reference):
    while True:
        run = reference()
        if run is None or not run._poll():
            return
        unfollowed = run._unfollowed
        del run
        if unfollowed.wait(_POLL_S):
            return


@atexit.register
def _unfollow():
    """Ends the calls of all runs when Python ends, since threads inside of libraries must not meet their destructors."""
    runs = list(_followed)
    for run in runs:
        run._unfollowed.set()
        run._client.abort()
    for run in runs:
        run._follower.join(5)


def line(status):
    """The progress of a job in a line."""
    parts = [f"{status.get('job', 'job')}: {status.get('phase', '')}", f"{status.get('events', 0):,} events"]
    rate = status.get("events_per_s_now") or status.get("events_per_s")
    if rate:
        parts.append(f"{rate:,.0f} events/s")
    for name in ("loss", "accuracy", "auc"):
        if status.get(name) is not None:
            parts.append(f"{name} {status[name]:.4f}")
    if status.get("lag"):
        parts.append(f"lag {status['lag']:,}")
    parts.append(f"{value_of(status, 'workers')} workers, {value_of(status, 'ps')} ps")
    return ", ".join(parts)


def start(job, workers, ps, directory, dashboard, tensorboard, options):
    # Mistakes in the numbers are found before a directory is made.
    range_of = str(workers) if workers is not None else ""
    count = int(range_of.split(":")[0]) if re.match(r"\d+(:\d+)?$", range_of) else 0
    job._describe(count, 0 if ps is None else int(ps))
    made = directory is None
    path = make_directory(job.name) if made else Path(directory)
    if not made:
        path.mkdir(parents=True, exist_ok=True)
    source = Directory()
    run = None
    try:
        yaml = job.to_yaml()
        # The model's file goes with the job: it is needed again when the job is resumed.
        model = Path(job._files.name) / "model.onnx"
        if model.exists():
            shutil.copyfile(model, path / "model.onnx")
            yaml = yaml.replace(str(model.resolve()), str((path / "model.onnx").resolve()))
        file = Path(source.name) / "job.yaml"
        file.write_text(yaml, encoding="utf-8")
        events = job.stream if isinstance(job.stream, Events) else None
        writer = None
        if events is not None:
            events.begin()
            writer = _native.LogWriter(str(path / "log"), events.topic, events.partitions)
        run = _launch(job, file, path, workers, ps, dashboard, tensorboard, options)
        if events is not None:
            _publish(run, events, writer)
        return run
    except BaseException:
        if made and run is None:
            shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        source.cleanup()


def spawn(arguments, environment):
    """Starts the program, which writes its address to `ready`: (process, Life, ready, output)."""
    life_read, life_write = os.pipe()
    ready_read, ready_write = os.pipe()
    output = _Output()
    try:
        process = subprocess.Popen(
            [program(), *arguments, "--life-fd", str(life_read), "--ready-fd", str(ready_write)],
            stdin=subprocess.DEVNULL, stdout=output.out, stderr=output.err, pass_fds=(life_read, ready_write),
            start_new_session=True, env={**os.environ, **environment})
    except BaseException:
        for descriptor in (life_write, ready_read):
            _close(descriptor)
        raise
    finally:
        _close(life_read)
        _close(ready_write)
    return process, Life(life_write), ready_read, output


def _launch(job, file, directory, workers, ps, dashboard, tensorboard, options):
    token = _native.random_token()
    arguments = ["train", str(file), "--json", "--directory", str(directory.resolve())]
    if workers is not None:
        arguments += ["--workers", str(workers)]
    if ps is not None:
        arguments += ["--ps", str(ps)]
    if job.data:
        arguments += ["--data", job.data]
    if dashboard:
        arguments += ["--dashboard", "127.0.0.1:0" if dashboard is True else str(dashboard)]
    if tensorboard:
        arguments += ["--tensorboard", str(tensorboard)]
    arguments += [str(option) for option in options]
    process, life, ready_read, output = spawn(arguments, {"LEAT_TOKEN": token})
    try:
        address = _read_address(ready_read, process, output)
        security = options[list(options).index("--security") + 1] if "--security" in options else ""
        how = (address, token, security, "--trusted-network" in options)
        return LocalRun(process, life, _native.Client(*how), str(directory.resolve()), job.model, output, how)
    except BaseException:
        life.close()
        process.send_signal(signal.SIGINT)
        raise
    finally:
        _close(ready_read)


def _read_address(descriptor, process, output):
    """The coordinator's address, which the program writes when the job has started."""
    import select

    until = time.monotonic() + _START_S
    text = b""
    while not text.endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the job has not started within {_START_S} s")
        if not select.select([descriptor], [], [], min(left, 0.2))[0]:
            continue
        more = os.read(descriptor, 4096)
        if not more:
            process.wait(30)
            raise _error(process.returncode, output.read()[1])
        text += more
    return text.decode().strip()


def _publish(run, events, writer):
    """Writes the events into the job's log on a thread, and seals the log after the last one."""

    def work(reference):
        batch, partition = [], 0
        flushed = time.monotonic()

        def flush():
            nonlocal batch, partition, flushed
            if batch:
                while True:
                    try:
                        writer.append(partition, batch)
                        break
                    except ConnectionError:  # another process was busy
                        time.sleep(0.1)
                partition = (partition + 1) % events.partitions
            batch, flushed = [], time.monotonic()

        try:
            for event in events.events:
                batch.append(encode(event))
                if len(batch) >= 512 or time.monotonic() - flushed > 0.05:
                    flush()
                    alive = reference()
                    if alive is None or not alive.running:
                        return
                    del alive
            flush()
            writer.seal()
        except BaseException as e:  # noqa: BLE001, it is raised by wait
            alive = reference()
            if alive is not None:
                alive._failure = e if isinstance(e, TypeError) else ValueError(
                    f"the stream of events ended: {type(e).__name__}: {' '.join(str(e).split())}")
                alive._interrupt()

    threading.Thread(target=work, args=(weakref.ref(run),), daemon=True, name="leat-events").start()


def attach(address, token="", security="", trusted_network=False):
    """A leat.Run of a job that runs elsewhere, by the address of its coordinator.

    `token`: default: $LEAT_TOKEN, the file $LEAT_TOKEN_FILE or ~/.config/leat/token. `security`: the folder of ca.pem,
    cert.pem and key.pem.
    """
    how = (address, token or "", str(security or ""), bool(trusted_network))
    client = _native.Client(*how)
    json.loads(client.status(10))
    return Run(client, address=how)


def load_checkpoint(directory, model=None):
    """The variables of the newest checkpoint in a job's directory, by name, as arrays that share its memory."""
    entries, warning = _native.checkpoint(str(directory))
    if warning:
        import warnings

        warnings.warn(warning, RuntimeWarning, stacklevel=3)
    return _by_name(entries, model)


def _by_name(entries, model=None):
    import numpy

    variables = {name: numpy.asarray(values) for name, values, role in entries if role != "moments"}
    return variables if model is None else model.take(variables)
