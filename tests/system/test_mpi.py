"""MPI workers: bitwise the same training as without MPI, and a prompt end on a loss, from which the job resumes."""

# folders: train/collective

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

import leat
from test_strategies import EVENTS, RING, ROWS, classifying, counting, digest, folder, undisturbed, values  # noqa: F401

MPIRUN = shutil.which("mpirun")
MODULE = pathlib.Path(leat.PROGRAM).parent / "leat_mpi.so"
pytestmark = pytest.mark.skipif(not MPIRUN or not MODULE.exists(), reason="no MPI here")

BY_MPI = RING.replace("}", ", transport: mpi}")
LONG = 20  # epochs
HALF = ["--pause-at", LONG * ROWS // 2]  # keeps the job from ending before the test acts


class Job:
    """A coordinator and other processes of a test. All are killed at the end."""

    def __init__(self, folder, *arguments):
        self.folder = pathlib.Path(folder)
        self.mpi_folder = tempfile.TemporaryDirectory(prefix="leat-mpi-", ignore_cleanup_errors=True)
        self.environment = {**os.environ, "LEAT_TOKEN": "known to all", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            # Not in a folder that another mpirun removes at its end; its path must be short.
                            "OMPI_MCA_orte_tmpdir_base": self.mpi_folder.name}
        self.processes = []
        self.coordinator = self.start("coordinator", leat.PROGRAM, "coordinator", *arguments)
        self.address = leat.wait_for(
            lambda: re.search(r" serves on (\S+)\s", self.said("coordinator")) or self.coordinator.poll() is not None,
            "the coordinator's address")[1]

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes.append(subprocess.Popen([str(w) for w in words], env=self.environment, stdout=log, stderr=log,
                                                   stdin=subprocess.DEVNULL, start_new_session=True))
        return self.processes[-1]

    def said(self, name):
        return (self.folder / f"{name}.log").read_text()

    def mpirun(self, workers):
        return self.start("mpirun", MPIRUN, "--oversubscribe", "--bind-to", "none", "-np", workers, leat.PROGRAM, "worker",
                          "--coordinator", self.address)

    def status(self):
        done = leat.run("status", "--coordinator", self.address, "--json", env=self.environment)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def pid(self, worker):
        return next(m["pid"] for m in self.status()["members"] if m["role"] == "worker" and m["index"] == worker)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.mpi_folder.cleanup()


def train(tmp_path, workers, *arguments):
    """Runs a job to its end, undisturbed."""
    with Job(tmp_path, *arguments, "--workers", workers) as job:
        workers = job.mpirun(workers)
        assert job.coordinator.wait(300) == 0, job.said("coordinator")
        assert workers.wait(120) == 0, job.said("mpirun")


@pytest.mark.parametrize("workers", [2, 3])
def test_every_event_counts_once(tmp_path, workers):
    directory = tmp_path / "job"
    job_file = counting(tmp_path, "{type: allreduce, transport: mpi}")
    with Job(tmp_path, job_file, "--directory", directory, "--workers", workers) as job:
        processes = [job.mpirun(workers), job.start("bots", leat.PROGRAM, "bots", "--coordinator", job.address)]
        assert job.coordinator.wait(300) == 0, job.said("coordinator")
        assert [p.wait(120) for p in processes] == [0, 0], job.said("mpirun")
    assert json.loads((directory / "summary.json").read_text())["events"] == EVENTS
    assert values(directory) == {float(EVENTS)}


@pytest.mark.parametrize("workers", [2, 4])
def test_the_same_bits_as_without_mpi(tmp_path, folder, undisturbed, workers):  # noqa: F811
    train(tmp_path, workers, classifying(folder, BY_MPI), "--data", folder, "--directory", tmp_path / "job")
    assert digest(tmp_path / "job") == undisturbed(1)


# After SIGSTOP the other worker ends once it has missed the coordinator for a minute.
@pytest.mark.parametrize("what", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_a_loss_ends_the_job_and_a_resumption_changes_no_bit(tmp_path, folder, undisturbed, what):  # noqa: F811
    directory = tmp_path / "job"
    job_file = classifying(folder, BY_MPI, LONG)
    with Job(tmp_path, job_file, "--data", folder, "--directory", directory, "--workers", 2, *HALF) as job:
        workers = job.mpirun(2)
        leat.wait_for(lambda: job.status().get("checkpoint"), "a checkpoint")
        pids = [job.pid(0), job.pid(1)]
        os.kill(pids[1], what)
        assert job.coordinator.wait(120) == 75, job.said("coordinator")
        last = job.said("coordinator").strip().splitlines()[-1]
        assert re.match(r"leat: worker 1 \(rank 1 of 2, 127\.0\.0\.1:\d+\) was lost, and MPI cannot continue "
                        rf"without one of its processes; --resume continues from {directory}/checkpoint-\d+$", last), last
        assert workers.wait(120) != 0
        leat.wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), "the end of all workers")
    assert json.loads((directory / "summary.json").read_text())["events"] < LONG * ROWS, "it was over before the loss"
    train(tmp_path, 2, "--resume", directory, "--data", folder)
    assert json.loads((directory / "summary.json").read_text())["events"] == LONG * ROWS
    assert digest(directory) == undisturbed(LONG)


