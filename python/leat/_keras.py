"""Networks of Keras: exported by tf2onnx or by Keras itself, trained by Leat's engine, and returned by their own names.

The exporters rename weights, reorder their elements and fold them into others. So the model is exported with numbers in its
weights that tell where each element has gone. What cannot be found again is an error.
"""

import tempfile
from pathlib import Path

import numpy as np

from leat._models import _Exported

_MOST = 1 << 24  # whole numbers that a float32 tells apart


class Keras(_Exported):
    """A Keras model. `model.set_weights(run.state_dict())` takes its weights home."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        shape = model.input_shape
        if not isinstance(shape, tuple) or any(size is None for size in shape[1:]):
            raise ValueError(f"the model's input has the shape {shape}; it needs one input of known sizes")
        self.inputs = tuple(int(size) for size in shape[1:])
        self._places = None  # by initializer: the element of all weights that each of its elements is

    def export(self, inputs):
        import onnx
        from onnx import numpy_helper

        weights = self.model.get_weights()
        names = [weight.name for weight in self.model.weights]
        total = sum(weight.size for weight in weights)
        if total == 0:
            raise ValueError("the model has no weights")
        if total >= _MOST:
            raise ValueError(f"the model has {total} weights; at most {_MOST - 1} can be exported")
        for layer in _all_layers(self.model):
            if type(layer).__name__.endswith("Dropout") and getattr(layer, "rate", 0) > 0:
                raise ValueError(f"Keras' export leaves out the dropout of the layer {layer.name}; set its rate to 0")
        starts = np.cumsum([0, *(weight.size for weight in weights)])
        try:
            # Element k of all weights is (k + 1) / 2^24.
            self.model.set_weights([((np.arange(weight.size) + start + 1) / _MOST).astype(np.float32).reshape(weight.shape)
                                    for weight, start in zip(weights, starts)])
            file = onnx.load_from_string(_export(self.model, inputs))
        finally:
            self.model.set_weights(weights)
        values = np.concatenate([np.asarray(weight, dtype=np.float32).ravel() for weight in weights])
        found = np.zeros(total, dtype=bool)
        self._places = {}
        for initializer in file.graph.initializer:
            if initializer.data_type != onnx.TensorProto.FLOAT:
                continue
            array = numpy_helper.to_array(initializer)
            marks = array.astype(np.float64) * _MOST
            if array.size == 0 or not np.all((marks == np.round(marks)) & (marks >= 1) & (marks <= total)):
                continue
            place = np.round(marks).astype(np.int64).ravel() - 1
            self._places[initializer.name] = place
            found[place] = True
            initializer.CopyFrom(numpy_helper.from_array(values[place].reshape(array.shape), initializer.name))
        lost = [name for name, start, end in zip(names, starts, starts[1:]) if not found[start:end].all()]
        if lost:
            raise ValueError(f"the export has folded the weights {', '.join(lost[:5])}{' and others' if len(lost) > 5 else ''}"
                             " into others: they could not be returned")
        if len(np.concatenate(list(self._places.values()))) != total:
            raise ValueError("the export has copied weights: their copies would be trained apart")
        self._shapes = [weight.shape for weight in weights]
        self._starts = starts
        return file.SerializeToString()

    def take(self, variables):
        """The weights in the order of `model.get_weights()`."""
        from leat._torch import _own_name, _plain

        by_name = {_own_name(name): np.asarray(value).ravel() for name, value in variables.items()}
        values = np.empty(int(self._starts[-1]), dtype=np.float32)
        for name, place in self._places.items():
            values[place] = by_name[_plain(name)]
        return [values[start:end].reshape(shape) for shape, start, end in zip(self._shapes, self._starts, self._starts[1:])]


def _all_layers(model):
    for layer in model.layers:
        yield layer
        if hasattr(layer, "layers"):
            yield from _all_layers(layer)


def _export(model, inputs):
    """The bytes of the ONNX file, without the rewritings that fold weights into each other."""
    if hasattr(model, "_export_to_tf") or not _is_keras_3(model):
        return _by_tf2onnx(model, inputs)
    with tempfile.TemporaryDirectory(prefix="leat-") as directory:
        file = Path(directory) / "model.onnx"
        try:
            model.export(str(file), format="onnx", verbose=False)
        except Exception as e:  # noqa: BLE001
            text = (str(e).strip() or type(e).__name__).splitlines()[0]
            raise ValueError(f"Keras cannot export the model as ONNX: {text[:300]}") from e
        return file.read_bytes()


def _is_keras_3(model):
    import sys

    keras = sys.modules.get(type(model).__module__.split(".")[0])
    return str(getattr(keras, "__version__", "2")).split(".")[0] >= "3"


def _by_tf2onnx(model, inputs):
    try:
        import tensorflow as tf
        import tf2onnx
        from tf2onnx import optimizer
    except ImportError as e:
        raise ValueError(f"models of Keras 2 are exported by tf2onnx: {e}") from e
    kept = {name: make for name, make in optimizer._get_optimizers().items() if "back_to_back" not in name}
    try:
        proto, _ = tf2onnx.convert.from_keras(
            model, input_signature=(tf.TensorSpec((None, *inputs), tf.float32, name="features"),), opset=17, optimizers=kept)
    except Exception as e:  # noqa: BLE001
        text = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ValueError(f"tf2onnx cannot export the model: {text[:300]}") from e
    return proto.SerializeToString()
