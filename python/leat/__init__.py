"""Leat trains neural networks on live event streams.

    import leat
    job = leat.Job(
        stream=leat.Files("payments.csv"),
        schema=leat.Schema.infer("payments.csv", label="fraud"),
        model=leat.Sequential([leat.layers.Dense(64, activation="relu"), leat.layers.Dense(2)]),
        optimizer=leat.Adam(1e-3))
    run = job.start(workers=2, ps=1)
    run.wait()

Everything is imported when it is first used, so that `import leat` takes some milliseconds.
"""

import importlib as _importlib

__version__ = "0.1.0"

# Where each name is.
_HOMES = {
    "Job": "_job",
    "Run": "_run",
    "attach": "_run",
    "Server": "_serve",
    "serve": "_serve",
    "Kafka": "_streams",
    "Log": "_streams",
    "Files": "_streams",
    "Schema": "_schema",
    "Sequential": "_models",
    "Onnx": "_models",
    "Torch": "_models",
    "Keras": "_models",
    "SGD": "_optimizers",
    "Momentum": "_optimizers",
    "Nesterov": "_optimizers",
    "Adagrad": "_optimizers",
    "RMSprop": "_optimizers",
    "Adam": "_optimizers",
    "AdamW": "_optimizers",
    "LAMB": "_optimizers",
    "Async": "_strategies",
    "Sync": "_strategies",
    "SSP": "_strategies",
    "Downpour": "_strategies",
    "Averaging": "_strategies",
    "AllReduce": "_strategies",
    "Classifier": "_estimators",
    "Regressor": "_estimators",
    "NotFiniteError": "_native",
    "program": "_program",
}
_MODULES = ("layers", "river")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name):
    if name in _HOMES:
        value = getattr(_importlib.import_module(f"leat.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = _importlib.import_module(f"leat.{name}")
    else:
        raise AttributeError(f"module 'leat' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
