#!/usr/bin/env python3
"""Generates drift.json: the alarms of River's ADWIN and PageHinkley on series with and without drift.

    LEAT_DATA=DIR python3 tests/goldens/drift.py > tests/goldens/drift.json     # needs river from PyPI, and DIR/elec2

A series is given by its name; both sides compute its values from fill() of networks.py, except for `elec2`: the
errors of River's logistic regression in stream order, stored as one hexadecimal digit for every four events. An
alarm is the index of the value that raised it, and the number of values that the detector has kept.
"""

import csv
import gzip
import json
import os

from river import drift, linear_model, preprocessing


def fill(salt, i):
    """As in networks.py, one value in [-1, 1)."""
    h = (i * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    h ^= h >> 15
    h = h * 2246822519 & 0xFFFFFFFF
    h ^= h >> 13
    return (h >> 8) / 8388608.0 - 1.0


def uniform(salt, i):
    return (fill(salt, i) + 1) / 2


LENGTH = 6000


def none(i):
    return uniform(1, i)


def abrupt(i):
    """Ones with a probability of 0.2, then 0.5, then 0.1."""
    return float(uniform(2, i) < (0.2, 0.5, 0.1)[i // 2000])


def gradual(i):
    """Ones with a probability that rises from 0.1 to 0.6 between events 2000 and 4000."""
    return float(uniform(3, i) < 0.1 + 0.5 * min(max(i - 2000, 0), 2000) / 2000)


def steps(i):
    """A loss that is not bounded by 1 and falls three times."""
    return 8.0 - 2.0 * (i // 1500) + 3.0 * fill(4, i)


def elec2_errors():
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    errors = []
    with gzip.open(os.path.join(os.environ["LEAT_DATA"], "elec2", "electricity.csv.gz"), "rt") as file:
        for row in csv.DictReader(file):
            label = row.pop("class") == "UP"
            features = {name: float(value) for name, value in row.items()}
            errors.append(int(model.predict_one(features) != label))
            model.learn_one(features, label)
    return errors


DETECTORS = [
    ("adwin", drift.ADWIN, [{}, {"delta": 0.2, "clock": 1}, {"max_buckets": 2, "clock": 7},
                            {"delta": 0.00001, "min_window_length": 40, "grace_period": 300}]),
    ("page_hinkley", drift.PageHinkley, [{}, {"threshold": 5}, {"threshold": 5, "mode": "up"},
                                         {"threshold": 5, "mode": "down"},
                                         {"threshold": 10, "alpha": 0.99, "delta": 0.05, "min_instances": 200}]),
]


def alarms(detector, values):
    found = []
    for i, value in enumerate(values):
        detector.update(value)
        if detector.drift_detected:
            kept = detector.width if isinstance(detector, drift.ADWIN) else detector._x_mean.n
            found.append([i, int(kept)])
    return found


def main():
    errors = elec2_errors()
    packed = "".join(f"{int(''.join(map(str, errors[i:i + 4])).ljust(4, '0'), 2):x}" for i in range(0, len(errors), 4))
    series = {f.__name__: [f(i) for i in range(LENGTH)] for f in (none, abrupt, gradual, steps)} | {"elec2": errors}
    cases = [{"detector": name, **settings, "series": of, "alarms": alarms(make(**settings), values)}
             for name, make, all_settings in DETECTORS for settings in all_settings for of, values in series.items()]
    print('{"elec2": "' + packed + '",')
    print('"elec2_events": ' + str(len(errors)) + ",")
    print('"length": ' + str(LENGTH) + ",")
    print('"cases": [')
    print(",\n".join(json.dumps(case) for case in cases))
    print("]}")


if __name__ == "__main__":
    main()
