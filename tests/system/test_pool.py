"""Several real jobs on one pool: a pool, an agent, and jobs that count their events."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

import leat

TOKEN = "token-of-the-pool-of-this-test"

COUNTER = """
name: {name}
seed: 1
stream: {{topic: events, partitions: 4, bots: {{events: {events}, customers: 1000, rate: {rate}}}}}
schema: {{format: json, fields: {{amount: {{type: number}}, fraud: {{type: number, role: label}}}}}}
model: {{layers: [{{bias: {{units: 1024}}}}], loss: {{type: negative_sum, reduction: sum}}}}
optimizer: {{type: sgd, learning_rate: 1}}
strategy: async
train: {{batch_size: 100, split_batches: 5}}
cluster: {{workers: 2, ps: 1, placement: partitioned}}
checkpoint: {{interval_s: 2}}
"""


class Pool:
    def __init__(self, folder, cores):
        self.folder, self.cores, self.port = folder, cores, leat.free_port()
        folder.chmod(0o755)
        for parent in list(folder.parents)[:3]:  # for the users of the jobs
            with contextlib.suppress(OSError):
                parent.chmod(parent.stat().st_mode | 0o011)
        self.address = f"127.0.0.1:{self.port}"
        self.environment = {"LEAT_TOKEN": TOKEN}
        self.processes = {}
        self.start_pool()
        self.start_agent()

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen(
                [leat.PROGRAM, *map(str, arguments)], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)

    def start_pool(self):
        self.start("pool", "pool", "--directory", self.folder / "pool", "--listen", self.address)

    def start_agent(self):
        self.start("agent", "agent", "--pool", self.address, "--name", "one", "--directory", self.folder / "agent",
                   "--cores", self.cores, "--memory", 8000)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def log(self):
        return "\n".join((self.folder / f"{name}.log").read_text()[-3000:] for name in ("pool", "agent"))

    def submit(self, name, events, rate, *options):
        file = self.folder / f"{name}.yaml"
        file.write_text(COUNTER.format(name=name, events=events, rate=rate))
        done = leat.run("submit", file, "--pool", self.address, *options, "--coordinator-cores", 0, "--ps-cores", 0,
                        env=self.environment)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def jobs(self):
        done = leat.run("jobs", "--pool", self.address, "--json", env=self.environment)
        return {job["job"]: job for job in json.loads(done.stdout)["jobs"]} if done.returncode == 0 else {}

    def wait(self, condition, what, timeout=120):
        try:
            return leat.wait_for(lambda: condition(self.jobs()), what, timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.jobs()}\n{self.log()}") from None

    def check(self, job, events):
        values = leat.tensors(self.folder / "agent" / "jobs" / str(job) / "run")
        wrong = {name: set(v) - {float(events)} for name, v in values.items() if set(v) != {float(events)}}
        assert values and not wrong, wrong

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


@pytest.fixture
def pool(tmp_path):
    made = Pool(tmp_path, 2)
    yield made
    made.close()


def test_two_jobs_share_two_cores_and_survive_the_pool(pool):
    """The first job has both workers, gives one to the second, and goes on while there is no pool."""
    first = pool.submit("first", 40_000, 8_000, "--min-workers", 1)
    pool.wait(lambda jobs: jobs.get(first, {}).get("events", 0) > 0 and jobs[first]["workers"] == 2, "the first job")
    second = pool.submit("second", 10_000, 8_000, "--min-workers", 1)
    pool.wait(lambda jobs: jobs[second]["events"] > 0, "the second job")
    pool.kill("pool")
    pool.start_pool()
    pool.wait(lambda jobs: all(jobs.get(job, {}).get("state") == "done" for job in (first, second)), "the end")
    pool.check(first, 40_000)
    pool.check(second, 10_000)


@pytest.mark.long
def test_preemption_and_a_killed_agent(pool):
    low = pool.submit("low", 200_000, 10_000, "--min-workers", 2)
    pool.wait(lambda jobs: jobs.get(low, {}).get("events", 0) > 10_000, "the job of low priority")
    high = pool.submit("high", 50_000, 10_000, "--priority", 5, "--min-workers", 2)
    pool.wait(lambda jobs: jobs[high]["events"] > 0 and jobs[low]["state"] == "queued", "the job of high priority")
    pool.kill("agent")
    pool.start_agent()
    pool.wait(lambda jobs: jobs[high]["state"] == "done", "the end of the job of high priority", 300)
    done = pool.wait(lambda jobs: jobs[low]["state"] == "done" and jobs, "the end of the job of low priority", 300)
    assert done[low]["preemptions"] == 1
    pool.check(low, 200_000)
    pool.check(high, 50_000)


def test_bad_input(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(COUNTER.format(name="job", events=10, rate=10) + "autoscale: {command: [\"true\"]}\n")
    leat.refused(leat.run("submit", job, "--pool", "127.0.0.1:9", env={"LEAT_TOKEN": TOKEN}), "one executor")
    job.write_text(COUNTER.format(name="job", events=10, rate=10))
    leat.refused(leat.run("submit", job, "--pool", "127.0.0.1:9", "--share", 0, env={"LEAT_TOKEN": TOKEN}), "share")
