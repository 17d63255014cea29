"""A batch whose gradient is NaN is reported and counted once in every strategy, and changes no parameter."""

# folders: train/step compute/engine

import math

import pytest

import leat
from test_strategies import STRATEGIES

ROWS = 6000
BATCH = 50
LANES = 3
POISON = 3000  # the first of two bad rows in one batch

# The update of each event adds 1, as in the counter: the gradient is minus twice the event's x (1), the rate is 1/2.
JOB = f"""name: poisoned
seed: 1
stream: {{files: {{format: csv, paths: [rows.csv], partitions: 3}}}}
schema: {{format: csv, fields: {{x: {{type: number}}, y: {{type: number, role: label}}}}}}
model:
  layers: [dense: {{units: 64, init: zeros, use_bias: false}}]
  loss: {{type: negative_sum, reduction: sum, weight: 2}}
optimizer: {{type: sgd, learning_rate: 0.5}}
strategy: STRATEGY
train: {{batch_size: {BATCH}, split_batches: 8, shuffle: false}}
cluster: {{workers: {LANES}, ps: 2, placement: partitioned}}
"""


def most_events(strategy):
    """The maximum number of events in an update, which is skipped as a whole."""
    if "downpour" in strategy:
        return 4 * BATCH
    if "averaging" in strategy:
        return 8 * BATCH * LANES
    return BATCH if strategy == "async" else BATCH * LANES


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_nan_is_reported_and_reaches_no_parameter(tmp_path, strategy):
    rows = ["1,0"] * ROWS
    # Twice each value overflows to an infinity; the infinities have opposite signs, so their sum is NaN.
    rows[POISON:POISON + 2] = ["3e38,0", "-3e38,0"]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "job.yaml").write_text(JOB.replace("STRATEGY", strategy))
    directory = tmp_path / "job"
    result = leat.summary(leat.run("train", tmp_path / "job.yaml", "--data", tmp_path, "--directory", directory, "--json"))
    assert result["dead_letters"] == 0 and result["lag"] == 0
    assert result["skipped"] == 1
    # With a backup worker the batch may be late for its step; it is then computed and rejected again.
    assert result["rejected_batches"] == 1 or ("backup" in strategy and result["rejected_batches"] > 1)
    found = {x for v in leat.tensors(directory).values() for x in v}
    assert len(found) == 1 and math.isfinite(*found), f"slices differ: {found}"
    applied = found.pop()
    assert result["events"] == applied, "each event that is applied counts once"
    skipped = ROWS - applied
    assert BATCH <= skipped <= most_events(strategy) and skipped % BATCH == 0
    said = "".join(log.read_text() for log in (directory / "logs").glob("worker-*.log"))
    assert "the gradient is not finite; nothing of" in said and "partition 1 offsets" in said, said
