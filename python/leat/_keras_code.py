"""Effects of a Keras model's code that an export loses: random numbers, and decisions by counts of calls."""

import numbers

import numpy as np

from leat import _compare, _keras_layers


def called(model, rows, training=False):
    """The outputs of a call, which runs the layers' code as it is written."""
    made = model(rows, training=training)
    return np.asarray(made.detach().cpu() if hasattr(made, "detach") else made, np.float32)


def rows_of(model, inputs):
    """Kinds of rows for the model."""
    tables = [layer.input_dim for layer in _keras_layers.all_layers(model) if type(layer).__name__ == "Embedding"]
    return _compare.kinds_of_rows(inputs, min(tables, default=0))


class Counts:
    """The numbers among the attributes of layers of a user's own, in containers and objects, too, as they are now."""

    def __init__(self, model):
        self._layers = [layer for layer in _keras_layers.all_layers(model) if _of_user(layer)]
        self._kept = {entry[1:3]: entry for entry in self._now()}

    def _now(self):
        for layer in self._layers:
            for attribute, value in list(vars(layer).items()):
                place = f"{attribute} of the layer {layer.name} ({type(layer).__name__})"
                inner = value if isinstance(value, (dict, list)) else getattr(value, "__dict__", None) if _of_user(value) else None
                for holder, items in ((vars(layer), [(attribute, value)]), (inner, _items(inner))):
                    yield from ((place, id(holder), key, holder, number) for key, number in items if _is_number(number))

    def changed(self):
        """[(place, the container, its key, the number)], without the numbers that calls append to a list."""
        return [(place, holder, key, number) for place, at, key, holder, number in self._now()
                if (self._kept[at, key][-1] != number if (at, key) in self._kept else isinstance(holder, dict))]

    def restore(self):
        for _, holder, key, _ in self.changed():
            if (id(holder), key) in self._kept:
                holder[key] = self._kept[id(holder), key][-1]
            else:
                del holder[key]


_NOT_OF_USERS = ("builtins", "collections", "keras", "tf_keras", "tensorflow", "torch", "jax", "numpy")


def _of_user(value):
    return type(value).__module__.split(".")[0] not in _NOT_OF_USERS


def _items(holder):
    return list(holder.items() if isinstance(holder, dict) else enumerate(holder or ()))


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check(model, weights, counts, inputs):
    """Raises ValueError if outputs differ from call to call, or with what calls count in attributes."""
    def run(rows, training=True, change=(), number=0):
        model.set_weights(weights)
        counts.restore()
        for _, holder, key, value in change:
            holder[key] = type(value)(number)
        try:
            return [called(model, rows, training)]
        except Exception:  # noqa: BLE001, nothing is concluded
            return None

    for kind in rows_of(model, inputs):
        rows = kind[0]
        expected = run(rows)
        if expected is None or not np.isfinite(expected[0]).all():
            continue
        changed = counts.changed()
        if _compare.random_call(lambda _, rows=rows: run(rows)) is not None:
            own = [f"{layer.name} ({type(layer).__name__})" for layer in _keras_layers.all_layers(model) if _of_user(layer)]
            raise ValueError(f"the model computes at random in training, in {', '.join(own[:5]) or 'an activation'}: its export "
                             "would keep one draw")
        for training in (True, False) if changed else ():
            expected = run(rows, training)
            for number in _compare.AHEAD:
                made = run(rows, training, changed, number)
                if made is not None and _compare.differs(expected[0], made[0]):
                    raise ValueError(f"what the model computes depends on {', '.join([name for name, *_ in changed][:5])}, which its "
                                     "calls change: its export would keep one value")
        return
