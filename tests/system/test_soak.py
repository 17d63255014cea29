"""leat soak: jobs with real processes and random faults count every event once, and nothing is left of them."""

# folders: lab/soak

import json
import os
import pathlib
import signal
import subprocess

import pytest

import leat

LONG = os.environ.get("LEAT_LONG") == "1"
ROUNDS = 50 if LONG else 3


def soak(*options, program=None):
    return leat.run("soak", "--json", *options, timeout=7000, program=program)


def processes_of(folder):
    """The processes whose command lines name the folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(str(folder).encode() in argument for argument in arguments):
                found.append(int(entry.name))
    return found


def check_clean(done, folder):
    assert done.returncode == 0, done.stderr[-4000:]
    result = leat.summary(done)
    assert (result["rounds"], result["lost"], result["twice"], result["failed"]) == (ROUNDS, 0, 0, []), result
    assert len([line for line in done.stderr.splitlines() if "  ok  " in line]) == ROUNDS, done.stderr
    assert not folder.exists(), list(folder.iterdir())
    assert not processes_of(folder)


def test_rounds_on_emulated_hosts(tmp_path):
    folder = tmp_path / "soak"
    done = soak("--rounds", ROUNDS, "--seed", 101, "--directory", folder)
    if done.returncode == 2 and "cannot emulate hosts" in done.stderr:
        leat.refused(done, "--on-this-host")
        pytest.skip(done.stderr.strip())
    check_clean(done, folder)


def test_without_the_ledgers_check_a_round_fails(tmp_path):
    """Rounds without the ledger's check must fail, which proves that this test can fail."""
    # In these a worker dies when it has pushed a batch to one server of several, so that the batch is trained again.
    for seed in (434, 529):
        folder = tmp_path / str(seed)
        done = soak("--rounds", 1, "--seed", seed, "--on-this-host", "--directory", folder, program=leat.WITHOUT_LEDGER)
        if done.returncode == 0:
            continue
        result = json.loads(done.stdout)
        [failed] = result["failed"]
        if result["twice"] == 0:
            continue
        assert done.returncode == 1 and failed["seed"] == seed and "parameters are wrong" in failed["reason"], failed
        # Its logs are kept and named, and its choices can be made again.
        assert failed["logs"] == str(folder / f"round-{seed}") and f"logs: {failed['logs']}" in done.stderr
        assert f"leat soak --rounds 1 --seed {seed} --on-this-host" in done.stderr
        logs = pathlib.Path(failed["logs"])
        assert (logs / "logs" / "coordinator-0.log").stat().st_size > 0
        assert failed["plan"] in (logs / "plan.txt").read_text()
        return
    raise AssertionError("in no round was an event counted twice")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(tmp_path, signal_number):
    folder = tmp_path / "soak"
    with open(tmp_path / "out", "w") as out:
        process = subprocess.Popen([leat.PROGRAM, "soak", "--rounds", "9", "--seed", "1", "--on-this-host", "--directory", folder],
                                   stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            leat.wait_for(lambda: len(processes_of(folder)) > 5, "the processes of a round")
            process.send_signal(signal_number)
            assert process.wait(60) == 130
        finally:
            process.kill()
            process.wait()
    leat.wait_for(lambda: not processes_of(folder), "the end of all processes")
    assert "; interrupted" in (tmp_path / "out").read_text()


def test_bad_input(tmp_path):
    leat.refused(leat.run("soak", "--bad-option"), "--bad-option")
    leat.refused(leat.run("soak", "--rounds", 0), "--rounds")
    (tmp_path / "file").write_text("")
    leat.refused(leat.run("soak", "--directory", tmp_path / "file", "--on-this-host"), "cannot create the directory")
