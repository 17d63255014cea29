"""Models of Keras 3 on PyTorch, exported by Keras itself: trained as by Keras, or refused before anything starts."""

# folders: onnx python

import os

import keras_cases
import pytest


@pytest.fixture(scope="module")
def keras():
    os.environ["KERAS_BACKEND"] = "torch"
    return pytest.importorskip("keras")


@pytest.mark.long
@pytest.mark.parametrize("name", keras_cases.CASES)
def test_each_layer_of_the_list(keras, name):
    keras_cases.check_list(keras, "torch", name)


@pytest.mark.long
@pytest.mark.parametrize("text, build, shape", keras_cases.REFUSED)
def test_options_that_are_not_trained_as_by_keras(keras, text, build, shape):
    keras_cases.check_refused(keras, text, build, shape)


@pytest.mark.long
def test_a_model_that_was_never_called(keras, capfd):
    import leat

    layers = keras.layers
    leat.Keras(keras.Sequential([layers.Input((5,)), layers.Dense(3)])).export((5,))
    # What Keras' exporter writes when it fails is not on the standard output.
    with pytest.raises(ValueError, match="^Keras cannot export the model as ONNX"):
        leat.Keras(keras.Sequential([layers.Input((5,)), layers.LayerNormalization(), layers.Dense(3)])).export((5,))
    assert capfd.readouterr().out == ""
