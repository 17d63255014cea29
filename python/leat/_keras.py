"""Networks of Keras: exported by tf2onnx or by Keras itself, trained by Leat's engine, and returned by their own names.

Keras says what is trained: its trainable weights, and the moving statistics of batch normalization that is trainable. The
exporters rename weights, reorder their elements and fold them into others. So the model is exported with numbers in these
weights that tell where each element has gone. An element that is not found again is an error. All other weights are constants
of the graph, folded or not.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from leat import _compare, _keras_code, _keras_layers, _native, _onnx_file
from leat._models import _Exported, quietly

_MOST = 1 << 24  # whole numbers that a float32 tells apart


class Keras(_Exported):
    """A Keras model. `model.set_weights(run.state_dict())` takes its weights home."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        try:
            shape = model.input_shape
        except AttributeError:
            raise ValueError(f"the model {getattr(model, 'name', '')} does not say what it takes: make it of keras.Input and "
                             "layers") from None
        outputs = getattr(model, "outputs", None) or [None]
        if len(outputs) != 1:
            raise ValueError(f"the model returns {len(outputs)} values; Leat trains a model that returns one")
        if not isinstance(shape, tuple) or any(size is None for size in shape[1:]):
            raise ValueError(f"the model's input has the shape {shape}; it needs one input of known sizes")
        self.inputs = tuple(int(size) for size in shape[1:])
        self._places = None  # by initializer: the element of all weights that each of its elements is

    def export(self, inputs):
        _keras_layers.check(self.model)
        self._weights = self.model.get_weights()
        self._starts = np.cumsum([0, *(weight.size for weight in self._weights)])
        total = int(self._starts[-1])
        if total == 0:
            raise ValueError("the model has no weights")
        if total >= _MOST:
            raise ValueError(f"the model has {total} weights; at most {_MOST - 1} can be exported")
        roles = _roles(self.model)
        if "trained" not in roles:
            raise ValueError("no weight of the model is trained: trainable is False for all layers")
        counts = _keras_code.Counts(self.model)
        try:
            self._call(inputs)
            _keras_layers.check_losses(self.model)
            _keras_code.check(self.model, self._weights, counts, inputs)
            # Element k of all weights is (k + 1) / 2^24, except in those that stay constant.
            self.model.set_weights([
                weight if role == "constant" else
                ((np.arange(weight.size) + start + 1) / _MOST).astype(np.float32).reshape(weight.shape)
                for weight, start, role in zip(self._weights, self._starts, roles)])
            data = self._with_weights(_export(self.model, inputs), roles)
            _compare_with(self, data, inputs)
        finally:
            self.model.set_weights(self._weights)
            counts.restore()
        return data

    def _call(self, inputs):
        """Keras exports some models only after their first call, and layers may add losses in training only."""
        self.model(np.zeros((2, *inputs), np.float32), training=True)

    def _with_weights(self, data, roles):
        """The file with the model's own values in place of the numbers, and how it treats them."""
        import onnx
        from onnx import numpy_helper

        file = onnx.load_from_string(data)
        values = np.concatenate([np.asarray(weight, dtype=np.float32).ravel() for weight in self._weights])
        role_of = np.repeat(np.array(roles), np.diff(self._starts))
        found = role_of == "constant"
        self._places, treatments, names = {}, {}, [getattr(weight, "path", weight.name) for weight in self.model.weights]
        for initializer in file.graph.initializer:
            if initializer.data_type != onnx.TensorProto.FLOAT:
                continue
            array = numpy_helper.to_array(initializer)
            marks = array.astype(np.float64) * _MOST
            if array.size == 0 or not np.all((marks == np.round(marks)) & (marks >= 1) & (marks <= len(values))):
                continue
            place = np.round(marks).astype(np.int64).ravel() - 1
            those = set(role_of[place])
            if those == {"constant"}:
                continue  # values of its own
            if len(those) > 1:
                raise ValueError(f"the export has joined weights that are trained with others, in {initializer.name}")
            if found[place].any():
                copied = names[int(np.searchsorted(self._starts, place[found[place]][0], side="right")) - 1]
                raise ValueError(f"the export has copied the weights {copied}: their copies would be trained apart")
            self._places[initializer.name] = place
            treatments[initializer.name] = str(those.pop())
            found[place] = True
            initializer.CopyFrom(numpy_helper.from_array(values[place].reshape(array.shape), initializer.name))
        lost = [name for name, start, end in zip(names, self._starts, self._starts[1:]) if not found[start:end].all()]
        if lost:
            raise ValueError(f"the export has folded the weights {', '.join(lost[:5])}{' and others' if len(lost) > 5 else ''}"
                             " into others: they could not be returned")
        moved = {name for node in file.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
        fixed = [name for name, treatment in treatments.items() if treatment == "statistic" and name not in moved]
        if fixed:
            name = names[int(np.searchsorted(self._starts, self._places[fixed[0]][0], side="right")) - 1]
            raise ValueError(f"the export has no batch normalization that moves the weights {name}; trainable=False keeps them")
        self._set_momentum(file, treatments)
        self._variables = _onnx_file.variable_names(treatments)
        return _onnx_file.with_treatments(file.SerializeToString(), treatments)

    def _set_momentum(self, file, treatments):
        """The exporters write an inference form, which has no momentum."""
        from onnx import helper

        momentum = {id(layer.moving_mean): layer.momentum for layer in _keras_layers.all_layers(self.model)
                    if hasattr(layer, "moving_mean")}
        for node in file.graph.node:
            if node.op_type != "BatchNormalization" or treatments.get(node.input[3]) != "statistic":
                continue
            at = int(np.searchsorted(self._starts, self._places[node.input[3]][0], side="right")) - 1
            kept = [attribute for attribute in node.attribute if attribute.name != "momentum"]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute("momentum", float(momentum[id(self.model.weights[at])]))])

    def take(self, variables):
        """The weights in the order of `model.get_weights()`."""
        by_name = {_onnx_file.own_name(name): np.asarray(value).ravel() for name, value in variables.items()}
        values = np.concatenate([np.asarray(weight, dtype=np.float32).ravel() for weight in self._weights])
        for name, place in self._places.items():
            found = by_name.get(self._variables[name])
            if found is not None:  # otherwise the output does not depend on it
                values[place] = found
        return [values[start:end].reshape(weight.shape).astype(weight.dtype)
                for weight, start, end in zip(self._weights, self._starts, self._starts[1:])]


