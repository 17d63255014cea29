"""The container image: what is in it, and jobs in containers that may do as little as possible."""

# folders: deploy

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

import leat
from containers import BASE, HARDENED, IMAGE, KAFKA, Compose, Engine, kafka_image, program_image

MOST_MB = 150
USER = 10001


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("containers"))
    try:
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def image(engine):
    return program_image(engine)


def above_base(engine, image):
    """Megabytes that an image has above its base."""
    return (engine.inspect(image)["Size"] - engine.inspect(BASE)["Size"]) / 1e6


def status(engine, container, address, token):
    done = engine.podman("exec", "--env", f"LEAT_TOKEN_FILE={token}", container, "leat", "status", "--coordinator", address, "--json",
                         check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def secret(folder, text):
    """A file as containers get secrets: of root, and readable for the group of the image's user."""
    path = folder / "token"
    path.write_text(text)
    os.chown(path, 0, USER)
    path.chmod(0o440)
    return path


def test_what_it_is(engine, image):
    about = engine.inspect(image)
    megabytes = above_base(engine, image)
    print(f"the image has {megabytes:.0f} MB above its base")
    assert megabytes <= MOST_MB
    config = about["Config"]
    assert config["User"] == f"{USER}:{USER}" and config["Entrypoint"] == ["leat"]
    assert about["Healthcheck"]["Test"] == ["CMD", "leat", "health"]
    version = leat.run("--version").stdout
    assert engine.podman("run", "--rm", *HARDENED, "--network", "none", image, "--version").stdout == version


def test_it_says_what_it_is_made_of(engine, image):
    listed = engine.podman("run", "--rm", *HARDENED, "--network", "none", "--entrypoint", "cat", image, "/usr/share/leat/packages").stdout
    versions = dict(line.split("=", 1) for line in listed.splitlines())
    text = (leat.ROOT / "deploy/Containerfile").read_text()
    wanted = re.search(r"--no-install-recommends \\\n( *ca-certificates .*?) &&", text, re.DOTALL)[1].replace("\\\n", " ").split()
    assert len(wanted) > 10 and all(versions[name] for name in wanted)
    assert versions["base-files"].startswith("12")


def test_images_have_tags_or_digests():
    """The tag is the version's, and the base can be pinned."""
    deploy = leat.ROOT / "deploy"
    froms = re.findall(r"^FROM (\S+)", (deploy / "Containerfile").read_text(), re.MULTILINE)
    assert froms == ["$BASE", "base", "base"]
    images = re.findall(r"^ *image: (.*?)(?:  #.*)?$", (deploy / "compose.yaml").read_text(), re.MULTILINE)
    assert images == [IMAGE, f'"${{LEAT_KAFKA_IMAGE:-{KAFKA}}}"']
    assert f'newTag: "{IMAGE.partition(":")[2]}"' in (deploy / "kubernetes/base/kustomization.yaml").read_text()
    for path in [deploy / "make-secrets", *deploy.rglob("*.yaml"), leat.ROOT / "docs/containers.md", leat.ROOT / "docs/kubernetes.md"]:
        assert not re.search(r":latest|newTag: latest|-t leat |IMAGE:-leat}", path.read_text()), path


def test_packages_can_be_pinned_to_a_time(tmp_path):
    """By default nothing changes; with SNAPSHOT the archive of that time is the only source."""
    text = (leat.ROOT / "deploy/Containerfile").read_text()
    command = re.search(r"^RUN (if \[ -n \"\$SNAPSHOT\" \].*?fi)\n", text, re.DOTALL | re.MULTILINE)[1]
    own = tmp_path / "sources.list.d/debian.sources"
    own.parent.mkdir()
    own.write_text("Types: deb\n")
    for snapshot in ["", "20260101T000000Z"]:
        subprocess.run(["sh", "-ec", command.replace("/etc/apt", str(tmp_path))], env={**os.environ, "SNAPSHOT": snapshot}, check=True)
        assert own.exists() == (not snapshot)
        assert (tmp_path / "sources.list").exists() == bool(snapshot)
    lines = (tmp_path / "sources.list").read_text().splitlines()
    archive = "deb [check-valid-until=no] http://snapshot.debian.org/archive"
    assert lines == [f"{archive}/debian/20260101T000000Z/ bookworm main", f"{archive}/debian/20260101T000000Z/ bookworm-updates main",
                     f"{archive}/debian-security/20260101T000000Z/ bookworm-security main"]


def test_the_demo_may_do_nothing_else(engine, image):
    """As a user that is not root, on a read-only root, without capabilities, all of its six roles in 256 MB."""
    look = "id -u; touch /x /etc/x /usr/local/bin/x 2>&1 | grep -c Read-only; grep -h -e ^Cap -e NoNewPrivs /proc/self/status"
    done = engine.podman("run", "--rm", *HARDENED, "--network", "none", "--entrypoint", "sh", image, "-c",
                         f"{look}; leat demo --events 30000 --rate 0 --json")
    lines = done.stdout.splitlines()
    assert lines[:2] == [str(USER), "3"]
    assert lines[2:8] == [f"Cap{kind}:\t{0:016x}" for kind in ["Inh", "Prm", "Eff", "Bnd", "Amb"]] + ["NoNewPrivs:\t1"]
    summary = json.loads(lines[-1])
    assert summary["events"] == 30_000 and summary["duplicates"] == 0
    assert engine.podman("volume", "ls", "--quiet").stdout == ""  # its job went with it


def test_roles_in_containers_of_their_own(engine, image, tmp_path):
    """They share a host, and in part its network, but neither processes nor memory; SIGTERM to process 1 ends each in order."""
    port = 4000
    address, token = f"127.0.0.1:{port}", "/run/secrets/token"
    engine.podman("volume", "create", "job")
    job = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "events: 1000000": "events: 100000000, rate: 20000", "ps: 2": "ps: 1", "workers: 3": "workers: 2"})
    common = ["--detach", *HARDENED, "--network", "host", "--volume", f"{secret(tmp_path, 'of the job')}:{token}:ro",
              "--env", f"LEAT_TOKEN_FILE={token}"]

    def start(name, *words, mounts=()):
        nonlocal port
        port += 1  # each listener of health needs its own port: they share a network
        engine.podman("run", *common, "--name", name, "--env", f"LEAT_METRICS=127.0.0.1:{port}", *mounts, image, *words)
        return name

    start("coordinator", "coordinator", "/etc/job.yaml", "--directory", "/job/run", "--listen", address,
          mounts=["--volume", f"{job}:/etc/job.yaml:ro", "--volume", "job:/job"])
    others = [start(f"{role}-{i}", role, "--coordinator", address) for i, role in enumerate(["ps", "worker", "worker"])]
    others.append(start("bots", "bots", "--coordinator", address, mounts=["--volume", "job:/job"]))
    try:
        leat.wait_for(lambda: status(engine, "coordinator", address, token).get("events", 0) > 20_000, "progress")
        assert "shm" not in engine.podman("logs", "ps-0", check=False).stderr
        for name in ["coordinator", *others]:
            assert engine.podman("healthcheck", "run", name, check=False).returncode == 0, name
        for name in reversed(others[1:]):
            engine.podman("stop", "--time", "30", name)
        # The coordinator saves, and then the last server ends with it.
        engine.podman("stop", "--time", "30", "coordinator")
        engine.podman("wait", "ps-0", timeout=60)
        for name in ["coordinator", *others]:
            assert engine.inspect(name)["State"]["ExitCode"] == 0, (name, engine.podman("logs", name).stderr[-1500:])
        where = engine.podman("volume", "inspect", "job", "--format", "{{.Mountpoint}}").stdout.strip()
        summary = json.loads((pathlib.Path(where) / "run/summary.json").read_text())
        assert {x for v in leat.tensors(f"{where}/run").values() for x in v} == {float(summary["events"])}
    except AssertionError:
        for name in ["coordinator", *others]:
            said = engine.podman("logs", name, check=False)
            print(name, engine.inspect(name)["State"], said.stdout[-1500:], said.stderr[-1500:])
        raise
    finally:
        engine.podman("rm", "--force", "--volumes", "--time", "0", "coordinator", *others)
        engine.podman("volume", "rm", "job")


