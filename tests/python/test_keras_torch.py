"""Models of Keras 3 on PyTorch, exported by Keras itself: trained as by Keras, or refused before anything starts."""

# folders: compute/onnx python

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
    if name == "EinsumDense":  # the exporter keeps its product as one op
        with pytest.raises(ValueError, match="not supported: Einsum"):
            keras_cases.check_list(keras, "torch", name)
    else:
        keras_cases.check_list(keras, "torch", name)


@pytest.mark.long
@pytest.mark.parametrize("text, build, shape", keras_cases.REFUSED)
def test_options_that_are_not_trained_as_by_keras(keras, text, build, shape):
    keras_cases.check_refused(keras, text, build, shape)


@pytest.mark.long
@pytest.mark.parametrize("text, options", keras_cases.OWN_REFUSED)
def test_layers_of_the_users_own_that_add_to_a_step(keras, text, options):
    keras_cases.check_own_refused(keras, text, options)


@pytest.mark.long
@pytest.mark.parametrize("name", keras_cases.CODE)
def test_code_that_draws_or_counts(keras, name):
    keras_cases.check_own_code(keras, name)


@pytest.mark.long
@pytest.mark.parametrize("method", ["train_step", "compute_loss"])
def test_models_with_a_training_of_their_own(keras, method):
    keras_cases.check_own_training_refused(keras, method)


@pytest.mark.long
def test_a_model_that_was_never_called(keras, capfd):
    import leat

    layers = keras.layers
    leat.Keras(keras.Sequential([layers.Input((5,)), layers.Dense(3)])).export((5,))
    # Messages of Keras' exporter about its failure stay off the standard output.
    with pytest.raises(ValueError, match="^Keras cannot export the model as ONNX"):
        leat.Keras(keras.Sequential([layers.Input((5,)), layers.LayerNormalization(), layers.Dense(3)])).export((5,))
    assert capfd.readouterr().out == ""


@pytest.mark.long
def test_models_that_do_not_say_what_they_take(keras):
    import leat

    class Own(keras.Model):
        def call(self, x):
            return x

    layers = keras.layers
    for model in [Own(), keras.Sequential([layers.Dense(3)])]:
        with pytest.raises(ValueError, match="^the model .* does not say what it takes: make it of keras.Input and layers$"):
            leat.Keras(model)
    x = keras.Input((5,))
    with pytest.raises(ValueError, match="^the model returns 2 values; Leat trains a model that returns one$"):
        leat.Keras(keras.Model(x, [layers.Dense(3)(x), layers.Dense(2)(x)]))


@pytest.mark.long
def test_a_layer_of_the_users_own_is_compared(keras):
    import leat

    class Own(keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(shape[-1], 3), initializer="glorot_uniform", name="w")

        def call(self, x):
            return keras.ops.matmul(x, self.w)

    leat.Keras(keras.Sequential([keras.layers.Input((5,)), Own()])).export((5,))


@pytest.mark.long
def test_what_decides_by_values_or_the_number_of_rows_is_refused(keras):
    import leat

    class Own(keras.layers.Layer):
        def __init__(self, small):
            super().__init__()
            self.small = small

        def call(self, x):
            return x if self.small(x) else x / 100

    def model(small):
        inputs = keras.Input((5,))
        return keras.Model(inputs, keras.layers.Dense(3)(Own(small)(inputs)))

    def largest(x):
        return isinstance(x, keras.KerasTensor) or x.device.type == "meta" or float(keras.ops.max(keras.ops.abs(x))) < 50

    with pytest.raises(ValueError, match="^for rows 300 times as large, the exported network computes otherwise"):
        leat.Keras(model(largest)).export((5,))
    with pytest.raises(ValueError, match="^40 rows are computed otherwise than 8"):
        leat.Keras(model(lambda x: x.shape[0] is None or x.shape[0] < 9)).export((5,))

    class Clipped(keras.layers.Layer):
        def call(self, x, training=False):
            return keras.ops.clip(x, -50, 50) if training else x

    inputs = keras.Input((5,))
    with pytest.raises(ValueError, match="^for rows 300 times as large, .*a step of Keras moves it by"):
        leat.Keras(keras.Model(inputs, keras.layers.Dense(3)(Clipped()(inputs)))).export((5,))
