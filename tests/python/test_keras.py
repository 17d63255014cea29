"""Models of Keras, exported by tf2onnx: the losses are those of Keras, and the weights come home."""

# folders: compute/onnx python

import os

import numpy as np
import pytest

import keras_cases
import leat

BATCH, STEPS, RATE = 16, 50, 0.05


@pytest.fixture(scope="module")
def keras():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    tf = pytest.importorskip("tensorflow")
    tf.keras.utils.set_random_seed(3)
    return tf.keras


def mlp(keras):
    return keras.Sequential([keras.layers.Input((12,)), keras.layers.Dense(24, activation="relu"),
                             keras.layers.LayerNormalization(), keras.layers.Dense(4)])


def images(keras):
    return keras.Sequential([keras.layers.Input((10, 10, 3)), keras.layers.Conv2D(8, 3, padding="same"),
                             keras.layers.BatchNormalization(momentum=0.9), keras.layers.ReLU(),
                             keras.layers.MaxPooling2D(2), keras.layers.Conv2D(8, 3, activation="relu"),
                             keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)])


@pytest.mark.long
@pytest.mark.parametrize("make", [mlp, images])
def test_losses_are_those_of_keras(keras, make):
    model = make(keras)
    before = [weight.copy() for weight in model.get_weights()]
    random = np.random.RandomState(5)
    batches = [random.normal(size=(BATCH, *model.input_shape[1:])).astype(np.float32) for _ in range(8)]
    labels = [(x.reshape(BATCH, -1)[:, :6] > 0).sum(axis=1) % 4 for x in batches]
    classifier = leat.Classifier(model, optimizer=leat.SGD(RATE), batch_size=BATCH)
    losses = []
    for step in range(STEPS):
        x, y = batches[step % 8].reshape(BATCH, -1), labels[step % 8]
        if step == 0:
            classifier.partial_fit(x, y, classes=range(4))
            continue
        events, loss, _, _ = classifier._learner.learn(x, y)
        losses.append(loss / events)
    for kept, now in zip(before, model.get_weights()):
        np.testing.assert_array_equal(kept, now)  # the export leaves the model as it was

    twin = keras.models.clone_model(model)
    twin.set_weights(before)
    twin.compile(keras.optimizers.SGD(RATE), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    expected = [twin.train_on_batch(batches[step % 8], labels[step % 8]) for step in range(STEPS)][1:]
    np.testing.assert_allclose(losses, expected, rtol=1e-3)

    model.set_weights(classifier.state_dict())
    for mine, theirs in zip(model.get_weights(), twin.get_weights()):
        np.testing.assert_allclose(mine, theirs, rtol=2e-2, atol=2e-3)


@pytest.mark.long
def test_what_cannot_be_trained_is_named(keras):
    x, y = np.zeros((4, 6), np.float32), np.array([0, 1, 0, 1])

    def refused(text, *layers):
        model = keras.Sequential([keras.layers.Input((6,)), *layers])
        with pytest.raises(ValueError, match=text) as error:
            leat.Classifier(model).partial_fit(x, y, classes=[0, 1])
        assert "\n" not in str(error.value)

    refused("folded the weights batch_normalization.*gamma", keras.layers.Dense(4), keras.layers.BatchNormalization(),
            keras.layers.Dense(2))
    refused("no weights", keras.layers.ReLU())
    refused("no weight of the model is trained", keras.layers.Dense(2, trainable=False))


@pytest.mark.long
@pytest.mark.parametrize("name", keras_cases.CASES)
def test_each_layer_of_the_list(keras, name):
    keras_cases.check_list(keras, "tensorflow", name)


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
def test_the_list_has_a_case_for_each_layer(keras):
    from leat import _keras_layers

    seen = {type(layer).__name__ for name in keras_cases.CASES for layer in _keras_layers.all_layers(keras_cases.make(keras, name)[0])}
    assert set(_keras_layers.LAYERS) - seen == {"Sequential", "Model", "Functional"}


@pytest.mark.long
def test_models_in_models_are_frozen_in_part(keras):
    layers = keras.layers
    inner = keras.Sequential([layers.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(5, trainable=False)])
    inputs = keras.Input((6,))
    model = keras.Model(inputs, layers.Dense(3)(inner(inputs)))
    keras_cases.assert_trained_alike(keras, model, (6,), stays=[inner.layers[1].name + "/"])


# ---- without Keras: the places of elements are found in whatever an exporter makes of them

class Weight:
    def __init__(self, name):
        self.name = name


class Model:
    """The interface of a Keras model that the package uses: a dense layer of 3 units on 2 inputs."""

    input_shape = (None, 2)
    weights = trainable_weights = (Weight("kernel"), Weight("bias"))

    def __init__(self):
        self.values = [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(3, np.float32)]

    def __call__(self, rows, training=False):
        return rows

    def _flatten_layers(self, include_self):
        return []

    def get_weights(self):
        return [value.copy() for value in self.values]

    def set_weights(self, values):
        self.values = [np.asarray(value) for value in values]


def exporter(lose_bias):
    """Writes the kernel transposed, and the bias in reverse."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    def export(model, inputs):
        kernel, bias = model.get_weights()
        nodes = [helper.make_node("Gemm", ["features", "k"], ["product"], transB=1),
                 helper.make_node("Add", ["product", "b"], ["y"])]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", *inputs])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
            [numpy_helper.from_array(np.ascontiguousarray(kernel.T), "k"),
             numpy_helper.from_array((bias + 0.3 if lose_bias else bias[::-1]).copy(), "b")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        return model.SerializeToString()

    return export


def without_keras(monkeypatch, export):
    from leat import _keras

    monkeypatch.setattr(_keras, "_export", export)
    monkeypatch.setattr(_keras, "_compare_with", lambda *_: None)


def test_elements_are_found_wherever_they_are(monkeypatch):
    from leat import _keras

    without_keras(monkeypatch, exporter(False))
    model = Model()
    classifier = leat.Classifier(_keras.Keras(model), optimizer=leat.SGD(0.1), random_state=1)
    x = np.array([[1, 0], [0, 1], [1, 1], [2, 1]], np.float32)
    classifier.partial_fit(x, [0, 1, 2, 1], classes=[0, 1, 2])
    np.testing.assert_array_equal(model.values[0], np.arange(6).reshape(2, 3))  # as it was
    kernel, bias = classifier.state_dict()
    assert kernel.shape == (2, 3) and bias.shape == (3,)
    assert not np.array_equal(kernel, model.values[0])
    logits = x @ kernel + bias[::-1]  # the exporter's network adds the reverse
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(classifier.predict_proba(x), shares, rtol=1e-5)


def test_a_folded_weight_is_named(monkeypatch):
    from leat import _keras

    without_keras(monkeypatch, exporter(True))
    with pytest.raises(ValueError, match="the export has folded the weights bias into others"):
        _keras.Keras(Model()).export((2,))
