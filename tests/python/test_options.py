"""Options of modules and layers that were not compared, by stand-ins for the classes of PyTorch and Keras."""

# folders: python

import pytest

from leat import _keras_layers, _torch_modules


class Module:
    def named_modules(self):
        return [("fc", self)]


class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, device=None, scale=1.0):
        self.in_features, self.out_features, self.bias, self.scale = in_features, out_features, bias, scale


class MaxPool1d(Module):
    def __init__(self, kernel_size, return_indices=False, *args, **more):
        self.kernel_size, self.return_indices, self.dilation = kernel_size, return_indices, 1


class Flip(Module):
    pass


for kind in (Linear, MaxPool1d, Flip):
    kind.__module__ = "torch.nn.modules.later"


class Own(Linear):
    """A class of the user, with an option of its own."""

    def __init__(self, extra, *args, **more):
        super().__init__(*args, **more)
        self.extra = extra


@pytest.mark.parametrize("module", [Linear(3, 2), Linear(3, 2, bias=False, device="cpu"), MaxPool1d(2), Own("x", 3, 2)])
def test_options_of_pytorch_that_were_compared(module):
    _torch_modules.check(module)


@pytest.mark.parametrize("module, text", [
    (Linear(3, 2, scale=0.5), "fc (Linear): Leat has not compared Linear with scale=0.5; it must be 1.0"),
    (Linear(3, 2, scale=True), "fc (Linear): Leat has not compared Linear with scale=True; it must be 1.0"),
    (Own(None, 3, 2, scale=[1]), "fc (Own): Leat has not compared Linear with scale=a list; it must be 1.0"),
    (MaxPool1d(2, True), "fc (MaxPool1d): Leat does not train MaxPool1d with return_indices=True as PyTorch does; it must be False"),
    (Flip(), "fc (Flip): Leat does not train modules of the type Flip; docs/python.md lists those that it trains as PyTorch does"),
])
def test_options_of_pytorch_that_were_not(module, text):
    with pytest.raises(ValueError) as error:
        _torch_modules.check(module)
    assert str(error.value) == text


class Layer:
    name, weights, trainable_weights = "it", [], []

    def __init__(self, name="it", dtype=None):
        self.name, self.dtype = name, dtype

    def _flatten_layers(self, include_self):
        return [self]


class LSTM(Layer):
    def __init__(self, units, dropout=0.0, stretch=False, seed=None, kernel_regularizer=None, **more):
        super().__init__(**more)
        self.units, self.dropout, self.stretch, self.seed = units, dropout, stretch, seed


class Model(Layer):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def _flatten_layers(self, include_self):
        return [self.layer]


for kind in (Layer, LSTM, Model):
    kind.__module__ = "keras.src"


def test_options_of_keras_that_were_compared():
    _keras_layers.check(Model(LSTM(4, seed=7, name="mine", dtype="float32")))


@pytest.mark.parametrize("layer, text", [
    (LSTM(4, stretch=True), "the layer it (LSTM): Leat has not compared LSTM with stretch=True; it must be False"),
    (LSTM(4, dropout=0.5), "the layer it (LSTM): Leat does not train LSTM with dropout=0.5 as Keras does; it must be 0 or 0.0"),
])
def test_options_of_keras_that_were_not(layer, text):
    with pytest.raises(ValueError) as error:
        _keras_layers.check(Model(layer))
    assert str(error.value) == text
