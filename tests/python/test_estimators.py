"""The estimators, with scikit-learn and without."""

# folders: python train/learner

import pickle
import subprocess
import sys

import numpy as np
import pytest

import leat
from leat import layers

sklearn = pytest.importorskip("sklearn")


def test_classifier(rows):
    X, y = rows
    classifier = leat.Classifier(hidden=(32,), random_state=1).fit(X, y)
    assert classifier.score(X, y) > 0.9
    again = leat.Classifier(hidden=(32,), random_state=1).fit(X, y)
    np.testing.assert_array_equal(classifier.predict_proba(X), again.predict_proba(X))
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(classifier.predict_proba(X), copy.predict_proba(X))
    for estimator in (classifier, copy):
        estimator.partial_fit(X, y)
    np.testing.assert_array_equal(classifier.predict_proba(X), copy.predict_proba(X))
    assert set(classifier.state_dict()) == {"dense1/weight", "dense1/bias", "dense2/weight", "dense2/bias"}


def test_frozen_layers_stay(rows):
    X, y = rows
    def network(trainable):
        return [layers.Dense(16, activation="relu", trainable=trainable), layers.BatchNorm(trainable=trainable), layers.Dense(2)]

    start = leat.Classifier(network(True), random_state=3, optimizer=leat.SGD(1e-9))
    start = start.partial_fit(X, y, classes=[0, 1]).state_dict()
    classifier = leat.Classifier(network(False), random_state=3, epochs=5).fit(X, y)
    state = classifier.state_dict()
    assert set(state) == set(start)
    weight = state["dense1/weight"]
    np.testing.assert_allclose(weight, start["dense1/weight"], atol=1e-7)
    assert np.abs(state["dense2/weight"] - start["dense2/weight"]).max() > 0.01
    assert state["batch_norm1/mean"].max() == 0 and state["batch_norm1/variance"].min() == 1
    hidden = np.maximum(X @ weight + state["dense1/bias"], 0) / np.sqrt(1 + 1e-5)
    logits = hidden @ state["dense2/weight"] + state["dense2/bias"]
    np.testing.assert_allclose(classifier.predict_proba(X)[:, 1], 1 / (1 + np.exp(logits[:, 0] - logits[:, 1])), atol=1e-5)
    # The frozen values follow from a seed that is drawn.
    drawn = leat.Classifier(network(False), epochs=1).fit(X, y)
    copy = pickle.loads(pickle.dumps(drawn))
    np.testing.assert_array_equal(copy.predict_proba(X), drawn.predict_proba(X))
    with pytest.raises(ValueError, match="nothing is trained"):
        leat.Classifier([layers.Dense(2, trainable=False)]).fit(X, y)


def test_partial_fit_learns_text_labels(rows):
    X, y = rows
    names = np.array(["no", "yes"])[y]
    classifier = leat.Classifier(hidden=(32,), random_state=1, optimizer=leat.Adam(0.01))
    with pytest.raises(ValueError, match="classes must be passed"):
        classifier.partial_fit(X, names)
    for _ in range(40):
        classifier.partial_fit(X, names, classes=["yes", "no", "maybe"])
    assert classifier.score(X, names) > 0.9
    assert classifier.predict_proba(X).shape == (400, 3)
    with pytest.raises(ValueError, match="label .*never.* in row 3 is none of the classes"):
        classifier.partial_fit(X, np.where(np.arange(400) == 3, "never", names))


def test_the_quick_way_gives_the_same_bits(rows):
    """Contiguous float32 with known classes goes to C++ at once; lists go through all checks."""
    X, y = rows
    quick, slow = (leat.Classifier(hidden=(8,), random_state=2) for _ in range(2))
    for estimator in (quick, slow):
        estimator.partial_fit(X, y, classes=[0, 1])
    for _ in range(3):
        quick.partial_fit(X, y)
        slow.partial_fit(X.tolist(), y.tolist())
    np.testing.assert_array_equal(quick.predict_proba(X), slow.predict_proba(X))
    for bad in (np.full_like(X, np.inf), X[:, :4].copy()):
        with pytest.raises(ValueError):
            quick.partial_fit(bad, y)
    with pytest.raises(ValueError, match="none of the classes"):
        quick.partial_fit(X, y + 1)


@pytest.mark.parametrize("kind", [leat.Classifier, leat.Regressor])
def test_no_row_is_trained_twice(rows, kind):
    """The second of four batches overflows, although its rows are finite."""
    X, y = rows
    X = X.copy()
    y = y if kind is leat.Classifier else y.astype(np.float32)
    estimator = kind(hidden=(8,), random_state=2, batch_size=100)
    estimator.partial_fit(X, y, **({"classes": [0, 1]} if kind is leat.Classifier else {}))
    X[150] = 3e38
    for call in (1, 2):
        for rows_given in (X, X.tolist()):
            before = estimator._learner.events
            with pytest.raises(leat.NotFiniteError, match="100 of 400 rows were left out") as error:
                estimator.partial_fit(rows_given, y)
            assert isinstance(error.value, ValueError)
            assert estimator._learner.events == before + 300
    assert np.isfinite(estimator.predict(X[:100])).all()
    with pytest.raises(leat.NotFiniteError):
        pickle.loads(pickle.dumps(estimator)).partial_fit(X, y)
    assert type(pickle.loads(pickle.dumps(error.value))) is leat.NotFiniteError


def test_times_are_no_labels_of_a_regressor():
    X, y = np.zeros((4, 2), np.float32), np.arange(4).astype("M8[ns]")
    for learn in (leat.Regressor().fit, leat.Regressor().partial_fit):
        with pytest.raises(TypeError, match="y has times, not numbers"):
            learn(X, y)


