#!/usr/bin/env python3
"""Prints a table of the documentation whose figures come from `leat simulate`.

    tools/simulated_tables.py TABLE

`--compute` and `--seed` are fixed, so the same build prints the same figures on every machine. Tables of `--real` also
depend on the processor's rounding, in the last digits of accuracies; they need LEAT_DATA, the folder with mnist/.
LEAT_PROGRAM replaces the program ./leat.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
SEED = 1


@dataclasses.dataclass
class Table:
    page: str  # its page, relative to the root
    options: str  # options of every row; the page quotes them
    head: list[str]
    rows: list[Callable[[], str]]  # each prints one row, of one or more lines
    tail: list[str] = dataclasses.field(default_factory=list)
    real: bool = False  # minutes, not seconds


def cells(*values):
    return "| " + " | ".join(map(str, values)) + " |"


def markdown(*titles):
    return [cells(*titles), "|" + "---|" * len(titles)]


def with_settings(job, **settings):
    """A job with some settings replaced. Each setting must be on exactly one line of its own."""
    for key, value in settings.items():
        job, count = re.subn(rf"(?m)^( *){key}: .*$", rf"\g<1>{key}: {value}", job)
        if count != 1:
            raise ValueError(f"the job has {count} lines with '{key}:'")
    return job


def simulate(job, *options, data_script=""):
    """Runs a simulation and returns its standard output. `data_script` is Python code that writes the job's files to the
    current folder. Raises RuntimeError with the program's error."""
    program = pathlib.Path(os.environ.get("LEAT_PROGRAM", ROOT / "leat")).absolute()
    with tempfile.TemporaryDirectory() as folder:
        if data_script:
            subprocess.run([sys.executable, "-c", data_script], cwd=folder, check=True)
        pathlib.Path(folder, "job.yaml").write_text(job, encoding="utf-8")
        words = []
        for option in options:  # paths may have spaces in them
            words += option.split() if isinstance(option, str) else [option]
        done = subprocess.run([program, "simulate", "job.yaml", *words, "--seed", str(SEED)], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr or f"{program} ended with status {done.returncode}")
    return done.stdout


def summary(job, *options):
    return json.loads(simulate(job, "--json", *options).splitlines()[-1])


def mnist(**settings):
    return with_settings((ROOT / "examples/mnist.yaml").read_text(encoding="utf-8"), **settings)


def mnist_data():
    if not os.environ.get("LEAT_DATA"):
        raise RuntimeError("LEAT_DATA is not set: it names the folder with the data set mnist")
    return pathlib.Path(os.environ["LEAT_DATA"], "mnist").absolute()


SGD = "{type: sgd, learning_rate: 0.1}"


# The summary in a terminal, without progress lines and without the simulation's speed.
def transcript():
    options = "--workers 16 --ps 4 --link 1gbit --compute lognormal:20ms,0.2 --slow 1:10 --steps 1000"

    def row():
        out = simulate(mnist(), options)
        lines = out[out.index("job 'mnist'"):].splitlines()
        return "\n".join("  …" if line.startswith("  simulated in") else line for line in lines)

    return Table("docs/simulate.md", options, ["```", "$ leat simulate examples/mnist.yaml " + options], [row], ["```"])


def one_slow_worker():
    options = "--workers 16 --ps 4 --link 10gbit --compute lognormal:20ms,0.2 --steps 1000"
    strategies = ["async", "{type: downpour, n_push: 4, n_fetch: 4}", "{type: ssp, staleness: 3}",
                  "{type: averaging, period: 4}", "sync", "{type: sync, backup: 1}", "allreduce"]

    def row(strategy):
        job = mnist(optimizer=SGD, strategy=strategy)
        equal, slow = summary(job, options), summary(job, options, "--slow 1:10")
        staleness = f"{equal['staleness_mean']:.0f}"
        if "ssp" in strategy:
            staleness = f"at most {len(equal['staleness']) - 1}"
        return cells(f"`{strategy}`", f"{equal['events_per_s']:,.0f}", f"{slow['events_per_s']:,.0f}", staleness)

    return Table("docs/simulate.md", options,
                 markdown("strategy", "equal workers", "one ten times slower", "staleness"),
                 [lambda s=strategy: row(s) for strategy in strategies])