def _roles(model):
    """The role of each weight, in the order of `get_weights()`: trained, statistic or constant."""
    trained = {id(weight) for weight in model.trainable_weights}
    moving = set()
    for layer in _keras_layers.all_layers(model):
        kind = _keras_layers.base_of(layer)
        if kind is not None and kind.__name__ == "BatchNormalization" and layer.trainable:
            moving |= {id(layer.moving_mean), id(layer.moving_variance)}
    return ["trained" if id(weight) in trained else "statistic" if id(weight) in moving else "constant"
            for weight in model.weights]


# ---- the comparison

def _compare_with(exported, data, inputs):
    """Raises ValueError with the first weight in which Leat and Keras differ after a few steps."""
    model, failure = exported.model, None
    steps = _Steps(model, exported._weights)
    for rows in _keras_code.rows_of(model, inputs):
        try:
            ids, rate = _compare_rows(exported, steps, data, inputs, rows)
        except _compare.Unfit as e:
            failure = failure or e
            continue
        break
    else:
        raise ValueError(f"the model cannot be compared with its export: {failure}")
    _compare_copies(steps, rows[0])
    for factor, others, moved in _compare.scales(rows, ids):
        try:
            # Where roundings matter as much, nothing is concluded.
            if not _compare.alike(*([steps.called(made[0])] for made in (others, moved)), 1e-4):
                continue
            gradients = [steps.gradients(made, _labels(steps.called(made[0]))[1]) for made in (others, moved)]
            _compare_rows(exported, steps, data, inputs, others, 100 * rate, 1 if _compare.alike(*gradients, 1e-3) else 0)
            break
        except (_compare.Unfit, _native.NotFiniteError):
            continue
        except ValueError as e:
            raise ValueError(f"for rows {factor} times as large, {e}") from e


def _labels(outputs):
    """Labels for rows of these outputs, in the shapes of Leat and of the model."""
    labels = _compare.labels_of(int(np.prod(outputs.shape[1:])))
    return labels, labels.reshape(*labels.shape[:2], *outputs.shape[1:])


def _compare_copies(steps, rows):
    """Raises ValueError if outputs depend on the number of rows."""
    many = np.concatenate(_compare.COPIES * [rows])
    _compare.check_count(1, [steps.called(rows)[-1:]], lambda: [steps.called(rows[-1:])])
    for training in (False, True):
        _compare.check_count(len(many), _compare.COPIES * [steps.called(rows, training)],
                             lambda training=training: np.split(steps.called(many, training), _compare.COPIES))