def test_little_shared_memory(engine, image):
    """UCX has its segments in /dev/shm. Without room there, payloads take another way, and the log says why."""
    engine.podman("volume", "create", "job")
    try:
        done = engine.podman("run", "--rm", *HARDENED, "--network", "none", "--shm-size", "256k", "--volume", "job:/job", "--volume",
                             f"{leat.EXAMPLES / 'counter.yaml'}:/etc/job.yaml:ro", image, "train", "/etc/job.yaml", "--directory", "run",
                             "--events", "20000", "--rate", "0", "--ps", "1", "--workers", "1", "--json")
        assert leat.summary(done)["events"] == 20_000
        where = pathlib.Path(engine.podman("volume", "inspect", "job", "--format", "{{.Mountpoint}}").stdout.strip(), "run")
        assert {x for v in leat.tensors(where).values() for x in v} == {20_000.0}
        logs = "".join(log.read_text() for log in (where / "logs").iterdir())
        said = set(re.findall(r"payloads within this host go over tcp, without shared memory: .*", logs))
        assert said and all(re.search(r"/dev/shm has \d+ KiB free", line) for line in said), logs[-2000:]
    finally:
        engine.podman("volume", "rm", "job")


def test_bad_input(engine, image, tmp_path):
    """Each mistake gives one line, before anything starts."""
    token = secret(tmp_path, "of the job")

    def worker(*options):
        return engine.podman("run", "--rm", *HARDENED, "--network", "none", *options, image, "worker", "--coordinator", "127.0.0.1:4000",
                             check=False)

    named = ["--env", "LEAT_TOKEN_FILE=/run/secrets/token"]
    mounted = ["--volume", f"{token}:/run/secrets/token:ro"]
    leat.refused(worker(*named), "LEAT_TOKEN_FILE", "/run/secrets/token", "No such file")
    leat.refused(worker(*named, *mounted, "--env", "LEAT_SECURITY=/run/secrets"), "/run/secrets/ca.pem")
    token.chmod(0o444)
    leat.refused(worker(*named, *mounted), "/run/secrets/token", "other users have access")
    token.write_text("")
    token.chmod(0o440)
    leat.refused(worker(*named, *mounted), "/run/secrets/token", "empty")

    def secrets(folder, **more):
        done = engine.run(leat.ROOT / "deploy/make-secrets", folder, env={"ENGINE": "podman", **more}, check=False)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    assert "is there already" in secrets(tmp_path)
    assert "no image nothing" in secrets(tmp_path / "new", IMAGE="nothing")
    assert not (tmp_path / "new").exists()


