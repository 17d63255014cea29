"""Models in the manner of River."""

# folders: train/learner python

import copy
import pickle

import numpy as np
import pytest

from leat import river as leat_river

river = pytest.importorskip("river")


def events(count, seed=1):
    random = np.random.RandomState(seed)
    for _ in range(count):
        x = {"a": random.normal(), "b": random.normal()}
        yield x, x["a"] - x["b"] > 0


def test_learns_one_event_at_a_time():
    model = leat_river.Classifier(max_features=8, hidden=(16,))
    assert model.predict_proba_one({"a": 1.0}) == {}
    for x, y in events(3000):
        model.learn_one(x, y)
    assert sum(model.predict_one(x) == y for x, y in events(500, 2)) > 460
    assert sum(model.predict_proba_one({"a": 3.0, "b": -3.0}).values()) == pytest.approx(1)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.predict_proba_one({"a": 0.3}) == model.predict_proba_one({"a": 0.3})


def test_names_take_free_inputs_and_further_ones_are_left_out():
    model = leat_river.Classifier(max_features=2, hidden=(4,))
    model.learn_one({"a": 1.0}, 0)
    model.learn_one({"b": 1.0, "c": 5.0}, 1)
    assert model.predict_proba_one({"a": 1.0, "c": 9.0}) == model.predict_proba_one({"a": 1.0})
    assert model.predict_proba_one({"b": 0.0}) == model.predict_proba_one({})


@pytest.mark.parametrize("value", [float("nan"), None, 1e300])
def test_what_no_number_is_predicts_nothing(value):
    """A hidden layer with relu would answer as for an ordinary event."""
    import pandas

    classifier, regressor = leat_river.Classifier(max_features=4), leat_river.Regressor(max_features=4)
    for model, label in [(classifier, True), (regressor, 1.0)]:
        model.learn_one({"a": 1.0, "b": 2.0}, label)
        with pytest.raises(ValueError, match="feature 'b' is (nan|inf)"):
            model.predict_one({"a": 1.0, "b": value})
        with pytest.raises(ValueError, match="feature 'b' is (nan|inf)"):
            model.predict_many(pandas.DataFrame({"a": [1.0, 1.0], "b": [1.0, value]}, dtype=object))


def test_an_event_that_is_refused_leaves_nothing():
    import pandas

    model = leat_river.Classifier(max_features=4, hidden=(4,), max_classes=3)
    for i in range(20):
        model.learn_one({"a": i % 2}, bool(i % 2))
    before = model.predict_proba_one({"a": 1.0})
    for x in ({"a": "x"}, {"a": np.datetime64(5, "ns"), "b": 1}):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(x, "typo")
    with pytest.raises(TypeError, match="'b' has times, not numbers"):
        model.learn_many(pandas.DataFrame({"a": [1], "b": pandas.to_datetime(["2024-01-01"])}), ["typo"])
    assert model.predict_proba_one({"a": 1.0}) == before
    model.learn_one({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, "third")
    assert set(model.predict_proba_one({"a": 1.0})) == {False, True, "third"}
    regressor = leat_river.Regressor(max_features=4, hidden=(4,))
    with pytest.raises(TypeError, match="a time, not a number"):
        regressor.learn_one({"a": 1.0}, np.timedelta64(5, "ns"))


def test_learns_many():
    import pandas

    rows = list(events(2000))
    X, y = pandas.DataFrame([x for x, _ in rows]), pandas.Series([y for _, y in rows])
    model = leat_river.Classifier(max_features=8, hidden=(16,), batch_size=64)
    for _ in range(5):
        model.learn_many(X, y)
    assert (model.predict_many(X) == y).mean() > 0.9


def test_regressor():
    model = leat_river.Regressor(max_features=4, hidden=(16,))
    for x, _ in events(3000):
        model.learn_one(x, 2 * x["a"] + x["b"])
    errors = [abs(model.predict_one(x) - 2 * x["a"] - x["b"]) for x, _ in events(300, 2)]
    assert np.mean(errors) < 0.25


@pytest.mark.parametrize("model", [leat_river.Classifier(hidden=(16,)), leat_river.Regressor(hidden=(16,))],
                         ids=["classifier", "regressor"])
def test_rivers_own_checks(model):
    from river import checks

    checks.check_estimator(model)
