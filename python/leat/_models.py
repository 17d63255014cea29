"""Models: layers of Leat, ONNX files, and networks of PyTorch and Keras.

A model becomes the `model:` section of a job file and, if it was imported, an ONNX file beside it.
"""

import contextlib
import ctypes
import io
import os
import sys
from pathlib import Path

from leat import _native
from leat._settings import config_of


class Layer:
    """A layer, with the settings of docs/layers.md. `leat.layers` has the kinds."""

    def __init__(self, kind, settings):
        self.kind = kind
        self.settings = settings

    def config(self):
        settings = {name: [layer.config() for layer in value] if name == "layers" else value
                    for name, value in self.settings.items()}
        return {self.kind: settings} if settings else self.kind

    def __repr__(self):
        return f"{self.kind}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"


class Model:
    """A network, without its loss and the shape of its rows."""

    def section(self, loss, inputs, directory):
        """The `model:` section. Files that it names are written into `directory`; None: nothing is written, and the
        section is for a model that is described only."""
        raise NotImplementedError

    def section_again(self, loss, inputs, directory):
        """The section that `section` has given before, whatever the network has become since."""
        return self.section(loss, inputs, directory)

    def default_loss(self, classes):
        """For labels of so many classes; 0: numbers."""
        return "softmax_cross_entropy" if classes else "squared_error"

    def take(self, variables):
        """Turns variables by their names in a job into those by which the model knows them."""
        return variables


class Sequential(Model):
    """Layers, one after the other: `Sequential([layers.Dense(64, activation="relu"), layers.Dense(2)])`."""

    def __init__(self, layers):
        self.layers = list(layers)
        for layer in self.layers:
            if not isinstance(layer, Layer):
                raise TypeError(f"Sequential takes layers of leat.layers, not {type(layer).__name__}")

    def section(self, loss, inputs, directory):
        section = {} if inputs is None else {"inputs": list(inputs)}
        return {**section, "layers": [layer.config() for layer in self.layers], "loss": config_of(loss)}

    def __repr__(self):
        return f"Sequential({self.layers!r})"


class Onnx(Model):
    """A network of an ONNX file, which training continues from. `output`: the value that the network returns."""

    def __init__(self, file, output=None):
        self.file = str(file)
        self.output = output
        if not Path(self.file).is_file():
            raise ValueError(f"{self.file}: no such file")

    def _layer(self, file):
        return {"onnx": {"file": file, **({"output": self.output} if self.output else {})}}

    def section(self, loss, inputs, directory):
        section = {} if inputs is None else {"inputs": list(inputs)}
        return {**section, "layers": [self._layer(str(Path(self.file).resolve()))], "loss": config_of(loss)}


class _Exported(Model):
    """A network that a framework writes as an ONNX file."""

    def __init__(self):
        self._file = None  # bytes of the ONNX file

    def export(self, inputs):
        """The bytes of the ONNX file for rows of this shape."""
        raise NotImplementedError

    def section(self, loss, inputs, directory):
        if inputs is None:
            raise ValueError("the shape of a row is not known: pass inputs=(...) or a schema")
        self._file = self.export(tuple(inputs))
        return self.section_again(loss, inputs, directory)

    def section_again(self, loss, inputs, directory):
        file = Path(directory) / "model.onnx"
        file.write_bytes(self._file)
        return {"inputs": self.row(tuple(inputs)), "layers": [{"onnx": {"file": str(file.resolve())}}],
                "loss": config_of(loss)}

    def row(self, inputs):
        return list(inputs)


@contextlib.contextmanager
def quietly():
    """Nothing is written to the standard output: an exporter that fails writes its graph there, from C++."""
    flush = ctypes.CDLL(None).fflush
    if sys.stdout is not None:
        sys.stdout.flush()
    flush(None)
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)


def Torch(module, inputs=None, exporter=None, channels_last=False):
    """A network of PyTorch. `inputs`: the shape of a row, such as (1, 28, 28); default: all features of the schema.

    `exporter`: "torchscript" or "dynamo"; default: the first one that can export the module. `channels_last`: rows of the
    stream have the channels of an image last; otherwise they are as the module takes them.
    """
    from leat import _torch

    return _torch.Torch(module, inputs, exporter, channels_last)


def Keras(model):
    """A network of Keras."""
    from leat import _keras

    return _keras.Keras(model)


def as_model(value):
    """The model that a user has given, in any of its forms."""
    if isinstance(value, Model):
        return value
    if isinstance(value, (list, tuple)):
        return Sequential(value)
    if isinstance(value, (str, Path)):
        return Onnx(value)
    for base in type(value).__mro__:
        home = f"{base.__module__}.{base.__qualname__}"
        if home == "torch.nn.modules.module.Module":
            return Torch(value)
        if base.__module__.split(".")[0] in ("keras", "tf_keras", "tensorflow") and base.__name__ == "Model":
            return Keras(value)
    raise TypeError(f"a model is leat.Sequential, an ONNX file, or a network of PyTorch or Keras, not "
                    f"{type(value).__name__}")


def known_kinds():
    return set(_native.layer_kinds())
