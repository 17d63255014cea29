"""The layers of docs/layers.md: `Dense(64, activation="relu")`, `Conv2d(32, 5, padding="same")`, `Flatten()`.

Each takes its settings by name, and the first of them without one. They are checked when the job is made.
"""

from leat._models import Layer, known_kinds

# The settings that may go without a name.
_POSITIONAL = {
    "dense": ("units",),
    "bias": ("units",),
    "reshape": ("shape",),
    "conv2d": ("filters", "kernel"),
    "conv2d_transpose": ("filters", "kernel"),
    "max_pool": ("size",),
    "avg_pool": ("size",),
    "embedding": ("size", "units"),
    "lstm": ("units",),
    "gru": ("units",),
    "rnn": ("units",),
    "attention": ("heads",),
    "dropout": ("rate",),
    "residual": ("layers",),
}
_SPECIAL = {"gelu": "GELU", "silu": "SiLU", "lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "relu": "ReLU"}


def _class_name(kind):
    return _SPECIAL.get(kind) or "".join(word.capitalize() for word in kind.split("_"))


def _make(kind):
    positional = _POSITIONAL.get(kind, ())

    def make(*values, **settings):
        if len(values) > len(positional):
            raise TypeError(f"{_class_name(kind)} takes {len(positional)} values without a name, not {len(values)}")
        named = dict(zip(positional, values))
        twice = named.keys() & settings.keys()
        if twice:
            raise TypeError(f"{_class_name(kind)} got {twice.pop()} twice")
        return Layer(kind, {**named, **settings})

    make.__name__ = make.__qualname__ = _class_name(kind)
    make.__doc__ = f"The layer `{kind}` of docs/layers.md."
    return make


_made = {_class_name(kind): _make(kind) for kind in sorted(known_kinds()) if kind != "onnx"}
globals().update(_made)
__all__ = sorted(_made)