def test_a_stop_with_a_checkpoint_and_a_resumption_without_mpi(tmp_path, folder, undisturbed):  # noqa: F811
    directory = tmp_path / "job"
    with Job(tmp_path, classifying(folder, BY_MPI, LONG), "--data", folder, "--directory", directory, "--workers", 2,
             *HALF) as job:
        workers = job.mpirun(2)
        leat.wait_for(lambda: job.status().get("events", 0) > ROWS, "the first events")
        assert leat.run("stop", "--coordinator", job.address, env=job.environment).returncode == 0
        assert job.coordinator.wait(120) == 0, job.said("coordinator")
        assert workers.wait(120) == 0, job.said("mpirun")
    assert json.loads((directory / "summary.json").read_text())["events"] < LONG * ROWS, "nothing was left to resume"
    leat.summary(leat.run("train", classifying(folder, RING, LONG), "--data", folder, "--resume", directory, "--json"))
    assert digest(directory) == undisturbed(LONG)


def test_a_signal_to_one_worker_ends_all(tmp_path, folder):  # noqa: F811
    with Job(tmp_path, classifying(folder, BY_MPI, LONG), "--data", folder, "--directory", tmp_path / "job",
             "--workers", 2, *HALF) as job:
        workers = job.mpirun(2)
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        os.kill(job.pid(0), signal.SIGTERM)
        assert workers.wait(120) != 0
        assert "rank 0: asked to leave; ending the job" in job.said("mpirun")
        assert job.coordinator.wait(120) == 75, job.said("coordinator")
        assert "worker 0 (rank 0 of 2" in job.said("coordinator").strip().splitlines()[-1]


def test_what_the_user_got_wrong_is_said_and_is_status_2(tmp_path, folder):  # noqa: F811
    good = (folder / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(good)
    with Job(tmp_path, classifying(folder, BY_MPI), "--data", tmp_path, "--directory", tmp_path / "job",
             "--workers", 2) as job:
        # The file changes after the coordinator has checked it.
        rows = [row if i < 2000 else "none" + row for i, row in enumerate(good.splitlines())]
        (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
        assert job.mpirun(2).wait(120) == 2, job.said("mpirun")
        assert re.search(r"^rank \d: too many dead letters: .*'none\S*' is not a number; ending the job$",
                         job.said("mpirun"), re.MULTILINE), job.said("mpirun")


def test_workers_that_do_not_fit_are_told(tmp_path, folder):  # noqa: F811
    with Job(tmp_path, classifying(folder, BY_MPI), "--data", folder, "--directory", tmp_path / "job", "--workers", 2) as job:
        done = leat.run("worker", "--coordinator", job.address, env=job.environment)
        assert done.returncode == 2
        assert done.stderr.strip() == ("leat: the workers of this job reduce by MPI, and this one was not started by "
                                       "mpirun -np 2 leat worker …")
        assert job.mpirun(3).wait(120) == 2, job.said("mpirun")
        assert re.search(r"^leat: this worker is rank \d of 3 of MPI, the job has 2 workers: mpirun -np 2 leat worker …$",
                         job.said("mpirun"), re.MULTILINE), job.said("mpirun")
        # The job is not affected.
        workers = job.mpirun(2)
        assert job.coordinator.wait(300) == 0, job.said("coordinator")
        assert workers.wait(120) == 0, job.said("mpirun")
