"""Jobs as objects, with the words of a job file."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

from leat import _native, _yaml
from leat._directory import Directory
from leat._models import as_model
from leat._program import program
from leat._settings import config_of
from leat._schema import Schema
from leat._streams import Events, as_stream


class Job:
    """A network and a stream that trains it.

    stream     leat.Kafka, leat.Log, leat.Files, or any iterable of dicts
    schema     leat.Schema
    model      leat.Sequential, a torch.nn.Module, a Keras model, or the path of an ONNX file
    loss       the loss of docs/jobs.md; default: softmax_cross_entropy for classes, squared_error for numbers
    inputs     the shape of a row for the model; default: all features, one after the other
    optimizer  leat.Adam(1e-3) and so on
    strategy   leat.SSP(staleness=3) and so on, or its name
    evaluate   leat.Files that the trained model is measured on
    data       the directory that relative paths of the job refer to

    Further sections of a job file are given by their names: cluster={"ps": 2}, train={"split_batches": 16},
    metrics={"window": 10000}. A mistake raises a ValueError with one line, before anything starts.
    """

    def __init__(self, *, stream, schema, model, loss=None, inputs=None, optimizer=None, strategy="async",
                 batch_size=128, name="job", seed=1, evaluate=None, data=None, **sections):
        self.stream = as_stream(stream)
        if not isinstance(schema, Schema):
            raise TypeError(f"a schema is leat.Schema, not {type(schema).__name__}")
        self.schema = schema
        self.model = as_model(model)
        self.name = name
        self.data = "" if data is None else str(data)
        known = schema._read()
        if loss is None:
            loss = self.model.default_loss(known["classes"])
        if inputs is None:
            inputs = getattr(self.model, "inputs", None)
        self._files = Directory()  # files of the model, until a run has copies of its own
        model_section = self.model.section(loss, inputs or self._row(known), self._files.name)
        if evaluate is not None:
            evaluate = {key: value for key, value in as_stream(evaluate).section().items() if key == "files"}
        train = {"batch_size": batch_size, **sections.pop("train", {})}
        self._sections = {
            "name": name,
            "seed": seed,
            "stream": self.stream.section(),
            "schema": schema.section(),
            "model": model_section,
            "optimizer": config_of(optimizer if optimizer is not None else {"type": "adam", "learning_rate": 0.001}),
            "strategy": config_of(strategy),
            "train": train,
            **({"evaluate": evaluate} if evaluate else {}),
            **sections,
        }
        self.description = json.loads(self._describe())

    def _row(self, known):
        # Layers of Leat take all features of the schema by themselves.
        from leat._models import _Exported

        return (known["features"],) if isinstance(self.model, _Exported) else None

    def _describe(self, workers=0, ps=0):
        return _native.describe_job(self.to_yaml(), self.data, workers, ps)

    def to_yaml(self):
        """The job file."""
        return _yaml.dump(self._sections)

    def start(self, workers=None, ps=None, directory=None, *, dashboard=None, tensorboard=None, options=()):
        """Starts the job on this machine, one process for each role, and returns a leat.Run.

        `workers`: a number, or a range "2:8" for the autoscaler. `directory`: of checkpoints, journal and logs; default:
        a new one in leat-jobs/. `dashboard`: True or "HOST:PORT". `options`: further options of `leat train`.
        """
        from leat import _run

        return _run.start(self, workers, ps, directory, dashboard, tensorboard, options)

    def simulate(self, workers=None, ps=None, **options):
        """Runs the job on a simulated cluster, in virtual time, and returns its summary.

        Options are those of `leat simulate`, with underscores: link="1gbit", steps=1000, compute="5ms".
        """
        arguments = ["simulate", "--json"]
        for name, value in {"workers": workers, "ps": ps, **options}.items():
            option = "--" + name.replace("_", "-")
            if value is True:
                arguments.append(option)
            elif value is not None and value is not False:
                arguments += [option, str(value)]
        if self.data:
            arguments += ["--data", self.data]
        with tempfile.TemporaryDirectory(prefix="leat-") as directory:
            file = Path(directory) / "job.yaml"
            file.write_text(self.to_yaml(), encoding="utf-8")
            done = subprocess.run([program(), *arguments, str(file)], capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise _error(done.returncode, done.stderr)
        return json.loads(done.stdout)

    def __repr__(self):
        d = self.description
        return (f"<leat.Job '{d['name']}': {d['model']}, {d['optimizer']}, {d['strategy']}, "
                f"batches of {d['batch_size']}, from {d['stream']}>")


def _error(status, text):
    """The exception for a command that has failed: its last line that begins with `leat: `."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("leat: ")]
    line = re.sub(r"^\S*/job\.yaml:", "job:", lines[-1]) if lines else f"leat ended with status {status}"
    return ValueError(line) if status == 2 else RuntimeError(line)


def make_directory(name):
    """A new directory in leat-jobs/, with the lowest free number, as `leat train` makes it."""
    for number in range(1, 1_000_000):
        path = Path("leat-jobs") / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
    raise RuntimeError(f"leat-jobs has too many directories of the name {name}")