def _compare_rows(exported, steps, data, inputs, rows, most=np.inf, count=_compare.STEPS):
    """The trial's ids and its learning rate, `most` at most."""
    expected = steps.predicted(rows[0])
    labels, shaped = _labels(expected)
    start = [np.asarray(weight, np.float32) for weight in exported._weights]
    gradients = steps.gradients(rows, shaped)
    if not all(np.isfinite(values).all() for values in gradients):
        raise _compare.Unfit("its gradients are not finite for random rows")
    roles = _roles(exported.model)
    rate = min(most, _compare.rate_of([(a, g) for a, g, role in zip(start, gradients, roles) if role == "trained"]))
    trial = _compare.Trial(data, inputs, labels.shape[2], rate)
    found = trial.predict(rows[0], most)
    if _compare.differs(expected.reshape(len(expected), -1), found):
        raise ValueError("the exported network computes otherwise than the model: its outputs differ by "
                         f"{float(np.abs(expected.reshape(found.shape) - found).max()):.2g}")
    for step, wanted in enumerate(steps.made(rows[:count], shaped, rate)):
        trial.step(rows[step], labels[step])
        _compare_values(exported, start, wanted, exported.take(trial.values()))
    return trial.ids, rate


class _Steps:
    """Calls of a model with the same weights, and plain gradient descent by Keras, on the mean squared error."""

    def __init__(self, model, weights):
        keras = sys.modules[_keras_layers.base_of(model).__module__.split(".")[0]]
        self._model, self._weights = model, weights
        # Another model of the same layers, whose optimizer is not the user's.
        self._twin = keras.Model(model.inputs, model.outputs)
        self._twin.compile(optimizer=keras.optimizers.SGD(1.0), loss="mean_squared_error")

    def predicted(self, rows):
        return self._outputs(lambda: np.asarray(self._model.predict_on_batch(rows), np.float32))

    def called(self, rows, training=False):
        return self._outputs(lambda: _keras_code.called(self._model, rows, training))

    def _outputs(self, call):
        self._model.set_weights(self._weights)
        try:
            made = call()
        except Exception as e:  # noqa: BLE001, whatever the model raises
            raise _compare.Unfit(" ".join(str(e).split())[:300]) from e
        if not np.isfinite(made).all():
            raise _compare.Unfit("its outputs are not finite for random rows")
        return made

    def made(self, rows, labels, rate):
        """The weights after each step."""
        self._model.set_weights(self._weights)
        self._twin.optimizer.learning_rate = float(rate)
        made = []
        for x, y in zip(rows, labels):
            self._twin.train_on_batch(x, y)
            made.append([np.array(weight, np.float32) for weight in self._model.get_weights()])
        return made

    def gradients(self, rows, labels):
        """How far a step at a small rate goes tells them."""
        small = 2.0**-10
        return [(np.asarray(a, np.float32) - b) / small for a, b in zip(self._weights, self.made(rows[:1], labels[:1], small)[0])]


def _compare_values(exported, start, wanted, found):
    most = max(_compare.moved(values, before) for values, before, role in zip(wanted, start, _roles(exported.model))
               if role == "trained")
    for weight, before, values, own in zip(exported.model.weights, start, wanted, found):
        name = getattr(weight, "path", weight.name)
        # Some backends have Bessel's correction in moving variances; ONNX has not.
        share = 0.2 if "moving_variance" in name else 0.02
        if not _compare.moves_differ(values, own, before, most, share):
            continue
        raise ValueError(f"{name}: a step of Keras moves it by {_compare.moved(values, before):.3g}, and one of Leat by "
                         f"{_compare.moved(own, before):.3g} (they differ by {_compare.moved(own, values):.2g}); Leat cannot train "
                         "this model")


# ---- the exporters

def _export(model, inputs):
    """The bytes of the ONNX file, without the rewritings that fold weights into each other."""
    if hasattr(model, "_export_to_tf") or not _is_keras_3(model):
        return _by_tf2onnx(model, inputs)
    with tempfile.TemporaryDirectory(prefix="leat-") as directory:
        file = Path(directory) / "model.onnx"
        try:
            with quietly():
                model.export(str(file), format="onnx", verbose=False)
        except Exception as e:  # noqa: BLE001
            text = (str(e).strip() or type(e).__name__).splitlines()[0]
            raise ValueError(f"Keras cannot export the model as ONNX: {text[:300]}") from e
        return file.read_bytes()


def _is_keras_3(model):
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
        with quietly():
            proto, _ = tf2onnx.convert.from_keras(
                model, input_signature=(tf.TensorSpec((None, *inputs), tf.float32, name="features"),), opset=17,
                optimizers=kept)
    except Exception as e:  # noqa: BLE001
        text = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ValueError(f"tf2onnx cannot export the model: {text[:300]}") from e
    return proto.SerializeToString()