def test_regressor(rows):
    X, _ = rows
    y = np.stack([X[:, 0] * 2, X[:, 1] - X[:, 2]], axis=1)
    regressor = leat.Regressor(hidden=(32,), random_state=1, epochs=60, optimizer=leat.Adam(0.01)).fit(X, y)
    assert regressor.score(X, y) > 0.95
    assert regressor.predict(X).shape == (400, 2)
    one = leat.Regressor(hidden=(32,), random_state=1).partial_fit(X, y[:, 0])
    assert one.predict(X).shape == (400,)


def test_layers_of_ones_own(rows):
    X, y = rows
    model = leat.Sequential([layers.Dense(16), layers.BatchNorm(), layers.ReLU(), layers.Dropout(0.1), layers.Dense(2)])
    classifier = leat.Classifier(model, random_state=1, epochs=40, optimizer=leat.Adam(0.01)).fit(X, y)
    assert classifier.score(X, y) > 0.9
    with pytest.raises(ValueError, match="the model tells 2 classes apart; the labels have 3"):
        leat.Classifier(model).fit(X, np.arange(400) % 3)


def test_a_model_has_as_many_classes_as_the_labels(rows):
    X, y = rows
    model = [layers.Dense(3)]
    for call in (lambda c: c.fit(X, y), lambda c: c.partial_fit(X, y, classes=[0, 1])):
        with pytest.raises(ValueError, match="^the model tells 3 classes apart; the labels have 2; partial_fit takes `classes` that no "
                           "label has yet$"):
            call(leat.Classifier(model))
    assert leat.Classifier(model).partial_fit(X, y, classes=range(3)).predict_proba(X).shape == (400, 3)
    for outputs, loss in ((2, None), (1, "sigmoid_cross_entropy")):  # even if all labels are one class
        assert leat.Classifier([layers.Dense(outputs)], loss=loss, epochs=1).fit(X, 0 * y).predict_proba(X).shape == (400, 1)


@pytest.mark.parametrize("kind", [leat.Classifier, leat.Regressor])
def test_ids_are_whole_numbers(kind):
    X = np.arange(9).reshape(-1, 1)
    y = X[:, 0] % 2
    estimator = kind([layers.Embedding(size=9, units=2), layers.Flatten(), layers.Dense(1 + (kind is leat.Classifier))], epochs=2)
    expected = estimator.fit(X, y).predict(X)
    np.testing.assert_array_equal(estimator.predict(X.astype(float)), expected)
    for wrong in (1.5, 8.7, 8.999999, -0.4, 1e-20):
        Z = np.where(X == 4, wrong, X)
        said = f"^row 4, column 0: id {wrong} is not in the model's table of 9 rows; must be a whole number from 0 to 8$"
        for call in (estimator.predict, lambda Z: estimator.partial_fit(Z, y), lambda Z: estimator.fit(Z, y)):
            with pytest.raises(ValueError, match=said):
                call(Z)


def test_settings_that_numpy_has_made(rows):
    X, y = rows
    made, plain = (leat.Classifier([layers.Dense(2, init={"constant": one})], optimizer=leat.SGD(rate), epochs=1, random_state=1).fit(X, y)
                   for one, rate in ((np.float64(1), np.logspace(-4, -2, 3)[1]), (1.0, 0.001)))
    np.testing.assert_array_equal(made.predict_proba(X), plain.predict_proba(X))


def test_in_a_pipeline(rows):
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = rows
    pipeline = make_pipeline(StandardScaler(), leat.Classifier(hidden=(32,), random_state=1))
    assert cross_val_score(pipeline, X * 100 + 7, y, cv=3).mean() > 0.8


@pytest.mark.parametrize("estimator", [leat.Classifier(epochs=60, random_state=0, optimizer=leat.Adam(0.01)),
                                       leat.Regressor(epochs=60, random_state=0, optimizer=leat.Adam(0.01))],
                         ids=["classifier", "regressor"])
def test_scikit_learns_own_checks(estimator):
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(estimator)


class Tensor:
    """An array of another library, which has nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries(rows):
    X, y = rows
    expected, other = (leat.Classifier(hidden=(8,), random_state=4) for _ in range(2))
    for _ in range(3):
        expected.partial_fit(X, y, classes=[0, 1])
        other.partial_fit(Tensor(X), Tensor(y), classes=[0, 1])
    np.testing.assert_array_equal(expected.predict_proba(X), other.predict_proba(Tensor(X)))


def test_without_scikit_learn(rows):
    """The same results from numpy alone."""
    X, y = rows
    expected = leat.Classifier(hidden=(8,), random_state=3, epochs=5).fit(X, y).predict_proba(X)
    text = """
import sys
sys.modules["sklearn"] = None
import numpy as np
import leat
random = np.random.RandomState(7)
X = random.normal(size=(400, 6)).astype(np.float32)
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64)
classifier = leat.Classifier(hidden=(8,), random_state=3, epochs=5).fit(X, y)
assert repr(classifier) == "Classifier(epochs=5, hidden=(8,), random_state=3)", repr(classifier)
for bad in (X[0], X[:, :3], np.full_like(X, np.nan), X[:0]):
    try:
        classifier.predict(bad)
    except ValueError:
        continue
    sys.exit("bad rows were taken")
sys.stdout.buffer.write(classifier.predict_proba(X).tobytes())
"""
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, timeout=120)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float64).reshape(400, 2), expected)
