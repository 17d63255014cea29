"""Jobs in a Slurm allocation: what the script refuses, whole jobs by stand-ins of Slurm's commands, and in a real Slurm."""

# folders: deploy/slurm train/collective

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import leat
from slurm import cluster_fixture
from test_strategies import counting, values

FOLDER = leat.ROOT / "deploy/slurm"
SCRIPT = FOLDER / "leat.sbatch"
MODULE = pathlib.Path(leat.PROGRAM).parent / "leat_mpi.so"
cluster = cluster_fixture(3)


def kill_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Allocation:
    """The environment of the script in an allocation, with Slurm's commands replaced by stand-ins."""

    def __init__(self, folder, nodes="n1,n2,n3", **more):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "home").mkdir()
        for command in ["srun", "scontrol", "squeue", "scancel"]:
            (folder / "bin" / command).symlink_to(leat.ROOT / "tests/system/slurm_commands")
        (folder / "bin/leat").symlink_to(leat.PROGRAM)
        # Slurm runs a copy of the script.
        self.script = pathlib.Path(shutil.copy(SCRIPT, folder / "slurm_script"))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "LEAT_"))}
        self.environment |= {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder / "home"), "SLURM_JOB_ID": "7",
                             "SLURM_JOB_NODELIST": nodes, "SLURM_STAND_IN": str(folder), "SLURM_STAND_IN_SCRIPT": str(SCRIPT), **more}

    def run(self, *arguments, **more):
        return subprocess.run([str(w) for w in ["bash", self.script, *arguments]], env={**self.environment, **more}, cwd=self.folder,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    @contextlib.contextmanager
    def start(self, *arguments, **more):
        with open(self.folder / "out", "a") as out:
            process = subprocess.Popen([str(w) for w in ["bash", self.script, *arguments]], env={**self.environment, **more},
                                       cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            yield process
        finally:
            kill_group(process)

    def commands(self):
        return (self.folder / "commands").read_text() if (self.folder / "commands").exists() else ""


def said(state):
    return "\n".join(f"{log.name}:\n{log.read_text()[-1500:]}" for log in sorted((state / "logs").glob("*.log")))


def test_the_scripts_have_no_mistakes_that_a_shell_finds():
    for script in FOLDER.iterdir():
        subprocess.run(["bash", "-n", script], check=True)
        assert os.access(script, os.X_OK)


@pytest.mark.long
def test_the_scripts_are_clean_for_shellcheck(cluster):
    done = subprocess.run(["shellcheck", "-s", "bash", *FOLDER.iterdir()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_is_refused_before_anything_starts(tmp_path):
    allocation = Allocation(tmp_path)
    job = counting(tmp_path, "async")
    good = [job, "--directory", tmp_path / "job", "--trusted-network"]
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o644)
    (tmp_path / "certificates").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old/job.yaml").write_text("")
    for arguments, environment, parts in [
            ([*good, "--ps", "3"], {}, ["no nodes are left for workers: 3 nodes, and --ps 3", "--nodes 4"]),
            ([*good, "--ps", "-1"], {}, ["--ps -1: a number from 0 to 999"]),
            ([*good, "--workers-per-node", "none"], {}, ["--workers-per-node none"]),
            ([*good, "--mpi", "pmi2"], {}, ["--mpi pmi2: pmix or mpirun"]),
            ([*good, "--directory"], {}, ["--directory needs a value"]),
            ([*good, "--diretory", "x"], {}, ["unknown option --diretory"]),
            ([job, *good], {}, ["one job file"]),
            (good[:1] + good[3:], {}, ["--directory DIR is missing"]),
            (["none.yaml", *good[1:]], {}, ["job file none.yaml: no such file"]),
            (good[1:], {}, ["no job file", "holds no job to resume"]),
            ([job, "--directory", tmp_path / "no/job", "--trusted-network"], {}, [f"there is no directory {tmp_path}/no"]),
            ([job, "--directory", tmp_path / "old", "--trusted-network"], {}, ["already holds a job"]),
            (good[:3], {}, ["3 nodes need --security DIR", "--trusted-network"]),
            ([*good, "--security", "certificates"], {}, ["contradict each other"]),
            ([*good[:3], "--security", "certificates"], {}, ["no readable", "certificates/ca.pem"]),
            ([*good[:3], "--security", "certificates", "--mpi", "pmix"], {}, ["MPI does not encrypt"]),
            (good[:3], {"SLURM_JOB_NODELIST": "n1"}, ["no nodes are left for workers: 1 nodes"]),
            ([*good[:3], "--ps", "0"], {"SLURM_JOB_NODELIST": "n1"}, ["there is no token", "--token-file FILE"]),
            (good, {"LEAT_TOKEN": "secret"}, ["LEAT_TOKEN is set", "--token-file"]),
            ([*good, "--token-file", "none"], {}, ["token file", "/none: no such file"]),
            ([*good, "--token-file", "token"], {}, ["token file", "other users can read", "chmod 600"]),
            ([*good, "--data", "none"], {}, ["--data none: no such directory"]),
            ([*good, "--leat", "none"], {}, ["no program leat", "--leat PROGRAM"]),
            (good, {"SLURM_STAND_IN_SCRIPT": "/tmp/elsewhere/leat.sbatch"}, ["no role.sh in /tmp/elsewhere"]),
            (good, {"SLURM_JOB_ID": ""}, ["this is no Slurm job; submit it"])]:
        line = leat.refused(allocation.run(*arguments, **environment), *parts)
        assert "secret" not in line
    assert "srun" not in allocation.commands()
    assert not list(tmp_path.glob("job*")) and not list(tmp_path.glob("*.slurm"))


def test_a_join_without_a_job_is_refused(tmp_path):
    for arguments, part in [([], "which job"), ([tmp_path / "job"], "no allocation runs the job"), ([tmp_path, "--workers", "0"], "--workers 0")]:
        done = subprocess.run([str(w) for w in [FOLDER / "join.sh", *arguments]], capture_output=True, text=True)
        leat.refused(done, part)


# By stand-ins for Slurm's commands: exact after a step that was killed, a lost coordinator, a worker more, and a requeue.
def test_a_job_by_stand_ins_survives_losses_and_a_requeue(tmp_path):
    allocation = Allocation(tmp_path)
    directory = tmp_path / "job"
    state = tmp_path / "job.slurm"
    job = counting(tmp_path, "async")
    events = 40_000
    arguments = ["--directory", directory, "--trusted-network", "--bots"]
    tail = ["--", "--rate", 0, "--pause-at", events // 2]

    def status():
        settings = dict(line.split(" ", 1) for line in (state / "settings").read_text().splitlines())
        if not settings["coordinator"].strip():
            return {}
        done = leat.run("status", "--coordinator", settings["coordinator"], "--trusted-network", "--json",
                        env={"LEAT_TOKEN": (state / "token").read_text()})
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def member(role, current=None):
        return next((m["pid"] for m in (current or status()).get("members", []) if m["role"] == role and "pid" in m), None)

    with allocation.start(job, *arguments, *tail) as script:
        leat.wait_for((state / "settings").exists, "the settings")
        leat.wait_for(lambda: status().get("phase") == "paused", "the pause")
        assert state.stat().st_mode & 0o777 == 0o700 and (state / "token").stat().st_mode & 0o777 == 0o600
        os.kill(member("worker"), signal.SIGKILL)
        leat.wait_for(lambda: re.search(r"workers-n\d ended with status 137; starting it again", (tmp_path / "out").read_text()),
                      "a new worker")
        with subprocess.Popen([FOLDER / "join.sh", directory], env=allocation.environment, stdout=open(tmp_path / "join", "w"),
                              stderr=subprocess.STDOUT, start_new_session=True) as joined:
            try:
                leat.wait_for(lambda: sum(m["role"] == "worker" and m.get("state") != "gone" for m in status().get("members", [])) >= 3,
                              "three workers")
                script.send_signal(signal.SIGUSR1)
                assert script.wait(60) == -signal.SIGKILL, "scontrol requeue ends the script"
                assert joined.wait(60) == 0, (tmp_path / "join").read_text()
            finally:
                kill_group(joined)
    assert "scontrol requeue 7" in allocation.commands()
    assert 0 < json.loads((directory / "summary.json").read_text())["events"] < events
    with allocation.start(job, *arguments, "--", "--rate", 0, SLURM_RESTART_COUNT="1") as script:
        assert script.wait(120) == 0, (tmp_path / "out").read_text() + said(state)
    assert json.loads((directory / "summary.json").read_text())["events"] == events
    assert values(directory) == {float(events)}
    secret = (state / "token").read_text().strip()
    assert len(secret) == 32 and secret not in allocation.commands() + (tmp_path / "out").read_text() + said(state)


# Ends each role with the next of the statuses in the file of its name; without any more, roles run until the job is over.
PLAYED = """#!/bin/bash
here=$(dirname "$(readlink -f "$0")")
role=$1
next=$(head -n 1 "$here/$role" 2> /dev/null)
sed -i 1d "$here/$role" 2> /dev/null
echo "$role $next" >> "$here/starts"
if [[ -n $next ]]; then
  echo "leat: the $role said so" >&2
  exit "$next"
fi
trap 'exit 0' TERM
if [[ $role == coordinator ]]; then
  trap '[[ -e $here/away ]] && exit 130; touch "$here/over"; exit 0' TERM
  while [[ -e $here/away ]]; do
    echo "a time warning waits for its brokers"
    /bin/sleep 0.05
  done
  mkdir -p "$here/job"
  touch "$here/job/job.yaml"
  echo "coordinator of job 'played' serves on 127.0.0.1:9 in term 1"
fi
while [[ ! -e $here/over ]]; do /bin/sleep 0.05; done
"""


def played(tmp_path, **ends):
    """An allocation whose program is PLAYED, and whose pauses are short."""
    allocation = Allocation(tmp_path)
    (tmp_path / "played").write_text(PLAYED)
    (tmp_path / "bin/sleep").write_text("#!/bin/bash\nexec /bin/sleep 0.05\n")
    for script in ["played", "bin/sleep"]:
        (tmp_path / script).chmod(0o755)
    for role, statuses in ends.items():
        (tmp_path / role).write_text("".join(f"{status}\n" for status in statuses))
    (tmp_path / "job.yaml").write_text("")
    return allocation, [tmp_path / "job.yaml", "--directory", tmp_path / "job", "--trusted-network", "--leat", tmp_path / "played"]


def test_what_may_heal_is_started_again_however_often(tmp_path):
    allocation, arguments = played(tmp_path, coordinator=[75] * 12, worker=[75] * 30, ps=[75] * 15)
    (tmp_path / "away").touch()
    logs = tmp_path / "job.slurm/logs"
    logs.mkdir(parents=True, mode=0o700)
    for role in ["coordinator", "ps-n1"]:  # logs of earlier starts
        with open(logs / f"{role}.log", "w") as log:
            log.truncate(17 << 20)
    with allocation.start(*arguments, SLURM_JOB_NODELIST="n1,n2") as script:
        out = tmp_path / "out"
        leat.wait_for(lambda: "the coordinator waits for its brokers" in out.read_text(), "what it waits for")
        assert out.read_text().count("the coordinator ended with status 75: the coordinator said so; starting again\n") == 12
        (tmp_path / "away").unlink()
        starts = tmp_path / "starts"
        leat.wait_for(lambda: {"ps ", "worker "} <= set(starts.read_text().splitlines()), "a worker and a server that go on")
        (tmp_path / "over").touch()
        assert script.wait(60) == 0, out.read_text()
    assert "given up" not in out.read_text()
    assert "workers-n2 ended with status 75: the worker said so; starting it again" in out.read_text()
    for role in ["coordinator", "ps-n1"]:
        assert (logs / f"{role}.log.1").stat().st_size == 17 << 20 and (logs / f"{role}.log").stat().st_size < 1 << 20


@pytest.mark.parametrize("status", [1, 2])
def test_a_coordinator_that_no_restart_cures_is_not_started_again(tmp_path, status):
    allocation, arguments = played(tmp_path, coordinator=[75, status])
    done = allocation.run(*arguments)
    assert done.returncode == status, done
    assert done.stderr.splitlines()[-1] == "leat: the coordinator said so"
    assert (tmp_path / "starts").read_text().splitlines() == ["coordinator 75", f"coordinator {status}"]


def test_crashes_in_a_row_end_the_job(tmp_path):
    allocation, arguments = played(tmp_path, worker=[75, 75, *[139] * 20])
    done = allocation.run(*arguments, SLURM_JOB_NODELIST="n1,n2")
    assert done.returncode == 139, done
    assert "workers-n2 ended with status 139 and is given up" in done.stderr
    assert (tmp_path / "starts").read_text().splitlines().count("worker 139") == 9


def test_a_wait_for_brokers_can_be_ended(tmp_path):
    allocation, arguments = played(tmp_path)
    (tmp_path / "away").touch()
    with allocation.start(*arguments) as script:
        leat.wait_for(lambda: "waits for its brokers" in (tmp_path / "out").read_text(), "the wait")
        script.send_signal(signal.SIGTERM)
        assert script.wait(60) == 130, (tmp_path / "out").read_text()


class SlurmJob:
    """A job of a real Slurm. `arguments`: those of the script."""

    def __init__(self, cluster, folder, *arguments, options=(), **environment):
        self.cluster, self.folder, self.directory = cluster, folder, folder / "job"
        self.state = folder / "job.slurm"
        # Nodes of one host reach each other by loopback, which Open MPI leaves out otherwise; the tests may run as root.
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_tcp_if_include": "lo",
                       "OMPI_MCA_oob_tcp_if_include": "lo", "HOME": str(folder), **environment}
        self.id = cluster.run("sbatch", "--parsable", "--nodes=3", f"--output={folder}/out", *options, SCRIPT, *arguments[:1],
                              "--directory", self.directory, "--leat", leat.PROGRAM, *arguments[1:], cwd=folder,
                              env=environment).stdout.strip()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            print(self.told(), *(self.cluster.run(*command.split(), check=False).stdout for command in
                                 ["sinfo -N -l", "squeue", "squeue --steps", f"scontrol show job {self.id}"]), sep="\n")
        self.cluster.run("scancel", "--full", self.id, check=False)
        leat.wait_for(lambda: self.now()[0] not in ("RUNNING", "COMPLETING", "PENDING"), "the end of the job")

    def told(self):
        out = (self.folder / "out").read_text() if (self.folder / "out").exists() else ""
        return out + (said(self.state) if self.state.exists() else "")

    def now(self):
        return self.cluster.state(self.id)

    def address(self):
        """Empty while there is no coordinator."""
        with contextlib.suppress(OSError):
            return dict(line.split(" ", 1) for line in (self.state / "settings").read_text().splitlines())["coordinator"]
        return ""

    def status(self):
        if not (address := self.address()):
            return {}
        done = leat.run("status", "--coordinator", address, "--trusted-network", "--json", env={"LEAT_TOKEN": self.token()})
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def token(self):
        return (self.state / "token").read_text().strip()

    def members(self, role):
        return {m["pid"] for m in self.status().get("members", []) if m["role"] == role and "pid" in m and m.get("state") != "gone"}

    def go_on(self):
        done = leat.run("continue", "--coordinator", self.address(), "--trusted-network", env={"LEAT_TOKEN": self.token()})
        assert done.returncode == 0, done.stderr

    def paused(self):
        leat.wait_for(lambda: self.status().get("phase") == "paused", "the pause", 200)

    def resumed(self):
        """Waits until the job runs again, after a requeue. Slurm lets two minutes pass if it is not asked for less."""
        def look():
            state, restarts = self.now()
            if state == "PENDING":
                self.cluster.run("scontrol", "update", f"JobId={self.id}", "StartTime=now", check=False)
            return restarts == 1 and state == "RUNNING"
        leat.wait_for(look, "the requeue", 120)

    def ends(self, state="COMPLETED"):
        leat.wait_for(lambda: self.now()[0] not in ("RUNNING", "COMPLETING", "PENDING"), "the end of the job", 300)
        assert self.now()[0] == state, self.told()

    def check(self, events):
        assert json.loads((self.directory / "summary.json").read_text())["events"] == events
        assert values(self.directory) == {float(events)}


@pytest.mark.long
def test_a_job_survives_a_killed_srun_a_joined_one_and_a_requeue(cluster, tmp_path):
    events = 100_000
    job_file = counting(tmp_path, "async", **{"events: 40000": f"events: {events}"})
    with SlurmJob(cluster, tmp_path, job_file, "--ps", 1, "--trusted-network", "--bots", "--", "--rate", 8_000,
                  "--pause-at", events * 3 // 8) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        assert len(job.members("worker")) == 2 and len(job.members("ps")) == 1
        for name in ["workers-n3", "ps-n1"]:
            killed = cluster.pids(f"--job-name={name}")  # srun and its child
            for pid in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            leat.wait_for(lambda: re.search(rf"{name} ended with status 137; starting it again", job.told()), "a new srun")
            leat.wait_for(lambda: set(cluster.pids(f"--job-name={name}")) - set(killed), "a new srun")
        with subprocess.Popen([FOLDER / "join.sh", job.directory, "--node", "n2"], env=cluster.environment, stdin=subprocess.DEVNULL,
                              stdout=open(tmp_path / "join", "w"), stderr=subprocess.STDOUT, start_new_session=True) as joined:
            try:
                leat.wait_for(lambda: len(job.members("worker")) == 3, "three workers")
                job.paused()
                check_secrets(cluster, job)
                cluster.run("scontrol", "requeue", job.id)
                joined.wait(60)
            finally:
                kill_group(joined)
        job.resumed()
        job.paused()  # after as many events again
        assert len(job.members("worker")) == 2
        job.go_on()
        job.ends()
        job.check(events)


def check_secrets(cluster, job):
    """The token is in no process list, in nothing that Slurm shows, and in no file that others can read."""
    shown = cluster.run("scontrol", "show", "job", "-dd", job.id).stdout + cluster.run("scontrol", "write", "batch_script", job.id, "-").stdout
    shown += "\n".join(" ".join(arguments) for _, arguments in cluster.processes()) + job.told()
    assert len(job.token()) == 32 and job.token() not in shown
    for path in [job.state, *job.state.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.long
@pytest.mark.parametrize("mpi", ["pmix", "mpirun"])
def test_workers_that_reduce_by_mpi_and_a_requeue_near_the_time_limit(cluster, tmp_path, mpi):
    if not MODULE.exists():
        pytest.skip("no MPI here")
    events = 40_000
    job_file = counting(tmp_path, "{type: allreduce, transport: mpi}")
    with SlurmJob(cluster, tmp_path, job_file, "--ps", 0, "--mpi", mpi, "--trusted-network", "--bots", "--", "--rate", 0,
                  "--pause-at", events // 4) as job:
        job.paused()
        assert len(job.members("worker")) == 3
        # MPI ends with one of its processes. The job resumes within the allocation.
        before = job.address()
        os.kill(max(job.members("worker")), signal.SIGKILL)
        leat.wait_for(lambda: "ended with status 75: worker" in job.told(), "the loss")
        leat.wait_for(lambda: job.address() not in ("", before), "the resumed job")
        job.paused()
        cluster.run("scancel", "--batch", "--signal=USR1", job.id)  # as Slurm does 120 s before the limit
        job.resumed()
        job.paused()
        job.go_on()
        job.ends()
        job.check(events)


@pytest.mark.long
def test_a_signal_saves_a_checkpoint_and_ends_the_job(cluster, tmp_path):
    events = 40_000
    job_file = counting(tmp_path, "async")
    with SlurmJob(cluster, tmp_path, job_file, "--trusted-network", "--bots", "--", "--rate", 0, "--pause-at", events // 2) as job:
        job.paused()
        cluster.run("scancel", "--batch", "--signal=TERM", job.id)
        job.ends()
        trained = json.loads((job.directory / "summary.json").read_text())["events"]
        assert 0 < trained < events
        job.check(trained)
    with SlurmJob(cluster, tmp_path, "--trusted-network", "--bots") as job:
        job.ends()
        job.check(events)


@pytest.mark.long
def test_bad_input_is_the_exit_status_of_the_job(cluster, tmp_path):
    with SlurmJob(cluster, tmp_path, tmp_path / "none.yaml", "--trusted-network") as job:
        job.ends("FAILED")
        assert "ExitCode=2:0" in cluster.run("scontrol", "show", "job", "-o", job.id).stdout
        assert re.fullmatch(r"leat: job file \S+/none.yaml: no such file, or not readable, on \S+\n", job.told())
        assert not job.directory.exists() and not job.state.exists()
