"""Disks that fill up, and logs to look after."""

# folders: storage/checkpoint run/launcher

import contextlib
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import types

import pytest

import leat

EVENTS = 30_000
KEEP = 2


@contextlib.contextmanager
def mounted_disk(disk, limit):
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "tmpfs", str(disk)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root: " + mounted.stderr.strip())
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture(name="disk")
def small_disk(tmp_path):
    """A disk of 64 MB."""
    with mounted_disk(tmp_path / "disk", "size=64m") as disk:
        yield disk


def fill(disk):
    """Takes all space that is left, and returns the file that has it."""
    ballast = disk / "ballast"
    with open(ballast, "ab", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(b"x" * 4096)
    return ballast


@pytest.fixture(name="few_files")
def disk_of_few_files(tmp_path):
    """A disk that takes no more files until free() is called."""
    with mounted_disk(tmp_path / "few", "nr_inodes=8") as disk:
        ballast = []
        with contextlib.suppress(OSError):
            for number in range(100):
                (disk / f"ballast-{number}").touch()
                ballast.append(disk / f"ballast-{number}")
        assert 0 < len(ballast) < 100
        yield types.SimpleNamespace(path=disk, free=lambda: [file.unlink() for file in ballast])


def counting_job(path, **changes):
    return leat.write_job(path, (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "events: 1000000": f"events: {EVENTS}, rate: 8000", **changes})


def check_complete(job, directory):
    assert job.wait() == 0, job.text()[-3000:]
    assert job.summary()["events"] == EVENTS
    values = {x for v in leat.tensors(directory).values() for x in v}
    assert values == {float(EVENTS)}, "an event is lost or counts twice"
    assert len(list(directory.glob("checkpoint-*"))) == KEEP


def test_a_full_disk_that_is_freed_loses_nothing(tmp_path, disk):
    directory = disk / "job"
    # Many small splits, so that the journal grows too.
    job_file = counting_job(tmp_path / "job.yaml", **{
        "batch_size: 100, split_batches: 20": "batch_size: 20, split_batches: 1", "interval_s: 5": f"interval_s: 1, keep: {KEEP}"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", EVENTS // 4, directory=tmp_path / "out") as job:
        job.directory = directory
        leat.wait_for(lambda: job.status().get("phase") == "paused" and job.status()["checkpoint"], "the pause")
        # Log, journal and checkpoints find no space. The log leaves the last 5 % to the others.
        leat.wait_for(lambda: job.status()["lag"] > 2000, "a backlog")
        ballast = fill(disk)
        leat.wait_for(lambda: "MiB" in job.status().get("checkpoint_failure", ""), "a failed checkpoint")
        job.go_on()
        leat.wait_for(lambda: job.status().get("waiting_for", "").startswith("the journal: "), "a full journal")
        assert job.status()["evictions"] == 0, "the members are alive"
        events = job.status()["events"]
        assert events < EVENTS
        assert "waiting for the journal" in leat.run("status", "--coordinator", job.where[0], env={"LEAT_TOKEN": job.where[1]}).stdout
        ballast.unlink()
        leat.wait_for(lambda: job.status()["events"] > events or job.process.poll() is not None, "progress")
        check_complete(job, directory)


def test_a_coordinator_that_finds_no_space_is_started_again_however_often(tmp_path, disk):
    directory = disk / "job"
    with leat.Job("train", counting_job(tmp_path / "job.yaml"), "--directory", directory, "--pause-at", EVENTS // 2, "--events", EVENTS,
                  directory=tmp_path / "out") as job:
        job.directory = directory
        leat.wait_for(lambda: job.status().get("phase") == "paused" and job.status().get("published") == EVENTS, "the pause")
        ballast = fill(disk)
        os.kill(job.pids("coordinator")[0], signal.SIGKILL)
        # Five crashes in a row would end the job.
        again = "the coordinator ended (status 75"
        leat.wait_for(lambda: job.text().count(again) >= 6 or job.process.poll() is not None, "six starts")
        assert job.process.poll() is None, job.text()
        ballast.unlink()
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        job.go_on()
        assert job.wait() == 0, job.text()[-3000:]
        assert job.summary()["events"] == EVENTS


def test_a_resume_waits_for_a_port_that_is_in_use(tmp_path):
    directory = tmp_path / "job"
    leat.run("train", counting_job(tmp_path / "job.yaml"), "--events", 2000, "--directory", directory)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with leat.Job("train", "--resume", directory, "--listen", address, directory=tmp_path / "out") as job:
            job.directory = directory
            leat.wait_for(lambda: job.text().count("in use; starting the coordinator again") >= 2 or job.process.poll() is not None,
                          "two starts")
            assert job.process.poll() is None, job.text()
            taken.close()
            assert job.wait() == 0, job.text()[-3000:]
            assert job.summary()["events"] == 2000


@pytest.mark.parametrize("workers", ["1", "2:3"])
def test_a_member_that_cannot_be_started_for_now_is_started_later(tmp_path, few_files, workers):
    directory = tmp_path / "job"
    (directory / "logs").mkdir(parents=True)
    (directory / "logs" / "worker-1.log").symlink_to(few_files.path / "log")
    # A range is followed at each status, which must not shorten the pauses.
    job_file = counting_job(tmp_path / "job.yaml", **{"workers: 3, ps: 2": f"workers: {workers}, ps: 1"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", EVENTS // 2, directory=tmp_path / "out") as job:
        job.directory = directory
        if workers == "1":
            leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
            address, token = job.where
            scaled = leat.run("scale", "--workers", "2", "--coordinator", address, env={"LEAT_TOKEN": token})
            assert scaled.returncode == 0, scaled.stderr
        leat.wait_for(lambda: job.text().count("worker-1.log: No space left on device; trying again") >= 3 or
                      job.process.poll() is not None, "three attempts")
        assert job.process.poll() is None, job.text()
        assert job.text().count("starting worker-1") <= 1, job.text()
        few_files.free()
        leat.wait_for(lambda: (few_files.path / "log").exists(), "another attempt")
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        leat.wait_for(lambda: len([m for m in job.status()["members"] if m["role"] == "worker"]) == 2, "both workers")
        job.go_on()
        assert job.wait() == 0, job.text()[-3000:]
        assert job.summary()["events"] == EVENTS


def test_a_summary_that_finds_no_space_is_written_at_a_resume(tmp_path, few_files):
    directory = tmp_path / "job"
    directory.mkdir()
    (directory / "summary.json.tmp").symlink_to(few_files.path / "summary")
    done = leat.run("train", counting_job(tmp_path / "job.yaml"), "--directory", directory)
    assert done.returncode == 75 and "summary.json; leat train --resume" in done.stderr, (done.returncode, done.stderr)
    few_files.free()
    assert leat.summary(leat.run("train", "--resume", directory, "--json"))["events"] == EVENTS


def test_a_directory_that_finds_no_space_is_no_mistake(tmp_path, few_files):
    done = leat.run("train", counting_job(tmp_path / "job.yaml"), "--directory", few_files.path / "job")
    leat.refused(done, "cannot write to the directory", "No space left on device", status=75)


@pytest.mark.parametrize("command", [["soak", "--on-this-host"], ["soak", "--directory", "{disk}/soak"], ["demo", "--kafka", "127.0.0.1:1"],
                                     ["study", "{folder}/study.yaml", "--simulated", "--out", "{disk}/study"]])
def test_commands_that_find_no_space_say_so(tmp_path, few_files, command):
    counting_job(tmp_path / "job.yaml")
    (tmp_path / "study.yaml").write_text("job: job.yaml\ngrid: {workers: [1], ps: [1]}\nsteps: 10\ncompute: lognormal:5ms,0.2\n")
    command = [word.format(disk=few_files.path, folder=tmp_path) for word in command]
    done = leat.run(*command, cwd=tmp_path, env={"TMPDIR": str(few_files.path)})
    assert done.returncode == 75 and "No space left on device" in done.stderr, (done.returncode, done.stderr)


def trained(job):
    status = job.status()
    return status.get("phase") == "stopping" and status["events"] == EVENTS and status.get("waiting_for", "")


@pytest.mark.parametrize("way_out", ["free", "discard"])
def test_a_trained_job_waits_for_space_for_its_last_checkpoint(tmp_path, disk, way_out):
    directory = disk / "job"
    job_file = counting_job(tmp_path / "job.yaml", **{
        "interval_s: 5": "interval_s: 1000", "topic: events": f"topic: events\n  log: {tmp_path / 'log'}",
        "units: 16384": "units: 400000"})
    with leat.Job("train", job_file, "--directory", directory, directory=tmp_path / "out") as job:
        job.directory = directory
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        with open(disk / "ballast", "wb") as out:
            out.truncate(0)
            out.write(b"x" * (62 << 20))  # room for the journal, but not for 1.6 MB of parameters
        waiting = leat.wait_for(lambda: trained(job), "the end of training")
        assert waiting.startswith("the final checkpoint, which failed: ") and "MiB free" in waiting, waiting
        leat.wait_for(lambda: job.status()["failed_checkpoints"] >= 2, "another attempt")
        assert len(list(directory.glob("checkpoint-*"))) == 0, "what failed is removed"
        if way_out == "free":
            (disk / "ballast").unlink()
            assert job.wait() == 0, job.text()[-3000:]
            values = {x for v in leat.tensors(directory).values() for x in v}
            assert values == {float(EVENTS)}
        else:
            done = leat.run("stop", "--discard", "--coordinator", job.where[0], env={"LEAT_TOKEN": job.where[1]})
            assert done.returncode == 0, done.stderr
            job.wait()
            assert not list(directory.glob("checkpoint-*"))
            (disk / "ballast").unlink()
            done = leat.run("train", "--resume", directory, "--json")
            assert leat.summary(done)["events"] == EVENTS, "nothing of the stream is gone"


def test_a_log_is_listed_and_stale_pins_are_released(tmp_path):
    directory = tmp_path / "job"
    job_file = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "events: 1000000": "events: 20000", "topic: events": f"topic: events\n  log: {tmp_path / 'log'}"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 5000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    done = leat.run("log", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    topic, pin = done.stdout.splitlines()
    assert topic.startswith("events  4 partitions  "), topic
    assert pin.startswith(f"  pin of counter@{directory}: ") and pin.endswith(" records"), pin
    assert leat.run("log", tmp_path / "log", "--release-pins").stdout.splitlines()[1] == pin, "the job exists"

    directory.rename(tmp_path / "gone")
    assert leat.run("log", tmp_path / "log").stdout.splitlines()[1] == pin + "  (the job no longer exists)"
    assert "released" in leat.run("log", tmp_path / "log", "--release-pins").stdout
    assert len(leat.run("log", tmp_path / "log").stdout.splitlines()) == 1
    leat.refused(leat.run("log", tmp_path / "none"), "none")


def test_others_cannot_read_logs_and_checkpoints(tmp_path):
    directory = tmp_path / "job"
    job_file = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{"events: 1000000": "events: 20000"})
    assert leat.run("train", job_file, "--directory", directory).returncode == 0
    shared = [path for path in [directory, *directory.rglob("*")]
              if stat.S_IMODE(path.stat().st_mode) & 0o077 and path.name != "summary.json"]
    assert not shared
    assert any(path.name.endswith(".safetensors") for path in directory.rglob("*"))


def test_a_damaged_chunk_becomes_dead_letters_if_the_job_allows_it(tmp_path):
    job = (leat.EXAMPLES / "counter.yaml").read_text()
    changes = {"events: 1000000": "events: 20000", "topic: events": f"topic: events\n  log: {tmp_path / 'log'}"}
    assert leat.run("train", leat.write_job(tmp_path / "first.yaml", job, **changes), "--directory", tmp_path / "first").returncode == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "log/events/0001.log")) as log:
        base, count, records = log.execute("SELECT base, count, records FROM chunks ORDER BY base LIMIT 1 OFFSET 3").fetchone()
        log.execute("UPDATE chunks SET records = ? WHERE base = ?", (records[:-1] + b"\0", base))
        log.commit()
    changes = {"bots: {events: 1000000, customers: 1000}": "live: true", "topic: events": changes["topic: events"]}
    strict = leat.run("train", leat.write_job(tmp_path / "strict.yaml", job, **changes), "--directory", tmp_path / "strict")
    assert strict.returncode != 0 and f"chunk at offset {base}" in strict.stderr, strict.stderr
    tolerant = leat.write_job(tmp_path / "tolerant.yaml", job, **{
        "bots: {events: 1000000, customers: 1000}": "live: true\n  errors_tolerance: all", "topic: events": changes["topic: events"]})
    result = leat.summary(leat.run("train", tolerant, "--directory", tmp_path / "tolerant", "--json"))
    assert result["dead_letters"] == count
    values = {x for v in leat.tensors(tmp_path / "tolerant").values() for x in v}
    assert values == {20_000.0 - count}
    letters = "".join(path.read_text() for path in (tmp_path / "tolerant").rglob("*.jsonl"))
    assert "wrong checksum" in letters and f'"offset":{base},' in letters


def test_a_log_that_lost_used_offsets_is_refused(tmp_path):
    directory = tmp_path / "job"
    job_file = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "bots: {events: 1000000, customers: 1000}": "bots: {events: 20000, customers: 1000}"})
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", 8000, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        job.interrupt()
        assert job.wait() == 0, job.text()[-2000:]
    with contextlib.closing(sqlite3.connect(directory / "log/events/0002.log")) as log:
        ((lost,),) = log.execute("SELECT max(base) FROM chunks WHERE base < 1000").fetchall()
        log.execute("DELETE FROM chunks WHERE base >= ?", (lost,))
        log.execute('UPDATE state SET "end" = ?, sealed = 0', (lost,))
        log.commit()
    line = leat.refused(leat.run("train", "--resume", directory), f"partition 2 ends at offset {lost}", "records are lost")
    assert "fail_on_data_loss: false" in line


@pytest.mark.parametrize("free", [0, 16, 24, 32, 40, 48, 100])
def test_a_stream_on_a_full_disk_says_so(tmp_path, disk, free):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"amount": 1}\n' * 100_000)
    ballast = fill(disk)
    os.truncate(ballast, ballast.stat().st_size - free * 1024)
    done = leat.run("publish", rows, "--log", disk / "log", "--topic", "t", "--partitions", 1)
    line = leat.refused(done, "log/t: ", status=75)
    assert "No space left on device" in line or "disk is full" in line
