"""Metrics of all roles: what they export and who may read it, checked by Prometheus' own tools."""

# folders: show/prometheus show/http

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time

import pytest

import leat
import packages
from observers import Observer, view_token
from peers import certificate

ALL = "coordinator,server,worker,bots,admin"
TOKEN = "known to all"
ENVIRONMENT = {**os.environ, "LEAT_TOKEN": TOKEN}
EVENTS = 60_000
ROW = re.compile(r"\| `(\w+)` \| (\w+) \| [\w ]* \| ([\w, ]*) \| .+ \|")


def documented():
    """{metric: (type, labels)} of docs/metrics.md."""
    rows = ROW.findall((leat.ROOT / "docs/metrics.md").read_text())
    return {name: (kind, set(filter(None, labels.split(", ")))) for name, kind, labels in rows}


def check_page(page, promtool):
    """A page has only documented metrics, and promtool objects to none."""
    table = documented()
    for name, kind in page.types.items():
        assert table[name][0] == kind, name
    for name, labels, _ in page.samples:
        family = name if name in page.types else re.sub(r"_(bucket|sum|count)$", "", name)
        assert set(labels) <= table[family][1], (name, labels)
    done = subprocess.run([promtool, "check", "metrics"], input=page.text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def promtool():
    return packages.unpacked("prometheus") / "usr/bin/promtool"


def counter(tmp_path, **changes):
    text = (leat.EXAMPLES / "counter.yaml").read_text()
    return leat.write_job(tmp_path / "counter.yaml", text, **{"events: 1000000": f"events: {EVENTS}", **changes})


def paused(job):
    """The address of the coordinator's metrics, once the job has paused, trains nothing more, and all roles are there."""
    last, since = 0, time.monotonic()

    def there():
        nonlocal last, since
        status = job.status()
        if status.get("events", 0) != last:
            last, since = status["events"], time.monotonic()
        return (status.get("phase") == "paused" and last >= EVENTS // 2 and time.monotonic() > since + 1 and
                all("metrics" in member for member in status["members"]) and status["metrics"])
    return leat.wait_for(there, "the pause")


@pytest.mark.parametrize("strategy", ["async", "allreduce"])
def test_all_roles_of_a_job(tmp_path, promtool, strategy):
    changes = {}
    if strategy == "allreduce":
        changes = {"strategy: async": "strategy: allreduce", "workers: 3, ps: 2, placement: partitioned": "workers: 3",
                   "reduction: sum": "reduction: sum"}
    directory = tmp_path / "job"
    with leat.Job("train", counter(tmp_path, **changes), "--directory", directory, "--pause-at", EVENTS // 2, "--metrics",
                  "127.0.0.1:0", directory=directory, env=ENVIRONMENT) as job:
        where = paused(job)
        viewer = Observer(view_token(TOKEN))
        targets = viewer.targets(where)
        assert targets.pop(("coordinator", 0)) == where
        assert len(set(targets.values())) == len(targets), "roles share an address"
        expected = {("worker", 0), ("worker", 1), ("worker", 2)}
        if strategy == "async":
            expected |= {("ps", 0), ("ps", 1)}
        assert {role for role in targets if role[0] != "bots"} == expected, targets

        status = job.status()
        page = viewer.metrics(where)
        check_page(page, promtool)
        assert page.value("leat_ready") == 1
        assert page.value("leat_job_info", name="counter", strategy=strategy) == 1
        assert page.value("leat_job_trained_events") == status["events"] < EVENTS
        assert page.value("leat_job_phase", phase="paused") == 1
        assert page.value("leat_job_members", role="worker", state="active") == 3
        assert page.value("leat_job_worker_steps_total") == status["steps"]
        trained = 0
        for (role, _), address in targets.items():
            page = viewer.metrics(address)
            check_page(page, promtool)
            assert page.value("leat_build_info", role=role) == 1
            assert page.value("process_resident_memory_bytes") > 1e6
            assert viewer.get(address, "/targets").status == 503
            if role == "worker":
                trained += page.value("leat_worker_events_total")
                assert page.value("leat_net_bytes_sent_total") > 0
            if strategy == "allreduce" and role == "worker":
                assert page.value("leat_worker_group_connected") == page.value("leat_worker_state_held") == 1
            if role == "ps":
                assert page.value("leat_server_pushes_total") > 0
                assert page.value("leat_server_staleness_count") > 0
        assert trained == status["events"]

        check_access([where, *targets.values()])
        if strategy == "async":
            check_restart(job, where, viewer, set(targets))
            again = job.status()
            assert (again["phase"], again["events"]) == ("paused", status["events"])
        job.go_on()
        assert job.wait(180) == 0, job.text()
    assert {x for v in leat.tensors(directory).values() for x in v} == {float(EVENTS)}


def check_access(addresses):
    """Tokens, and the headers that only browsers of others' pages send."""
    viewer, nobody, other = Observer(view_token(TOKEN)), Observer(), Observer(view_token("another"))
    for address in addresses:
        for path in ["/healthz", "/readyz"]:
            assert nobody.get(address, path).status == 200, (address, path)
        assert nobody.get(address, "/healthz").body == "ok\n"
        for path in ["/metrics", "/targets"]:
            refused = nobody.get(address, path)
            assert refused.status == 401 and "leat view-token" in refused.body
            assert refused.headers["WWW-Authenticate"].startswith("Bearer")
            assert other.get(address, path).status == 401
            assert nobody.get(address, path, {"Authorization": f"Bearer {TOKEN}"}).status == 401, "the job's own token"
        assert viewer.get(address, "/metrics", {"Host": "attacker.example"}).status == 421
        assert nobody.get(address, "/healthz", {"Host": "attacker.example"}).status == 421
        assert viewer.get(address, "/metrics", {"Origin": "http://attacker.example"}).status == 403
        assert viewer.get(address, "/metrics", {"Origin": f"http://{address}"}).status == 200
        assert viewer.get(address, "/metrics", method="POST").status == 405
        assert viewer.get(address, "/").status == 404
        for response in [viewer.get(address, "/metrics"), nobody.get(address, "/none")]:
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")


def check_restart(job, where, viewer, roles):
    """A coordinator that is started again serves its metrics at the same address, and knows those of the members."""
    (pid,) = job.pids("coordinator")
    os.kill(pid, signal.SIGKILL)

    def back():
        try:
            response = viewer.get(where, "/targets")
        except OSError:
            return False
        return response.status == 200 and {role for role in viewer.targets(where) if role[0] != "coordinator"} >= roles

    leat.wait_for(lambda: job.pids("coordinator") not in [[], [pid]], "another coordinator")
    leat.wait_for(back, "all targets")


def test_tls(tmp_path):
    folder = certificate(tmp_path, "all", ALL, "127.0.0.1")
    directory = tmp_path / "job"
    with leat.Job("train", counter(tmp_path), "--directory", directory, "--pause-at", EVENTS // 2, "--metrics", "127.0.0.1:0",
                  "--security", folder, directory=directory, env=ENVIRONMENT, security=folder) as job:
        where = paused(job)
        token = view_token(TOKEN)
        with_token = Observer(token, authority=folder)
        targets = with_token.targets(where)
        assert len(targets) >= 6
        observer = Observer(authority=folder, certificate=certificate(tmp_path, "observer", "observer"))
        worker = Observer(authority=folder, certificate=certificate(tmp_path, "worker", "worker"))
        for address in targets.values():
            assert Observer(authority=folder).get(address, "/healthz").status == 200
            assert Observer(authority=folder).get(address, "/metrics").status == 401
            assert with_token.get(address, "/metrics").status == 200
            assert observer.get(address, "/metrics").status == 200
            assert worker.get(address, "/metrics").status == 401
            without = Observer(token).get(address, "/metrics")
            assert without.status == 400 and "https" in without.body
        other = certificate(tmp_path, "other", "observer", authority="authority-2")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Observer(authority=folder, certificate=other).get(where, "/metrics")
        job.go_on()
        assert job.wait(180) == 0, job.text()


def test_what_is_refused(tmp_path):
    directory = tmp_path / "job"
    job_file = counter(tmp_path)
    starts = {
        "train": ["train", job_file, "--directory", directory],
        "coordinator": ["coordinator", job_file, "--directory", directory],
        "worker": ["worker", "--coordinator", "127.0.0.1:1"],
        "ps": ["ps", "--coordinator", "127.0.0.1:1"],
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for start in starts.values():
            leat.refused(leat.run(*start, "--metrics", address, env=ENVIRONMENT), "--metrics: ", f"cannot listen on {address}",
                         "Address already in use", status=75)
    for start in starts.values():
        leat.refused(leat.run(*start, "--metrics", "0.0.0.0:0", env=ENVIRONMENT), "--metrics: ", "0.0.0.0:0", "--security DIR",
                     "--trusted-network")
        leat.refused(leat.run(*start, "--metrics", "9464", env=ENVIRONMENT), "--metrics: ", "9464")
    assert not directory.exists()


def test_alert_rules_and_dashboard(promtool):
    folder = leat.ROOT / "deploy/prometheus"
    for command in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"],
                    ["check", "config", "--syntax-only", "prometheus.yml"]]:
        done = subprocess.run([promtool, *command], cwd=folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 0, done.stdout
    board = json.loads((leat.ROOT / "deploy/grafana/leat.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 10
    table = documented()
    for text in [*expressions, (folder / "alerts.yml").read_text()]:
        for name in re.findall(r"\bleat_(?:job|member|worker|server|net|ready|build)\w*", text):
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in table or table.get(family, [""])[0] == "histogram" or name in {"leat_job"}, name


@pytest.mark.long
@pytest.mark.parametrize("tls", [False, True])
def test_a_prometheus_server_scrapes_all_roles_of_a_demo(tmp_path, tls):
    """By the configuration of deploy/prometheus. With TLS an observer's certificate takes the place of the token."""
    prometheus = packages.unpacked("prometheus") / "usr/bin/prometheus"
    port = leat.free_port()
    directory = tmp_path / "job"
    folder = certificate(tmp_path, "all", ALL, "127.0.0.1") if tls else None
    with leat.Job("demo", "--directory", directory, "--rate", "20000", "--metrics", f"127.0.0.1:{port}",
                  *(["--security", folder] if tls else []), directory=directory, env=ENVIRONMENT, security=folder) as job:
        (tmp_path / "view-token").write_text(view_token(TOKEN) + "\n")
        example = (leat.ROOT / "deploy/prometheus/prometheus.yml").read_text()
        changes = {"http://127.0.0.1:9464/": f"{'https' if tls else 'http'}://127.0.0.1:{port}/",
                   "[alerts.yml]": f"[{leat.ROOT}/deploy/prometheus/alerts.yml]"}
        if tls:
            observer = certificate(tmp_path, "observer", "observer")
            changes["authorization: {type: Bearer, credentials_file: /etc/prometheus/leat-view-token}"] = (
                f"tls_config: {{ca_file: {folder}/ca.pem, cert_file: {observer}/cert.pem, key_file: {observer}/key.pem}}")
        else:
            changes["/etc/prometheus/leat-view-token"] = str(tmp_path / "view-token")
        leat.write_job(tmp_path / "prometheus.yml", "global: {scrape_interval: 1s, evaluation_interval: 1s}\n" + example,
                       **changes, **{"      - url: ": "      - refresh_interval: 1s\n        url: "})
        api = f"127.0.0.1:{leat.free_port()}"
        with open(tmp_path / "prometheus.log", "w") as log:
            server = subprocess.Popen(
                [prometheus, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                 f"--web.listen-address={api}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            def ask(query):
                try:
                    response = Observer().get(api, "/api/v1/query?query=" + query)
                except OSError:
                    return []
                return json.loads(response.body)["data"]["result"] if response.status == 200 else []

            def up():
                assert server.poll() is None, (tmp_path / "prometheus.log").read_text()[-2000:]
                return {(r["metric"]["leat_role"], r["metric"]["leat_index"]) for r in ask("up==1")}

            roles = {("coordinator", "0"), ("ps", "0"), ("ps", "1"), ("worker", "0"), ("worker", "1"), ("bots", "0")}
            leat.wait_for(lambda: up() >= roles, "scrapes of all roles")
            leat.wait_for(lambda: any(float(r["value"][1]) > 0 for r in ask("rate(leat_job_events_total[10s])")), "a rate")
            assert ask("leat_job_loss"), "the loss"
            assert {r["metric"]["leat_index"] for r in ask("leat_worker_events_total")} == {"0", "1"}
            rules = json.loads(Observer().get(api, "/api/v1/rules").body)["data"]["groups"]
            assert rules and all(rule["health"] == "ok" for group in rules for rule in group["rules"]), rules
        finally:
            server.terminate()
            server.wait(60)
            job.interrupt()
            job.wait(180)
