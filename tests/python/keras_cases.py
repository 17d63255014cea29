"""Networks of Keras that are trained by both: each type of layer that leat.Keras admits, with its options."""

import random

import numpy as np

VECTOR, IMAGE, SEQUENCE, IDS = (6,), (6, 6, 2), (4, 6), (4,)
SAME = {"padding": "same"}

# By name: a function of keras.layers and the input, and the shape of a row.
CASES = {
    "Dense": (lambda L, x: L.Dense(5, activation="tanh", use_bias=False)(x), VECTOR),
    "EinsumDense": (lambda L, x: L.EinsumDense("abc,cd->abd", output_shape=(4, 5), bias_axes="d")(x), SEQUENCE),
    "Embedding": (lambda L, x: L.Embedding(7, 5)(x), IDS),
    "Conv1D": (lambda L, x: L.Conv1D(5, 3, activation="relu", **SAME)(x), SEQUENCE),
    "Conv1DTranspose": (lambda L, x: L.Conv1DTranspose(5, 3, strides=2)(x), SEQUENCE),
    "Conv2D": (lambda L, x: L.Conv2D(4, 3, strides=2, activation="relu", **SAME)(x), IMAGE),
    "Conv2DTranspose": (lambda L, x: L.Conv2DTranspose(4, 3, strides=2)(x), IMAGE),
    "DepthwiseConv2D": (lambda L, x: L.DepthwiseConv2D(3)(x), IMAGE),
    "SeparableConv2D": (lambda L, x: L.SeparableConv2D(4, 3)(x), IMAGE),
    "BatchNormalization": (lambda L, x: L.BatchNormalization(momentum=0.8)(L.Conv2D(4, 3)(x)), IMAGE),
    "BatchNormalization frozen": (lambda L, x: L.BatchNormalization(trainable=False)(L.Conv2D(4, 3)(x)), IMAGE),
    "BatchNormalization frozen of vectors": (lambda L, x: L.BatchNormalization(trainable=False)(L.Dense(5)(x)), VECTOR),
    "LayerNormalization": (lambda L, x: L.LayerNormalization()(x), SEQUENCE),
    "GroupNormalization": (lambda L, x: L.GroupNormalization(2)(x), IMAGE),
    "UnitNormalization": (lambda L, x: L.UnitNormalization()(x), VECTOR),
    "LSTM": (lambda L, x: L.LSTM(5)(x), SEQUENCE),
    "LSTM sequence": (lambda L, x: L.LSTM(5, return_sequences=True)(x), SEQUENCE),
    "GRU": (lambda L, x: L.GRU(5, return_sequences=True)(x), SEQUENCE),
    "GRU reset before": (lambda L, x: L.GRU(5, reset_after=False)(x), SEQUENCE),
    "SimpleRNN": (lambda L, x: L.SimpleRNN(5)(x), SEQUENCE),
    "Bidirectional": (lambda L, x: L.Bidirectional(L.GRU(3, return_sequences=True))(x), SEQUENCE),
    "TimeDistributed": (lambda L, x: L.TimeDistributed(L.Dense(5))(x), SEQUENCE),
    **{f"Activation {name}": (lambda L, x, name=name: L.Activation(name)(L.Dense(5)(x)), VECTOR)
       for name in ("elu", "selu", "softplus", "softsign", "sigmoid", "tanh", "gelu", "swish", "exponential", "softmax",
                    "hard_sigmoid")},
    **{name: (lambda L, x, name=name: getattr(L, name)()(L.Dense(5)(x)), VECTOR) for name in ("ReLU", "LeakyReLU", "ELU", "Softmax")},
    "ReLU capped": (lambda L, x: L.ReLU(max_value=6.0)(L.Dense(5)(x)), VECTOR),
    "Reshape": (lambda L, x: L.Reshape((2, 3))(x), VECTOR),
    "Permute": (lambda L, x: L.Permute((2, 1))(x), SEQUENCE),
    "RepeatVector": (lambda L, x: L.RepeatVector(3)(L.Dense(5)(x)), VECTOR),
    "Rescaling": (lambda L, x: L.Rescaling(0.5, offset=1.0)(L.Dense(5)(x)), VECTOR),
    **{name: (lambda L, x, name=name: getattr(L, name)()([L.Dense(5)(x), L.Dense(5)(x)]), VECTOR)
       for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")},
    "Dot": (lambda L, x: L.Dot(axes=1)([L.Dense(5)(x), L.Dense(5)(x)]), VECTOR),
    **{name: (lambda L, x, name=name: getattr(L, name)(2)(L.Conv1D(4, 2)(x)), SEQUENCE) for name in ("MaxPooling1D", "AveragePooling1D")},
    **{name: (lambda L, x, name=name: getattr(L, name)(2, **SAME)(L.Conv2D(4, 2)(x)), IMAGE)
       for name in ("MaxPooling2D", "AveragePooling2D")},
    **{name: (lambda L, x, name=name: getattr(L, name)()(L.Conv1D(4, 2)(x)), SEQUENCE)
       for name in ("GlobalAveragePooling1D", "GlobalMaxPooling1D")},
    **{name: (lambda L, x, name=name: getattr(L, name)()(L.Conv2D(4, 2)(x)), IMAGE)
       for name in ("GlobalAveragePooling2D", "GlobalMaxPooling2D")},
    **{name: (lambda L, x, name=name: getattr(L, name)(1)(L.Conv1D(4, 2)(x)), SEQUENCE) for name in ("ZeroPadding1D", "Cropping1D")},
    **{name: (lambda L, x, name=name: getattr(L, name)(1)(L.Conv2D(4, 2)(x)), IMAGE) for name in ("ZeroPadding2D", "Cropping2D")},
    "rates of zero": (lambda L, x: L.GaussianNoise(0.0)(L.GaussianDropout(0.0)(L.AlphaDropout(0.0)(L.Dropout(0.0)(
        L.SpatialDropout1D(0.0)(L.Conv1D(4, 2)(x)))))), SEQUENCE),
    "SpatialDropout2D of zero": (lambda L, x: L.SpatialDropout2D(0.0)(L.Conv2D(4, 2)(x)), IMAGE),
    "frozen": (lambda L, x: L.Dense(5, activation="relu")(L.Dense(5, activation="relu", trainable=False)(x)), VECTOR),
}


def model_of(keras, build, shape):
    """A model that ends with three classes, with values that have no zeros and ones."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input(shape)
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(build(keras.layers, inputs))))
    model(np.zeros((2, *shape), np.float32))
    random = np.random.RandomState(4)
    model.set_weights([weight + 0.1 * random.uniform(size=weight.shape).astype(weight.dtype) for weight in model.get_weights()])
    return model


def make(keras, name):
    """The model of a case, and the shape of a row."""
    build, shape = CASES[name]
    return model_of(keras, build, shape), shape


def trained_by_both(keras, model, shape, steps=5, batch=16, rate=0.1):
    """The weights at the start, and after the same steps of plain gradient descent by Leat and by Keras."""
    import leat

    random = np.random.RandomState(0)
    count = int(np.prod(shape))
    X = (random.randint(0, 7, (steps * batch, count)) if shape == IDS else random.normal(size=(steps * batch, count)))
    X, y = X.astype(np.float32), random.randint(0, 3, steps * batch)
    start = [weight.copy() for weight in model.get_weights()]
    classifier = leat.Classifier(model, optimizer=leat.SGD(rate), batch_size=batch)
    for step in range(steps):
        rows = slice(batch * step, batch * (step + 1))
        classifier.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    mine = classifier.state_dict()
    for kept, now in zip(start, model.get_weights()):
        np.testing.assert_array_equal(kept, now)  # the export leaves the model as it was
    expected = model.predict_on_batch(X[:batch].reshape(batch, *shape))
    model.compile(keras.optimizers.SGD(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for step in range(steps):
        rows = slice(batch * step, batch * (step + 1))
        model.train_on_batch(X[rows].reshape(batch, *shape), y[rows])
    return start, mine, model.get_weights(), (classifier, X, expected)


def assert_trained_alike(keras, model, shape, stays=()):
    start, mine, theirs, (classifier, X, _) = trained_by_both(keras, model, shape)
    names = [getattr(weight, "path", weight.name) for weight in model.weights]
    for name, before, own, other in zip(names, start, mine, theirs):
        way = np.abs(other - before).max()
        assert own.shape == other.shape and own.dtype == other.dtype, name
        share = 0.02 if "moving_variance" in name else 5e-3  # TensorFlow's has Bessel's correction
        np.testing.assert_allclose(own, other, atol=share * way + 2e-6, rtol=2e-6, err_msg=name)
        if any(text in name for text in stays):
            np.testing.assert_array_equal(own, before, err_msg=name)
    logits = model.predict_on_batch(X[:16].reshape(16, *shape))  # by the weights that Keras has trained
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(classifier.predict_proba(X[:16]), shares / shares.sum(axis=1, keepdims=True), atol=2e-3)
    return mine


# An exporter folds or copies the weights of these, or writes ops that are not supported. Each is an error.
UNABLE = {
    "tensorflow": {"Conv1DTranspose", "LSTM", "LSTM sequence", "GRU reset before", "SimpleRNN", "RepeatVector"},
    "torch": {"Embedding", "BatchNormalization", "LayerNormalization", "Bidirectional"},
}


def check_list(keras, backend, name):
    """A case is trained alike, or refused before anything starts if the exporter is unable."""
    import pytest

    model, shape = make(keras, name)
    if name not in UNABLE[backend]:
        assert_trained_alike(keras, model, shape, stays=["moving_"] if "frozen" in name else [])
        return
    before = model.get_weights()
    with pytest.raises(ValueError, match="not supported|folded|copied|cannot export|must be f32"):
        trained_by_both(keras, model, shape)
    for mine, kept in zip(model.get_weights(), before):
        np.testing.assert_array_equal(mine, kept)


def check_refused(keras, text, build, shape):
    import pytest

    import leat

    model = model_of(keras, build, shape)
    before = model.get_weights()
    with pytest.raises(ValueError, match=text) as error:
        leat.Keras(model).export(shape)
    assert "\n" not in str(error.value)
    for mine, kept in zip(model.get_weights(), before):
        np.testing.assert_array_equal(mine, kept)


# Options that the exporters drop: the error, the layers, and the shape of a row.
REFUSED = [
    ("kernel_regularizer", lambda L, x: L.Dense(5, kernel_regularizer="l2")(x), VECTOR),
    ("bias_constraint", lambda L, x: L.Dense(5, bias_constraint="non_neg")(x), VECTOR),
    ("activity_regularizer", lambda L, x: L.Dense(5, activity_regularizer="l1")(x), VECTOR),
    ("recurrent_regularizer", lambda L, x: L.GRU(5, recurrent_regularizer="l2")(x), SEQUENCE),
    ("kernel_constraint", lambda L, x: L.Bidirectional(L.LSTM(5, kernel_constraint="max_norm"))(x), SEQUENCE),
    ("gamma_regularizer", lambda L, x: L.LayerNormalization(gamma_regularizer="l2")(x), VECTOR),
    ("embeddings_constraint", lambda L, x: L.Embedding(7, 5, embeddings_constraint="unit_norm")(x), IDS),
    ("mask_zero=True", lambda L, x: L.Embedding(7, 5, mask_zero=True)(x), IDS),
    ("of the type Masking", lambda L, x: L.LSTM(5)(L.Masking()(x)), SEQUENCE),
    ("recurrent_dropout=0.2", lambda L, x: L.LSTM(5, recurrent_dropout=0.2)(x), SEQUENCE),
    ("stddev=0.5", lambda L, x: L.GaussianNoise(0.5)(x), VECTOR),
    ("SpatialDropout1D with rate=0.5", lambda L, x: L.SpatialDropout1D(0.5)(x), SEQUENCE),
    ("the layer drop .Dropout.*rate=0.2", lambda L, x: L.Dropout(0.2, name="drop")(x), VECTOR),
    ("of the type MultiHeadAttention", lambda L, x: L.MultiHeadAttention(2, 3)(x, x), SEQUENCE),
    ("of the type ActivityRegularization", lambda L, x: L.ActivityRegularization(l2=0.1)(x), VECTOR),
    ("float16|bfloat16|float64", lambda L, x: L.Dense(5, dtype="mixed_bfloat16")(x), VECTOR),
    ("of the type RandomFlip", lambda L, x: L.RandomFlip()(x), IMAGE),
]


def own_layer(keras, base="Layer", adds="", **options):
    """A layer of a user's own with one weight, or a Dense layer. `adds`: when it adds a loss, "always" or in "training"."""
    class Own(getattr(keras.layers, base)):
        def build(self, shape):
            super().build(shape)
            self.own = self.add_weight(shape=(shape[-1], 5), initializer="glorot_uniform", name="own", **options)

        def call(self, x, training=None):
            made = x @ self.own if base == "Layer" else super().call(x) + x @ self.own
            if adds == "always" or adds == "training" and training:
                self.add_loss(1e-6 * (made * made)[0, 0])
            return made

    return Own(*([5] if base == "Dense" else []), name="mine")


def check_own_refused(keras, text, options):
    """However little it changes: a weak penalty, a bound that is rarely met."""
    names = {"regularizer": keras.regularizers, "constraint": keras.constraints}
    options = {key: names[key].get(value) if key in names else value for key, value in options.items()}
    check_refused(keras, text, lambda L, x: own_layer(keras, **options)(x), VECTOR)
    nested = lambda L, x: keras.Sequential([L.Input(VECTOR), own_layer(keras, **options)])(x)  # noqa: E731
    check_refused(keras, text, nested, VECTOR)


# Keras 2 tells of regularizers by the losses that they add.
OWN_REFUSED = [
    ("regularizer", {"regularizer": {"class_name": "L2", "config": {"l2": 1e-6}}}),
    ("^the weight .*own.* Leat does not train with constraint=MaxNorm; it must be None$",
     {"constraint": {"class_name": "MaxNorm", "config": {"max_value": 100.0}}}),
    ("^the weight .*own.* Leat does not train with constraint=NonNeg", {"base": "Dense", "constraint": "non_neg"}),
    ("^the layer mine .Own. adds a loss, by add_loss or a regularizer; Leat does not train with it$", {"adds": "always"}),
    ("^the layer mine .Own. adds a loss", {"adds": "training"}),
    ("^the layer mine .Own. adds a loss", {"base": "Dense", "adds": "always"}),
]


def check_own_training_refused(keras, method):
    """The network alone goes to Leat, so what the model adds to its training would be lost."""
    import pytest

    import leat

    def own(self, *args, **options):
        return getattr(keras.Model, method)(self, *args, **options)

    inputs = keras.Input(VECTOR)
    model = type("Mine", (keras.Model,), {method: own})(inputs, keras.layers.Dense(3)(inputs))
    with pytest.raises(ValueError, match=f"^the model .*Mine. has its own {method}, which Leat does not call; "
                       r"keras.Model\(model.inputs, model.outputs\) is the network alone$"):
        leat.Keras(model).export(VECTOR)
    leat.Keras(keras.Model(model.inputs, model.outputs)).export(VECTOR)


class Choices:
    """The code of layers of a user's own, named by its fault. `last`: a count of the calls."""

    last = 0

    def at_random(self, keras, x, training):
        return 0 * x if training and random.random() < 1e-6 else x

    def at_random_by_numpy(self, keras, x, training):
        return 0 * x if training and np.random.rand() > 0.99 else x

    def noisy(self, keras, x, training):
        return x + 0.003 * keras_random(keras)(keras_shape(keras)(x)) if training else x

    def counted(self, keras, x, training):
        if training:
            self.last += 1
        return 0 * x if self.last > 100 else x

    def counted_inside(self, keras, x, training):
        self.counts["calls"] = self.counts.get("calls", 0) + 1
        return x / (1 + 1e-5 * self.counts["calls"])

    def at_the_end(self, keras, x, training):
        if training:
            self.last += 1
        return x

    def rate_of_zero(self, keras, x, training):
        return 0 * x if training and random.random() < 0.0 else x


def keras_random(keras):
    return keras.random.normal if hasattr(keras, "random") else __import__("tensorflow").random.normal


def keras_shape(keras):
    return keras.ops.shape if hasattr(keras, "ops") else __import__("tensorflow").shape


CODE = {"at_random": "computes at random in training, in mine .Own.: its export would keep one draw$",
        "at_random_by_numpy": "computes at random in training, in mine .Own.:", "noisy": "computes at random in training, in mine .Own.:",
        "counted": "^what the model computes depends on last of the layer mine .Own., which its calls change: its export would keep one "
                   "value$",
        "counted_inside": "depends on counts of the layer mine .Own.", "at_the_end": None, "rate_of_zero": None}


def check_own_code(keras, name):
    import leat

    class Own(keras.layers.Layer):
        def call(self, x, training=None):
            return getattr(Choices, name)(self, keras, x, training)

    layer = Own(name="mine")
    layer.last, layer.counts = 0, {}
    build = lambda L, x: layer(L.Dense(5)(x))  # noqa: E731
    if CODE[name]:
        check_refused(keras, CODE[name], build, VECTOR)
    else:
        leat.Keras(model_of(keras, build, VECTOR)).export(VECTOR)