# ---- with Kafka, by compose

FETCH = """
import ssl, sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=20, context=ssl.create_default_context(cafile=sys.argv[2])).read().decode())
"""


def wait_for_lag(read, most, what, timeout=180):
    return leat.wait_for(lambda: (found := read()) and found["lag"] <= most and found, what, timeout)


@pytest.mark.long
def test_compiled_from_source(engine):
    """The first stage compiles the program, with the results of earlier compilations if there are any."""
    cache = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
    pathlib.Path(cache).mkdir(parents=True, exist_ok=True)
    engine.build("leat-source", leat.ROOT, leat.ROOT / "deploy/Containerfile", "--volume", f"{cache}:/root/.cache/ccache", timeout=6000)
    print(f"compiled from source: {above_base(engine, 'leat-source'):.0f} MB above its base")
    assert above_base(engine, "leat-source") <= MOST_MB
    done = engine.podman("run", "--rm", *HARDENED, "--network", "none", "leat-source", "demo", "--events", "30000", "--rate", "0", "--json")
    assert leat.summary(done)["events"] == 30_000


@pytest.mark.long
def test_compose(engine, image, tmp_path):
    """The steps of docs/containers.md with a job that counts: a worker is killed, others join, and each event counts once."""
    kafka_image(engine)
    events, secrets = 400_000, tmp_path / "secrets"
    engine.run(leat.ROOT / "deploy/make-secrets", secrets, env={"ENGINE": "podman"})
    # A worker trains at most 5,000 events a second.
    job = leat.write_job(tmp_path / "job.yaml", (leat.EXAMPLES / "counter.yaml").read_text(), **{
        "topic: events": 'topic: events\n  kafka: {bootstrap.servers: "kafka:9092"}', "interval_s: 5": "interval_s: 5}\ndebug: {step_ms: 20",
        "events: 1000000, ": f"events: {events}, rate: 3000, ", "workers: 3, ps: 2": "workers: 1, ps: 1", "units: 16384": "units: 1024"})
    compose = Compose(engine, LEAT_SECRETS=secrets, LEAT_JOB=job)

    def read():
        found = compose.containers("coordinator")
        done = engine.podman("exec", found[0], "leat", "status", "--coordinator", "coordinator:4000", "--json", check=False) \
            if found else None
        return json.loads(done.stdout) if done and done.returncode == 0 else None

    try:
        compose("up", "-d", "--no-build", timeout=300)
        leat.wait_for(lambda: (found := read()) and found["events"] > 10_000, "progress", 240)
        level = max(wait_for_lag(read, 1e9, "a status")["lag"] for _ in range(10)) + 1000
        link = engine.podman("exec", compose.containers("coordinator")[0], "leat", "dashboard", "--link", "--coordinator",
                             "coordinator:4000").stdout.strip()
        page = engine.run("python3", "-c", FETCH, link.partition("#")[0].replace("coordinator", "127.0.0.1"),
                          secrets / "coordinator/ca.pem").stdout
        assert link.startswith("https://coordinator:8080/#") and "<html" in page
        print(f"lag at most {level}")

        killed = set()

        def kill():
            """The worker, as often as it is started again."""
            for worker in compose.containers("worker"):
                if (pid := engine.pid(worker)) and pid not in killed:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)
            found = read()
            return found and found["lag"] > level and found["lag"]

        lag = leat.wait_for(kill, "a lag")
        print(f"a lag of {lag} after {len(killed)} kills")
        compose("up", "-d", "--no-build", "--scale", "worker=4", timeout=300)
        leat.wait_for(lambda: (found := read()) and sum(m["role"] == "worker" for m in found["members"]) == 4, "four workers")
        wait_for_lag(read, level, "the former lag")
        print("lag is back;", read()["events"], "events")
        assert len(compose.containers()) == 8

        leat.wait_for(lambda: not compose.containers("coordinator"), "the end of the job", 300)
        where = engine.podman("volume", "inspect", "leat_job", "--format", "{{.Mountpoint}}").stdout.strip()
        summary = json.loads((pathlib.Path(where) / "run/summary.json").read_text())
        assert summary["events"] == events
        assert {x for v in leat.tensors(f"{where}/run").values() for x in v} == {float(events)}
    except AssertionError:
        for name in engine.podman("ps", "--all", "--format", "{{.Names}}").stdout.split():
            said = engine.podman("logs", "--tail", "15", name, check=False)
            print(name, engine.inspect(name)["State"]["Status"], said.stdout[-1500:], said.stderr[-1500:])
        raise
    finally:
        compose("down", "--remove-orphans", "-v", check=False)
    assert engine.podman("ps", "--all", "--quiet").stdout == "" and engine.podman("volume", "ls", "--quiet").stdout == ""
