"""Numbers in the comparison with a framework and in the writer of settings, without a framework."""

# folders: python

import random

import numpy as np
import pytest

import leat
from leat import _compare, _yaml


def test_settings_are_written_as_pythons_own():
    plain = [1.0, 2.5, -3, True, "1.0", "b c"]
    made = [np.float64(1), np.float32(2.5), np.int64(-3), np.bool_(True), np.str_("1.0"), np.str_("b c")]
    assert _yaml.scalar(made) == _yaml.scalar(plain) == '[1.0, 2.5, -3, true, "1.0", "b c"]'
    for kind in ("f4", "f8", "i2", "u1", "?", "U3", "O"):
        values = np.array([0, 1, 1], kind)
        assert _yaml.scalar(values) == _yaml.scalar(list(values)) == _yaml.scalar(values.tolist()), kind
    assert _yaml.dump({"a": {"b": np.array([[1, 2], [3, 4]]), "c": np.float64(0.1)}}) == "a: {b: [[1, 2], [3, 4]], c: 0.1}\n"
    for value in (np.float64("inf"), np.float32("nan")):
        with pytest.raises(ValueError, match="must be finite"):
            _yaml.scalar(value)
    with pytest.raises(TypeError, match="of the type datetime"):
        _yaml.scalar(np.datetime64("2026-01-01T00:00"))


def test_values_of_a_numpy_array_are_those_of_a_schema():
    values = sorted(np.unique([2.0, 1.0, 4.0]))
    schemas = [leat.Schema({"k": {"type": "category", "values": made}, "x": {"type": "number", "mean": mean}}, format="csv").to_yaml()
               for made, mean in ((values, np.mean(values)), (np.array(values), np.mean(values)), ([1.0, 2.0, 4.0], float(np.mean(values))))]
    assert schemas[0] == schemas[2] and all("values: [1.0, 2.0, 4.0]" in text and "np." not in text for text in schemas)


def test_what_stays_infinite_has_not_moved():
    mask = np.triu(np.full((3, 3), -np.inf), 1)
    assert _compare.moved(mask, mask) == 0 and not _compare.moves_differ(mask, mask, mask, 0.0)
    other = np.where(mask == 0, 0.5, mask)
    assert _compare.moved(other, mask) == 0.5
    assert _compare.moves_differ(mask, other, mask, 0.0)  # an infinite element hides no other
    assert _compare.moves_differ(mask, -mask, mask, 0.0) and _compare.differs(np.zeros(2), np.array([0, np.nan]))
    assert _compare.rate_of([(mask, np.ones((3, 3)))]) == _compare.rate_of([(np.zeros((3, 3)), np.ones((3, 3)))])


@pytest.mark.parametrize("draw", [
    lambda: random.random() < 1e-9, lambda: random.random() > 1 - 1e-9, lambda: np.random.rand() < 1e-9,
    lambda: np.random.uniform() > 1 - 1e-9, lambda: [random.random() for _ in range(90)][-1] < 1e-9, lambda: random.gauss(0, 1),
    lambda: random.normalvariate(0, 1), lambda: np.random.normal(), lambda: random.randint(0, 2), lambda: np.random.choice(3),
    lambda: random.sample(range(9), 2)])
def test_what_is_drawn_shows_however_unlikely_it_is(draw):
    states = random.getstate(), np.random.get_state()[1].tolist()
    assert _compare.random_call(lambda _: [np.ones(1), np.asarray(draw(), float)]) is not None
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states


def test_what_is_drawn_without_effect():
    assert _compare.random_call(lambda _: [np.array([random.random() < 0.0, np.random.rand() >= 1.0], float)]) is None


def test_ids_keep_their_scale():
    rows = np.arange(1, 13, dtype=np.float32).reshape(2, 2, 3)
    assert [factor for factor, *_ in _compare.scales(rows, [])] == list(_compare.FACTORS)
    for factor, made, shaken in _compare.scales(rows, [0, 7, 0]):
        assert (made[..., 1] == rows[..., 1]).all() and (shaken[..., 1] == rows[..., 1]).all()
        np.testing.assert_allclose(made[..., ::2], factor * rows[..., ::2])
        assert 0 < np.abs(shaken / made - 1).max() < 3e-6
    assert list(_compare.scales(rows, [7, 7, 7])) == []