def more_workers():
    options = "--ps 4 --link 1gbit --compute lognormal:20ms,0.2 --steps 200"

    def row(workers):
        speeds = [summary(mnist(optimizer=SGD, strategy=strategy), options, f"--workers {workers}")["events_per_s"]
                  for strategy in ["sync", "allreduce"]]
        return cells(workers, *(f"{speed:,.0f}" for speed in speeds))

    return Table("docs/simulate.md", options, markdown("workers", "`sync`, 4 servers", "`allreduce`"),
                 [lambda w=workers: row(w) for workers in [8, 16, 64]])


def staleness_and_accuracy():
    options = "--ps 4 --link 10gbit --compute lognormal:20ms,0.2 --real"

    def trained(strategy, workers):
        try:
            told = summary(mnist(epochs=1, strategy=strategy), options, "--data", mnist_data(), f"--workers {workers}")
        except RuntimeError as error:
            if "not finite" in str(error):
                return "ends: gradients are not finite", ""
            raise
        return f"{told['test_accuracy']:.3f}", f"{told['staleness_mean']:.1f}"

    def row(workers):
        return re.sub(" +", " ", cells(workers, *trained("async", workers),
                                       trained("{type: async, staleness_aware: true}", workers)[0]))

    return Table("docs/simulate.md", options,
                 markdown("workers", "`async`: test accuracy", "staleness", "`{type: async, staleness_aware: true}`"),
                 [lambda w=workers: row(w) for workers in [2, 16]], real=True)


def batch_size():
    options = "--workers 4 --ps 2 --link 10gbit --compute C --real"

    def row(batch, compute, passes):
        runs = [summary(mnist(optimizer=SGD, strategy="sync", epochs=epochs,
                              train=f"{{batch_size: {batch}, split_batches: 4}}"),
                        options.replace("C", compute.replace(" ", "")), "--data", mnist_data()) for epochs in passes]
        return cells(batch, compute, *(" / ".join(column) for column in [
            map(str, passes), (str(run["step"]) for run in runs), (f"{run['test_accuracy']:.3f}" for run in runs),
            (f"{run['wall_s']:.1f} s" for run in runs)]))

    rows = [(50, "2.2 ms", [1, 2]), (100, "4 ms", [2, 3]), (500, "19 ms", [12]), (1000, "37 ms", [16, 24])]
    return Table("docs/strategies.md", options,
                 markdown("`batch_size`", "*C*", "passes over the data", "updates", "test accuracy", "time"),
                 [lambda r=values: row(*r) for values in rows], real=True)


def churn(strategy):
    """churn.yaml with a strategy, and make_customers.py, both taken from docs/tutorials/your-own-data.md."""
    page = (ROOT / "docs/tutorials/your-own-data.md").read_text(encoding="utf-8")
    script = re.search(r"```python\n(.*?)```\n", page, re.DOTALL)
    schema = re.search(r"```\n(# Proposed by .*?)```\n", page, re.DOTALL)
    model = re.search(r" +cat >> churn.yaml <<'END'\n(.*?) +END\n", page, re.DOTALL)
    return with_settings(schema[1] + textwrap.dedent(model[1]), strategy=strategy), script[1]


def tutorial(options):
    strategies = ["async", "{type: ssp, staleness: 3}", "sync", "{type: sync, backup: 1}"]

    def row(strategy):
        job, script = churn(strategy)
        speed = re.search(r"(?m)^  speed .*$", simulate(job, options, data_script=script))
        return strategy + "\n" + speed[0]

    return Table("docs/tutorials/choosing-a-strategy.md", options, ["```"],
                 [lambda s=strategy: row(s) for strategy in strategies], ["```"])


TUTORIAL = "--workers 16 --ps 2 --compute lognormal:5ms,0.2 --steps 1000"
TABLES = {
    "transcript": transcript(),
    "one_slow_worker": one_slow_worker(),
    "more_workers": more_workers(),
    "staleness_and_accuracy": staleness_and_accuracy(),
    "batch_size": batch_size(),
    "tutorial": tutorial(TUTORIAL),
    "tutorial_slow": tutorial(TUTORIAL + " --slow 1:10"),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(f"{__doc__}\nTables: {', '.join(TABLES)}")
    table = TABLES[sys.argv[1]]
    try:
        rows = [row() for row in table.rows]
    except (RuntimeError, OSError) as error:
        sys.exit(f"simulated_tables: {sys.argv[1]}: {error}")
    print("\n".join([*table.head, *rows, *table.tail]))


if __name__ == "__main__":
    main()
