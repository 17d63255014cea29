"""Several real jobs on one pool: a pool, an agent, and jobs that count their events."""

# folders: run/pool

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

import kafka
import leat
import peers
import s3
from test_disks import fill

TOKEN = "token-of-the-pool-of-this-test"
FIRST_USER = 2_000_000_000

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
    """A pool and its agents, each a process on this host; `offers`: cores of each agent."""

    def __init__(self, folder, *offers, tls=False):
        self.folder = folder
        self.address = f"127.0.0.1:{leat.free_port()}"
        self.environment = {"LEAT_TOKEN": TOKEN}
        self.processes, self.submitted, self.tls = {}, {}, tls
        if tls:
            for role, host in [("pool", ["127.0.0.1"]), ("agent", []), ("admin", []), ("observer", [])]:
                peers.certificate(folder, role, role, *host)
        self.start_pool()
        for number, cores in enumerate(offers):
            self.start_agent(f"agent{number}", "--cores", cores)
        leat.wait_for(lambda: len(self.list()["agents"]) == len(offers), "the agents")

    def security(self, role):
        return ["--security", self.folder / role] if self.tls else []

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen(
                [leat.PROGRAM, *map(str, arguments)], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)

    def start_pool(self):
        self.start("pool", "pool", "--directory", self.folder / "pool", "--listen", self.address,
                   *self.security("pool"))

    def start_agent(self, name, *options):
        self.start(name, "agent", "--pool", self.address, "--name", name, "--directory", self.folder / name,
                   "--memory", 8000, *options, *self.security("agent"))

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def log(self):
        return "\n".join(log.read_text()[-3000:] for log in self.folder.glob("*.log"))

    def ask(self, *arguments, role="admin", env=None):
        return leat.run(*arguments, "--pool", self.address, *self.security(role), env={**self.environment, **(env or {})})

    def job_file(self, name, events, rate, **changes):
        file = self.folder / f"{name}.yaml"
        return leat.write_job(file, COUNTER.format(name=name, events=events, rate=rate), **changes)

    def submit(self, name, events, rate, *options, env=None, **changes):
        done = self.ask("submit", self.job_file(name, events, rate, **changes), *options, "--coordinator-cores", 0,
                        "--ps-cores", 0, env=env)
        assert done.returncode == 0, done.stderr + self.log()
        job = int(done.stdout)
        self.submitted[job] = events
        return job

    def list(self):
        done = self.ask("jobs", "--json", role="observer")
        return json.loads(done.stdout) if done.returncode == 0 else {"jobs": [], "agents": []}

    def jobs(self):
        return {job["job"]: job for job in self.list()["jobs"]}

    def wait(self, condition, what, timeout=120):
        """Polls until it holds for the jobs, all of which are there. A job that fails ends the test."""
        def look():
            jobs = self.jobs()
            failed = [job for job in jobs.values() if job["state"] == "failed"]
            assert not failed, failed
            return self.submitted.keys() <= jobs.keys() and condition(jobs)
        try:
            return leat.wait_for(look, what, timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.list()}\n{self.log()}") from None

    def wait_for_all(self, timeout=300):
        """Until all jobs are done. Each has then trained each of its events once."""
        self.wait(lambda jobs: all(jobs[job]["state"] == "done" for job in self.submitted), "the end", timeout)
        for job, events in self.submitted.items():
            self.check(job, events)

    def directory(self, job, part="jobs"):
        """At the agent with its coordinator."""
        return self.folder / self.jobs()[job]["home"] / part / str(job)

    def check(self, job, events):
        values = leat.tensors(self.directory(job) / "run")
        wrong = {name: set(v) - {float(events)} for name, v in values.items() if set(v) != {float(events)}}
        assert values and not wrong, wrong

    def pids(self, job, role):
        """The ids of a role's processes that the agents have started for a job."""
        agents = {process.pid for name, process in self.processes.items() if name.startswith("agent")}
        found = set()
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                arguments = (entry / "cmdline").read_bytes().decode().split("\0")
                if parent in agents and arguments[1] == role and \
                        os.readlink(entry / "cwd").endswith(f"/jobs/{job}"):
                    found.add(int(entry.name))
        return found

    def coordinators(self):
        return {job: self.pids(job, "coordinator") for job in self.submitted}

    def status(self, job, coordinator):
        """The events that a job without TLS has trained, as its coordinator says; 0 if it does not answer."""
        done = leat.run("status", "--coordinator", coordinator, "--json", env={"LEAT_TOKEN": self.token_of(job)})
        return json.loads(done.stdout)["events"] if done.returncode == 0 else 0

    def token_of(self, job):
        return json.loads((self.folder / "pool/jobs" / f"{job}.json").read_text())["payload"]["token"]

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
def start():
    """Starts a pool, once. Its folder can be entered by the users of its jobs, as pytest's folders cannot."""
    made = []
    with tempfile.TemporaryDirectory(prefix="leat-pool-") as folder:
        os.chmod(folder, 0o755)

        def start(*offers, **options):
            made.append(Pool(pathlib.Path(folder), *offers, **options))
            return made[0]
        yield start
        for pool in made:
            pool.close()


