"""leat simulate --faults: thousands of small jobs with random faults count every event once, and a seed replays."""

# folders: protocol lab/sim

import json
import os

import leat

SEEDS = 10_000 if os.environ.get("LEAT_LONG") == "1" else 500


def faults(*options, program=None):
    return leat.run("simulate", "--faults", "--json", *options, timeout=3000, program=program)


def test_every_seed_counts_every_event_once():
    done = faults("--seeds", SEEDS)
    assert done.returncode == 0, done.stderr[-3000:]
    result = leat.summary(done)
    assert (result["seeds"], result["lost"], result["twice"], result["failed"]) == (SEEDS, 0, 0, []), result
    # The faults to survive have happened often.
    for fault, count in result["faults"].items():
        assert count > SEEDS // 200, (fault, result["faults"])


def test_a_seed_replays():
    first, second = faults("--seeds", 1, "--seed", 7), faults("--seeds", 1, "--seed", 7)
    assert first.stderr.splitlines()[0].startswith("seed 7: "), first.stderr
    told = []
    for done in [first, second]:
        result = leat.summary(done)
        for key in ["wall_s", "seeds_per_s"]:
            del result[key]
        # The job, and each fault with its virtual time.
        told.append((result, [line for line in done.stderr.splitlines() if " s  " in line]))
    assert told[0] == told[1]
    assert len(told[0][1]) > 5, first.stderr
    other = leat.summary(faults("--seeds", 1, "--seed", 8))
    assert other["digest"] != told[0][0]["digest"]


def test_without_the_ledgers_check_seeds_fail_and_replay():
    """The same jobs without the ledger's check must fail, which proves that this test can fail."""
    done = faults("--seeds", 40, program=leat.WITHOUT_LEDGER)
    assert done.returncode == 1, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["failed"] and result["twice"] > 0, result
    found = result["failed"][0]
    command = f"leat simulate --faults --seeds 1 --seed {found['seed']}"
    assert found["replay"] == command and f"replay: {command}" in done.stderr, found
    again = faults("--seeds", 1, "--seed", found["seed"], program=leat.WITHOUT_LEDGER)
    assert again.returncode == 1
    assert json.loads(again.stdout)["failed"] == [found]


def test_bad_input(tmp_path):
    (tmp_path / "job.yaml").write_text("{}")
    leat.refused(leat.run("simulate"), "simulate needs a job file, or --faults")
    leat.refused(leat.run("simulate", "--faults", tmp_path / "job.yaml"), "job excludes --faults")
    leat.refused(leat.run("simulate", "--faults", "--workers", 3), "--workers excludes --faults")
    leat.refused(leat.run("simulate", tmp_path / "job.yaml", "--seeds", 3), "--seeds requires --faults")
    leat.refused(leat.run("simulate", "--faults", "--seeds", 0), "--seeds")
