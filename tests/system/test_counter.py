"""Every event counts once, despite killed processes. The model's parameters are the number of events applied."""

# folders: protocol run/roles

import contextlib
import random
import signal
import os

import leat

EVENTS = 1_000_000
KILLS = 20
PAUSE = EVENTS * 3 // 4  # early enough that the job is stopped before its end
RATE = 40_000


def train_with_kills(directory, program, kills, seed):
    """Kills workers at random moments, stops the job, and resumes it to its end."""
    rng = random.Random(seed)
    job_file = leat.EXAMPLES / "counter.yaml"
    # At a rate that leaves time for the kills before the pause: there, a worker that is killed again and again before it
    # trains ends the job.
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", PAUSE, "--rate", RATE, directory=directory,
                  program=program) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        killed = 0
        # Only a worker that dies with leases leaves runs that could count twice.
        while killed < kills or (now := job.status())["regranted_leases"] < kills // 2 and now["events"] < PAUSE:
            # Counted in events rather than by the clock, so that the kills spread over the stream.
            target = min(job.status().get("events", 0) + rng.randrange(EVENTS // (4 * kills)), PAUSE)
            leat.wait_for(lambda: job.status().get("events", 0) >= target or job.process.poll() is not None, "progress")
            assert job.process.poll() is None, "the job has ended:\n" + job.text()[-2000:]
            members = job.status().get("members", [])
            if workers := [m["pid"] for m in members if m["role"] == "worker" and m.get("steps", 0) > 0]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(workers), signal.SIGKILL)
                    killed += 1
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
        stopped = job.summary()
        assert job.text().count("starting a replacement") >= kills - 1
    assert stopped["events"] < EVENTS, "nothing was left to resume"
    done = leat.run("train", "--resume", directory, "--json", timeout=300, program=program)
    return stopped, leat.summary(done)


def test_every_event_counts_exactly_once(tmp_path):
    directory = tmp_path / "counter"
    stopped, resumed = train_with_kills(directory, None, KILLS, seed=1)
    assert resumed["events"] == EVENTS, resumed
    values = leat.tensors(directory)
    assert len(values) >= 8
    wrong = {name: set(v) - {float(EVENTS)} for name, v in values.items() if set(v) != {float(EVENTS)}}
    assert not wrong, wrong


def test_without_the_ledgers_check_it_counts_wrong(tmp_path):
    """The same run without the ledger's check must fail, which proves that this test can fail."""
    directory = tmp_path / "counter"
    train_with_kills(directory, leat.WITHOUT_LEDGER, KILLS, seed=1)
    values = {x for v in leat.tensors(directory).values() for x in v}
    assert values != {float(EVENTS)}