def check_secrets(pool):
    """No token in command lines, status and logs; each job's files are its own."""
    tokens = [pool.token_of(job) for job in pool.submitted] + [TOKEN]
    assert len({*tokens}) == len(tokens) and all(len(token) >= 28 for token in tokens)
    shown = [json.dumps(pool.list()), pool.ask("jobs").stdout]
    shown += [log.read_text(errors="replace") for log in pool.folder.rglob("*.log")]
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            shown.append(entry.read_text(errors="replace"))
    assert not [text for text in shown for token in tokens if token in text]
    assert (pool.folder / "pool").stat().st_mode & 0o077 == 0
    for job in pool.submitted:
        folder = pool.directory(job)
        assert folder.stat().st_mode & 0o777 == 0o700


def readable(pool, reader, paths):
    """The paths, among those given, that the user of a job can read."""
    done = subprocess.run(
        ["setpriv", f"--reuid={FIRST_USER + reader}", f"--regid={FIRST_USER + reader}", "--clear-groups", "sh", "-c",
         'for path; do cat "$path" > /dev/null 2>&1 && echo "$path"; done; true', "sh", *map(str, paths)],
        stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def share_two_cores(pool, events, rate):
    """The first job has both workers and gives one to the second. A worker and the pool are killed; no job stops."""
    first = pool.submit("first", events, rate, "--min-workers", 1)
    pool.wait(lambda jobs: jobs[first]["events"] > 0 and jobs[first]["workers"] == 2, "the first job")
    second = pool.submit("second", events // 2, rate, "--min-workers", 1)
    pool.wait(lambda jobs: jobs[second]["events"] > 0 and jobs[first]["workers"] == 1, "the second job")
    check_secrets(pool)
    before = pool.coordinators()
    (worker,) = pool.pids(second, "worker")
    os.kill(worker, signal.SIGKILL)
    leat.wait_for(lambda: pool.pids(second, "worker") - {worker}, "another worker")
    trained = pool.jobs()
    pool.kill("pool")
    for job in (first, second):
        leat.wait_for(lambda job=job: pool.status(job, trained[job]["coordinator"]) > trained[job]["events"] or
                      not pool.pids(job, "coordinator"), "events that are trained without a pool")
    pool.start_pool()
    jobs = pool.wait(lambda jobs: all(job["state"] == "done" or job.get("coordinator") and job["workers"] >= 1
                                      for job in jobs.values()) and jobs, "what the pool knows again")
    for job in jobs.values():
        assert job["state"] == "done" or job["coordinator"] == trained[job["job"]]["coordinator"]
    assert all(pids <= before[job] for job, pids in pool.coordinators().items()), "a coordinator was started again"
    pool.wait_for_all()
    assert all(job["preemptions"] == 0 for job in pool.jobs().values())


def test_two_jobs_share_two_cores(start):
    share_two_cores(start(2), 80_000, 10_000)


@pytest.mark.long
def test_two_jobs_share_two_cores_for_longer(start):
    share_two_cores(start(2), 1_000_000, 20_000)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes as other users")
def test_jobs_have_users_of_their_own(start):
    pool = start(2)
    first, second = (pool.submit(name, 1_000_000, 10_000, "--min-workers", 1) for name in ("first", "second"))
    jobs = pool.wait(lambda jobs: all(job["events"] > 0 for job in jobs.values()) and jobs, "both jobs")
    assert len(jobs) == 2
    for job in (first, second):
        user = FIRST_USER + job
        assert pool.directory(job).stat().st_uid == user
        pids = [pid for role in ("worker", "ps", "coordinator") for pid in pool.pids(job, role)]
        assert len(pids) >= 2 and {os.stat(f"/proc/{pid}").st_uid for pid in pids} == {user}
    private = [path for part in ("jobs", "secrets", "logs") for path in pool.directory(first, part).rglob("*")]
    private += [f"/proc/{pid}/environ" for pid in pool.pids(first, "worker")]
    private += [path for path in (pool.folder / "pool").rglob("*")]
    assert len(private) > 10 and readable(pool, second, [path for path in private if os.path.isfile(path)]) == []
    own = pool.directory(first) / "run/job.yaml"
    assert readable(pool, first, [own]) == [str(own)]
    for job in (first, second):
        pool.ask("cancel", job, "--discard")
    pool.wait(lambda jobs: all(job["state"] == "cancelled" for job in jobs.values()), "their end")


def preempt(pool, events, rate):
    """The job of low priority is preempted as a whole, with a checkpoint, and goes on later."""
    low = pool.submit("low", events, rate, "--min-workers", 2)
    pool.wait(lambda jobs: jobs[low]["events"] > 0, "the job of low priority")
    high = pool.submit("high", events // 2, rate, "--priority", 5, "--min-workers", 2)
    pool.wait(lambda jobs: jobs[high]["events"] > 0 and jobs[low]["preemptions"] == 1, "the preemption")
    assert leat.checkpoints(pool.directory(low) / "run")
    return low


def test_preemption_and_cancel(start):
    pool = start(2)
    low = preempt(pool, 30_000, 10_000)
    third = pool.submit("third", 10_000_000, 10_000, "--priority", -1)
    del pool.submitted[third]  # it is cancelled
    pool.wait_for_all()
    jobs = pool.jobs()
    assert jobs[low]["preemptions"] == 1
    pool.wait(lambda jobs: jobs[third]["events"] > 0, "the third job")
    assert pool.ask("cancel", third).returncode == 0
    pool.wait(lambda jobs: jobs[third]["state"] == "cancelled" and jobs[third]["workers"] == 0, "its end")
    assert leat.checkpoints(pool.directory(third) / "run")
    leat.refused(pool.ask("cancel", third), f"job {third} is over")
    leat.refused(pool.ask("cancel", 99), "no job 99")


@pytest.mark.long
def test_preemption_on_two_hosts_and_agents_that_die(start):
    """The processes of an agent end with it. The job goes on when it is back."""
    pool = start(1, 1)
    low = preempt(pool, 400_000, 10_000)
    for name in ("agent0", "agent1"):
        pool.wait(lambda jobs: sum(job["workers"] for job in jobs.values()) == 2, "both workers")
        pool.kill(name)
        pool.start_agent(name, "--cores", 1)
    pool.wait_for_all()
    assert pool.jobs()[low]["preemptions"] == 1


@pytest.mark.long
def test_a_preempted_job_goes_on_elsewhere_from_object_storage(start, tmp_path):
    """From agent0 to agent1 and back, where its old directory is. Only its processes have the keys."""
    with s3.Server(tmp_path) as server, contextlib.closing(kafka.Broker(tmp_path / "broker")) as broker:
        pool = start(2)
        changes = {"topic: events": f"topic: low, kafka: {json.dumps(broker.settings())}",
                   "interval_s: 2": f"interval_s: 2, to: s3://{s3.BUCKET}/low"}
        low = pool.submit("low", 400_000, 4_000, "--min-workers", 2, env=server.env(), **changes)
        pool.wait(lambda jobs: jobs[low]["events"] > 0 and jobs[low]["home"] == "agent0", "the job of low priority")
        high = pool.submit("high", 10_000_000, 1_000, "--priority", 5, "--min-workers", 2)
        before = pool.wait(lambda jobs: jobs[high]["events"] > 0 and jobs[low]["preemptions"] == 1 and jobs[low]["events"],
                           "the preemption")
        pool.start_agent("agent1", "--cores", 2, "--class", "other")
        before = pool.wait(lambda jobs: jobs[low]["home"] == "agent1" and jobs[low]["events"] > before and
                           jobs[low]["events"], "events that it trains elsewhere")
        del pool.submitted[high]
        assert pool.ask("cancel", high, "--discard").returncode == 0
        pool.wait(lambda jobs: jobs[high]["state"] == "cancelled" and jobs[high]["workers"] == 0, "room at agent0")
        top = pool.submit("top", 20_000, 10_000, "--priority", 9, "--min-workers", 2, "--worker-class", "other")
        pool.wait(lambda jobs: jobs[low]["home"] == "agent0" and jobs[low]["preemptions"] == 2 and
                  jobs[low]["events"] > before, "events that it trains where it was at first")
        secret = server.keys["AWS_SECRET_ACCESS_KEY"]
        for role in ("coordinator", "worker", "ps"):
            assert all(secret in pathlib.Path(f"/proc/{pid}/environ").read_text() for pid in pool.pids(low, role))
            assert all(secret not in pathlib.Path(f"/proc/{pid}/environ").read_text() for pid in pool.pids(top, role))
        pool.wait_for_all()


@pytest.fixture(name="small_disk")
def mount_small_disk():
    """Mounts a disk of 64 MB at a folder."""
    mounted = []

    def mount(folder):
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "tmpfs", str(folder)], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip("mounting a small disk needs root: " + done.stderr.strip())
        mounted.append(folder)
        return folder
    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def waits(job):
    return job["state"] in ("queued", "running") and job.get("waits_for", "")


# A coordinator asks brokers that are away for 30 s before it says so. pool_process_test.cc has a shorter form.
@pytest.mark.long
@pytest.mark.parametrize("events, away", [(30_000, 5), (600_000, 300)])
def test_jobs_go_on_by_themselves_whatever_was_away(start, small_disk, tmp_path, events, away):
    """Brokers are away, everything is killed and started again meanwhile, and the disk of one agent is full."""
    pool = start()
    with contextlib.closing(kafka.Broker(tmp_path / "broker")) as broker:
        disk = small_disk(pool.folder / "agent0")
        for name in ("agent0", "agent1"):
            pool.start_agent(name, "--cores", 2)
        leat.wait_for(lambda: len(pool.list()["agents"]) == 2, "the agents")
        ids = [pool.submit(name, events, 6_000, "--workers", 1, **{"topic: events": f"topic: {name}, kafka: {json.dumps(broker.settings())}"})
               for name in ("first", "second", "third")]
        trained = pool.wait(lambda jobs: all(jobs[job]["events"] > events // 20 for job in ids) and jobs, "events of all jobs")
        homes = {job: trained[job]["home"] for job in ids}
        assert set(homes.values()) == {"agent0", "agent1"}, homes
        broker.kill()
        for name in list(pool.processes):
            pool.kill(name)
        leat.wait_for(lambda: not any(pids for pids in pool.coordinators().values()), "the end of the processes")
        ballast = fill(disk)
        pool.start_pool()
        for name in ("agent0", "agent1"):
            pool.start_agent(name, "--cores", 2)
        reasons = {job: "No space left on device" if homes[job] == "agent0" else "Kafka topic" for job in ids}
        pool.wait(lambda jobs: all(reasons[job] in (waits(jobs[job]) or "") for job in ids), "what all jobs wait for")
        assert any("No space left on device" in agent.get("left_out", "") for agent in pool.list()["agents"])
        until = time.monotonic() + away
        pool.wait(lambda jobs: time.monotonic() > until and all(waits(jobs[job]) for job in ids), "the end of the wait", away + 60)
        broker.start()
        on_good = [job for job in ids if homes[job] == "agent1"]
        pool.wait(lambda jobs: all(jobs[job]["state"] == "done" for job in on_good), "the jobs with space", 60 + events / 2000)
        ballast.unlink()
        pool.wait_for_all(120 + events / 2000)


def test_certificates(start, tmp_path):
    """With TLS each job has an authority of its own, and each command needs its role."""
    pool = start(2, tls=True)
    ids = [pool.submit(name, 10_000_000, 5_000, "--workers", 1, "--access", tmp_path / name)
           for name in ("first", "second")]
    jobs = pool.wait(lambda jobs: all(jobs[job]["events"] > 0 for job in ids) and jobs, "both jobs")
    check_secrets(pool)

    def status(job, name):
        return leat.run("status", "--coordinator", jobs[job]["coordinator"], "--security", tmp_path / name,
                        env={"LEAT_TOKEN": (tmp_path / name / "token").read_text().strip()})
    assert (tmp_path / "first/key.pem").stat().st_mode & 0o077 == 0
    assert status(ids[0], "first").returncode == 0
    assert status(ids[0], "second").returncode != 0
    for command in (["cancel", ids[0]], ["submit", pool.job_file("third", 10, 10)]):
        leat.refused(pool.ask(*command, role="observer"), "observer")
    for job in ids:
        assert pool.ask("cancel", job, "--discard").returncode == 0
    pool.wait(lambda jobs: all(jobs[job]["state"] == "cancelled" for job in ids), "the end")


def test_peers_of_another_build_are_refused(start):
    """A pool writes one line about them."""
    pool = start()
    port = int(pool.address.rsplit(":", 1)[1])
    with peers.connected(port) as s:
        assert peers.learn(s) == "pool"
    with peers.connected(port) as s:
        s.sendall(peers.hello("pool", peers.OTHER_BUILD))
        answer = peers.read(s, 1000)
        assert len(answer) == peers.CHALLENGE_BYTES and not any(answer[24:]), "it proves nothing"
        name = f" refused 127.0.0.1:{s.getsockname()[1]}: "
        found = leat.wait_for(lambda: [line for line in pool.log().splitlines() if name in line], "the refusal")
    assert len(found) == 1 and found[0].endswith(
        f"the peer is of another build: it speaks {peers.speaks(peers.OTHER_BUILD)}, this program "
        f"{peers.speaks(peers.MESSAGES['pool'])}; run the same build on both sides"), found


def test_bad_input(start, tmp_path):
    """Each mistake gives one line, and nothing is queued."""
    pool = start(2)
    twin = ["agent", "--pool", pool.address, "--name", "agent0", "--directory", tmp_path / "twin"]
    pool.start("twin", *twin)
    job = pool.job_file("job", 10, 10)

    def refused(*arguments, says):
        leat.refused(pool.ask("submit", *arguments), *says)
    refused(job, "--min-workers", 3, "--workers", 3, says=["room for its minimum", "on 1 host"])
    refused(job, "--worker-memory", 9000, says=["room for its minimum"])
    refused(job, "--worker-class", "gpu", says=["class 'gpu'", "worker"])
    refused(job, "--share", 0, says=["share"])
    refused(job, "--priority", 5000, says=["priority"])
    refused(job, "--min-workers", 3, says=["fewer than its minimum"])
    refused(job, "--data", tmp_path / "none", says=["none"])
    other = tmp_path / "other.yaml"
    other.write_text(job.read_text() + "autoscale: {command: [\"true\"]}\n")
    refused(other, says=["one executor"])
    other.write_text(job.read_text() + "topology: {workers: {class: gpu}}\n")
    refused(other, says=["class 'gpu'", "worker"])
    other.write_text(job.read_text() + "prioritty: 3\n")
    refused(other, says=["prioritty"])
    refused(tmp_path / "missing.yaml", says=["missing.yaml"])
    leat.refused(leat.run("jobs", "--pool", pool.address, env={"LEAT_TOKEN": "another"}), "token")
    leat.refused(leat.run("jobs", "--pool", pool.address, env={"LEAT_TOKEN": "", "HOME": "/proc/none"}), "LEAT_TOKEN")
    leat.refused(leat.run("pool", "--directory", pool.folder / "pool", env=pool.environment), "another pool")
    shared = tmp_path / "shared"
    (shared / "secrets/7").mkdir(parents=True)
    shared.chmod(0o1777)
    leat.refused(leat.run("agent", "--pool", pool.address, "--name", "agent9", "--directory", shared, env=pool.environment),
                 f"{shared}: has 'secrets' and is no agent's")
    assert (shared / "secrets/7").exists() and shared.stat().st_mode & 0o7777 == 0o1777
    leat.refused(leat.run("coordinator", job, "--directory", tmp_path / "run", "--pool", "--scaler", "127.0.0.1:0",
                          env=pool.environment), "one executor")
    assert pool.processes["twin"].wait(60) == 2
    assert "leat: another agent named 'agent0'" in (pool.folder / "twin.log").read_text()
    assert pool.jobs() == {} and not (tmp_path / "run").exists()
    done = pool.ask("submit", job, "--min-workers", 3, "--workers", 3, "--wait")
    assert done.returncode == 0, done.stderr
    pool.wait(lambda jobs: "room for its minimum" in jobs[int(done.stdout)].get("waits_for", ""), "what it waits for")
    assert pool.ask("cancel", done.stdout.strip()).returncode == 0
    pool.kill("agent0")
    other = f"127.0.0.1:{leat.free_port()}"
    pool.start("other", "pool", "--directory", pool.folder / "other", "--listen", other)
    done = leat.run("agent", "--pool", other, "--name", "agent0", "--directory", pool.folder / "agent0", env=pool.environment)
    assert done.returncode == 2 and "leat: the directory of agent 'agent0' belongs to pool" in done.stderr, done.stderr
