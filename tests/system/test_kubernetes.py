"""The manifests in deploy/kubernetes, and a job that scales itself on a real control plane. Long tests build Kubernetes."""

# folders: deploy/kubernetes net/rpc/scaler

import hashlib
import json
import os
import shutil
import subprocess
import time

import pytest

import kubernetes_build
import leat
from test_strategies import values

FOLDER = leat.ROOT / "deploy/kubernetes"
RENDERED = leat.ROOT / "tests/system/kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
# KEDA's own kinds, of which kubernetes-validate has no schema.
KEDA = leat.ROOT / "tests/system/kubernetes/keda-crds.yaml"
ROLES = {"coordinator", "server", "worker"}
TOKEN = "known to all pods"


def sources():
    """A digest of all manifests."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(FOLDER)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def python():
    """A Python with kubernetes-validate and yaml."""
    return kubernetes_build.environment("kubernetes") / "bin/python3"


def documents(python, path):
    code = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
    done = subprocess.run([python, "-c", code, path], check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def rendered(python):
    """{overlay: its objects}, as `kubectl kustomize` has rendered them."""
    return {name: documents(python, RENDERED / f"{name}.yaml") for name in OVERLAYS}


def pods(objects):
    """{name: pod template's spec}"""
    return {found["metadata"]["name"]: found["spec"]["template"]["spec"] for found in objects
            if found["kind"] in ("StatefulSet", "Deployment")}


# ---- the manifests

@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_rendered_manifests_are_those_of_the_sources(overlay):
    """The default tier has no kustomize; the long tier compares what it renders."""
    first = (RENDERED / f"{overlay}.yaml").read_text().partition("\n")[0]
    assert first == f"# Rendered from the manifests {sources()}", "run test_kubernetes.py with LEAT_LONG=1 LEAT_WRITE_DOCS=1"


def test_all_manifests_are_valid(python):
    done = subprocess.run([python.parent / "kubernetes-validate", "--strict",
                           *(RENDERED / f"{name}.yaml" for name in OVERLAYS)],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    assert done.returncode == 0, done.stdout
    unknown = {line.split("for kind ")[1].split()[0] for line in done.stdout.splitlines() if "find schema" in line}
    assert unknown == {"ScaledObject", "TriggerAuthentication"}, done.stdout
    assert done.stdout.count("passed for resource") >= 9 * len(OVERLAYS), done.stdout


def test_the_validator_finds_mistakes(python, tmp_path):
    text = (RENDERED / "laptop.yaml").read_text()
    leat.write_job(tmp_path / "wrong.yaml", text, **{"readOnlyRootFilesystem": "readOnlyRootFileSystem"})
    done = subprocess.run([python.parent / "kubernetes-validate", "--strict", tmp_path / "wrong.yaml"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    assert done.returncode != 0 and "readOnlyRootFileSystem" in done.stdout


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_pods_may(rendered, overlay):
    objects = rendered[overlay]
    found = pods(objects)
    assert set(found) == ROLES
    assert not [o["kind"] for o in objects if "Role" in o["kind"]], "rights on the API server"
    names = set()
    for role, spec in found.items():
        assert spec["automountServiceAccountToken"] is False and spec["serviceAccountName"] == "leat"
        assert spec["securityContext"]["runAsUser"] == 10001 and spec["securityContext"]["runAsNonRoot"]
        assert spec["terminationGracePeriodSeconds"] >= 60
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            settings = {entry["name"]: entry for entry in container["env"]}
            assert settings["LEAT_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "token", "key": "token"}}
            assert ("LEAT_TRUSTED_NETWORK" in settings) != ("LEAT_SECURITY" in settings)
            if container["name"] in ROLES:
                labels = [settings[name]["valueFrom"]["fieldRef"]["fieldPath"] for name in ("LEAT_SITE", "LEAT_ZONE")]
                assert labels == [f"metadata.labels['topology.kubernetes.io/{part}']" for part in ("region", "zone")]
            assert ("LEAT_TRUSTED_NETWORK" in settings) == (overlay == "laptop")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = spec["containers"][0][probe]["httpGet"]
            assert get.get("scheme", "HTTP") == ("HTTP" if overlay == "laptop" else "HTTPS")
        # A resume checks the whole checkpoint first, and waits for brokers; a role that has done nothing for a minute is not alive.
        start, alive = (spec["containers"][0][probe] for probe in ("startupProbe", "livenessProbe"))
        assert start["periodSeconds"] * start["failureThreshold"] >= (3600 if role == "coordinator" else 300)
        assert alive.get("periodSeconds", 10) * alive["failureThreshold"] == 60
        secrets = {v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}
        assert "admin-tls" not in secrets
        assert overlay == "laptop" or f"{role}-tls" in secrets
        names |= secrets
    (policy,) = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == "leat"]
    assert policy["podSelector"] == {} and set(policy["policyTypes"]) == {"Ingress", "Egress"}
    own, names_service = policy["egress"][0]["to"], policy["egress"][1]["to"]
    assert own == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "leat"}}}]
    assert names_service == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]
    (budget,) = [o["spec"] for o in objects if o["kind"] == "PodDisruptionBudget"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"]["app.kubernetes.io/component"] == "server"


def test_what_scales(rendered):
    for overlay, objects in rendered.items():
        scalers = [o["kind"] for o in objects if o["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")]
        assert scalers == {"hpa": ["HorizontalPodAutoscaler"], "keda": ["ScaledObject"]}.get(overlay, [])
        scaler = [a for a in pods(objects)["coordinator"]["containers"][0]["args"] if a.startswith("--scaler")]
        assert bool(scaler) == (overlay == "keda")
        # A number would be set again by each `kubectl apply`.
        (worker,) = [o for o in objects if o["kind"] == "Deployment"]
        assert "replicas" not in worker["spec"]
    (hpa,) = [o["spec"] for o in rendered["hpa"] if o["kind"] == "HorizontalPodAutoscaler"]
    (keda,) = [o["spec"] for o in rendered["keda"] if o["kind"] == "ScaledObject"]
    behavior = keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert hpa["behavior"] == behavior
    for direction in behavior.values():
        assert direction["tolerance"] == "0" and direction["stabilizationWindowSeconds"] == 0
    (metric,) = hpa["metrics"]
    assert metric["external"] == {"metric": {"name": "leat_wanted_workers"},
                                  "target": {"type": "AverageValue", "averageValue": "1"}}


@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_manifest_without_a_token(rendered, tmp_path, role):
    """The error is one line and exit status 2, before anything starts."""
    job = tmp_path / "job.yaml"
    (text,) = [o["data"]["job.yaml"] for o in rendered["laptop"] if o["kind"] == "ConfigMap"]
    job.write_text(text)
    arguments = [a.replace("$(POD_IP)", "127.0.0.1").replace("/etc/leat/job/job.yaml", str(job))
                 .replace("/var/lib/leat", str(tmp_path)) for a in pods(rendered["laptop"])[role]["containers"][0]["args"]]
    # The user of a container has no home.
    environment = {"PATH": os.environ["PATH"], "HOME": "/proc/none", "LEAT_TRUSTED_NETWORK": "1"}
    done = subprocess.run([leat.PROGRAM, *arguments], env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    leat.refused(done, "set LEAT_TOKEN instead")
    assert not (tmp_path / "job").exists()


# ---- a single executor per job

def counting_job(path, workers="1:4", more=""):
    """Its parameters are the number of events. A worker trains 2000 a second at most, and needs little of a processor."""
    return leat.write_job(
        path, (leat.EXAMPLES / "counter.yaml").read_text(),
        **{"  bots: {events: 1000000, customers: 1000}\n": "  log: /var/lib/leat/log\n  live: true\n",
           "units: 16384": "units: 64", "split_batches: 20": "split_batches: 4",
           "workers: 3, ps: 2, placement: partitioned": f'workers: "{workers}", ps: 2, placement: partitioned',
           "interval_s: 5}": "interval_s: 5}\nautoscale: {lag_s: 0.5, cool_down_s: 1" + more + "}\ndebug: {step_ms: 50}"})


def test_a_second_executor_is_refused(tmp_path):
    text = (leat.EXAMPLES / "counter.yaml").read_text() + 'autoscale: {command: [kubectl, scale, "--replicas={workers}"]}\n'
    job = tmp_path / "job.yaml"
    job.write_text(text)
    environment = {"LEAT_TOKEN": TOKEN}
    leat.refused(leat.run("coordinator", job, "--directory", tmp_path / "job", "--scaler", "127.0.0.1:0", env=environment),
                 "--scaler", "autoscale: command")
    leat.refused(leat.run("train", job, "--directory", tmp_path / "job"), "leat train", "autoscale: command")
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("arguments, parts", [
    (["--scaler", "0.0.0.0:0"], ["--scaler", "--trusted-network"]),
    (["--scaler", "nowhere"], ["--scaler", "nowhere"]),
    (["--auto-resume", "--resume", "there"], ["--auto-resume"]),
])
def test_refused_options(tmp_path, arguments, parts):
    where = [] if "--resume" in arguments else ["--directory", tmp_path / "job"]
    leat.refused(leat.run("coordinator", leat.EXAMPLES / "counter.yaml", *where, *arguments, env={"LEAT_TOKEN": TOKEN}),
                 *parts)
    assert not (tmp_path / "job").exists()


# ---- a real control plane

@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    from kubernetes_cluster import Cluster
    if os.geteuid() != 0:
        pytest.skip("containers need mount namespaces, and thus root")
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.kubectl("apply", "-f", KEDA)
        made.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        yield made


@pytest.mark.long
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_renders_what_is_kept(overlay):
    kubectl = kubernetes_build.programs() / "kubectl"
    done = subprocess.run([kubectl, "kustomize", FOLDER / "overlays" / overlay], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = f"# Rendered from the manifests {sources()}\n{done.stdout}"
    path = RENDERED / f"{overlay}.yaml"
    if os.environ.get("LEAT_WRITE_DOCS") == "1":
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.long
def test_object_storage_is_a_component(python, tmp_path):
    base = os.path.relpath(FOLDER.resolve(), tmp_path.resolve())
    (tmp_path / "kustomization.yaml").write_text(json.dumps({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "leat",
        "resources": [f"{base}/overlays/cluster"], "components": [f"{base}/components/s3"]}))
    done = subprocess.run([kubernetes_build.programs() / "kubectl", "kustomize", tmp_path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    (tmp_path / "rendered.yaml").write_text(done.stdout)
    subprocess.run([python.parent / "kubernetes-validate", "--strict", tmp_path / "rendered.yaml"], check=True, timeout=120)
    objects = documents(python, tmp_path / "rendered.yaml")
    for role, spec in pods(objects).items():
        assert spec["containers"][0]["envFrom"] == [{"secretRef": {"name": "s3"}}], role
    (policy,) = [o for o in objects if o["kind"] == "NetworkPolicy"]
    assert {"ports": [{"port": 443}], "to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]} in policy["spec"]["egress"]


@pytest.mark.long
def test_classes_of_hosts_are_set_beside_the_node_selectors(python, tmp_path):
    kubectl = kubernetes_build.programs() / "kubectl"
    folder = tmp_path / "own"
    folder.mkdir()
    paths = {name: os.path.relpath(FOLDER / name, folder) for name in ("overlays/laptop", "components/host-classes")}
    (folder / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        f"resources: [{paths['overlays/laptop']}]\ncomponents: [{paths['components/host-classes']}]\n")
    done = subprocess.run([kubectl, "kustomize", folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr
    (folder / "rendered.yaml").write_text(done.stdout)
    found = pods(documents(python, folder / "rendered.yaml"))
    for role, of_class in [("server", "bandwidth"), ("worker", "cores")]:
        assert found[role]["nodeSelector"] == {"leat/class": of_class}
        settings = {entry["name"]: entry.get("value") for entry in found[role]["containers"][0]["env"]}
        assert settings["LEAT_CLASS"] == of_class


@pytest.mark.long
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_real_api_server_accepts_the_manifests(cluster, overlay):
    cluster.kubectl("apply", "-f", FOLDER / "base/namespace.yaml")
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", FOLDER / "overlays" / overlay)
    assert not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 10 and all(line.endswith("(server dry run)") for line in lines), done.stdout


class Deployed:
    """A counting job on the cluster, from an overlay as a user would write it, and the events that are published."""

    CHUNK = 20_000

    def __init__(self, cluster, folder, components, certificates=None, patches=()):
        self.cluster, self.folder, self.certificates = cluster, folder, certificates
        self.kubelet, self.api = cluster.kubelet, cluster.api
        self.published = 0
        folder.mkdir()
        counting_job(folder / "job.yaml")
        self.address = self.kubelet.address("coordinator-0")
        self.data = self.kubelet.claim("data-coordinator-0")
        (folder / "events.jsonl").write_text('{"amount": 1, "fraud": 0}\n' * self.CHUNK)
        self.looked_at, self.last_status = 0.0, {}
        self.publish()
        overlay = folder / "overlay"
        overlay.mkdir()
        base = os.path.relpath(FOLDER.resolve(), overlay.resolve())
        (folder / "job.yaml").rename(overlay / "job.yaml")
        (overlay / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "leat",
            "resources": [f"{base}/base"], "components": [f"{base}/components/{name}" for name in components],
            "configMapGenerator": [{"name": "job", "behavior": "replace", "files": ["job.yaml"]}],
            "patches": list(patches)}))
        cluster.kubectl("apply", "-f", FOLDER / "base/namespace.yaml")
        cluster.kubectl("-n", "leat", "create", "secret", "generic", "token", f"--from-literal=token={TOKEN}")
        if certificates:
            for role in ("coordinator", "server", "worker", "observer"):
                cluster.kubectl("-n", "leat", "create", "secret", "generic", f"{role}-tls",
                                f"--from-file={certificates / role}")
        cluster.kubectl("apply", "--validate=strict", "-k", overlay)
        leat.wait_for(lambda: self.status().get("events", 0) > 0, "training", 180)

    def publish(self):
        # As the user of the pods, who may pass the folders of this test.
        passes = "+dac_read_search,+dac_override"
        done = subprocess.run(["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", f"--inh-caps={passes}",
                               f"--ambient-caps={passes}", leat.PROGRAM, "publish", self.folder / "events.jsonl",
                               "--topic", "events", "--log", self.data / "log"],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert done.returncode == 0, done.stderr
        self.published += self.CHUNK

    def leat(self, *arguments):
        secured = ["--security", self.certificates / "observer"] if self.certificates else ["--trusted-network"]
        return leat.run(*arguments, "--coordinator", f"{self.address}:4000", *secured, env={"LEAT_TOKEN": TOKEN})

    def status(self):
        """The status, at most half a second old; empty while the coordinator does not answer."""
        assert self.kubelet.failure is None, self.kubelet.failure
        if time.monotonic() - self.looked_at > 0.5:
            done = self.leat("status", "--json")
            self.last_status = json.loads(done.stdout) if done.returncode == 0 else {}
            self.looked_at = time.monotonic()
        return self.last_status

    def workers(self):
        """Members of the job, and replicas that Kubernetes wants."""
        members = [m for m in self.status().get("members", []) if m["role"] == "worker"]
        scale = self.api("GET", "/apis/apps/v1/namespaces/leat/deployments/worker/scale")
        return len(members), scale["spec"].get("replicas", 0)

    def grows_to_four_and_shrinks_to_one(self):
        def busy():
            if self.published - self.status().get("events", self.published) < 2 * self.CHUNK:
                self.publish()
            return self.workers() == (4, 4)
        leat.wait_for(busy, "four workers", 300)
        # With KEDA, it may be gone when this looks.
        leat.wait_for(lambda: max(self.workers()) <= 1, "one worker", 300)
        leat.wait_for(lambda: len(self.kubelet.pods_of("worker")) <= 1, "the end of the other pods")
        self.all_is_trained()
        events = self.api("GET", "/api/v1/namespaces/leat/events?fieldSelector=reason=SuccessfulRescale")["items"]
        sizes = {int(event["message"].split("New size: ")[1].split(";")[0]) for event in events}
        assert {1, 4} <= sizes <= {1, 2, 3, 4}, events

    def all_is_trained(self):
        leat.wait_for(lambda: self.status().get("events") == self.published, "the last event")

    def ends_exactly(self):
        """Every event counts once, and pods that have left have done so in order."""
        self.all_is_trained()
        self.cluster.kubectl("-n", "leat", "scale", "statefulset/coordinator", "--replicas=0")
        leat.wait_for(lambda: not self.kubelet.pods_of("coordinator"), "the end of the coordinator")
        assert ("coordinator-0", [[0]]) in self.kubelet.left, self.kubelet.left
        assert values(self.data / "job") == {float(self.published)}
        workers = [ends for name, ends in self.kubelet.left if name.startswith("worker-")]
        assert workers and all(ends[-1][-1:] == [0] for ends in workers), self.kubelet.left
        assert not self.kubelet.killed

    def end(self):
        self.cluster.kubectl("delete", "namespace", "leat", "--wait=false")
        def gone():
            for pod in list(self.kubelet.pods.values()):
                pod.kill_at = pod.kill_at and 0
            return not self.kubelet.pods and self.api.status("GET", "/api/v1/namespaces/leat") == 404
        leat.wait_for(gone, "the end of the namespace", 180)
        shutil.rmtree(self.data)
        self.kubelet.left.clear()
        self.kubelet.killed.clear()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            print(json.dumps(self.status().get("wanted")), self.kubelet.report())
        self.end()


@pytest.fixture(scope="module")
def metrics(cluster, tmp_path_factory):
    from kubernetes_scaling import ExternalMetrics
    made = ExternalMetrics(cluster.api, tmp_path_factory.mktemp("metrics"))
    yield made
    made.close()


@pytest.mark.long
def test_the_autoscaler_of_kubernetes_follows_the_gauge(cluster, metrics, tmp_path):
    from kubernetes_scaling import Gauge
    with Deployed(cluster, tmp_path / "job", ["trusted-network", "hpa"]) as job:
        metrics.source = Gauge(f"{job.address}:4003", TOKEN)
        job.grows_to_four_and_shrinks_to_one()
        crashing_pods_do_not_pile_up(job)
        a_server_hands_over_what_it_has(job)
        nothing_is_allowed(cluster)
        job.ends_exactly()
        metrics.source = None


def crashing_pods_do_not_pile_up(job):
    """A worker that is killed comes back in its pod, and its former self is soon no member any more."""
    for _ in range(3):
        (pod,) = job.kubelet.pods_of("worker")
        (container,) = pod.containers
        restarts = container.restarts
        os.killpg(container.process.pid, 9)
        leat.wait_for(lambda: container.restarts > restarts and container.ready, "the restart of the worker")
        leat.wait_for(lambda: job.workers() == (1, 1), "one worker")


def a_server_hands_over_what_it_has(job):
    """When its pod is deleted, within the grace period; the next one gets slices again."""
    job.cluster.kubectl("-n", "leat", "delete", "pod", "server-1", "--wait=false")
    leat.wait_for(lambda: any(name == "server-1" for name, _ in job.kubelet.left), "the end of the server")
    assert ("server-1", [[0]]) in job.kubelet.left, job.kubelet.left

    def back():
        servers = [m for m in job.status().get("members", []) if m["role"] == "ps"]
        return len(servers) == 2 and all(m.get("bytes_held", 0) > 0 for m in servers)
    leat.wait_for(back, "the return of the server")
    job.publish()
    job.all_is_trained()


def nothing_is_allowed(cluster):
    """The API server refuses the service account of the pods every request for an object."""
    from kubernetes_cluster import Api
    path = "/api/v1/namespaces/leat/serviceaccounts/leat/token"
    token = cluster.api("POST", path, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}})
    account = Api(cluster.port, token["status"]["token"])
    groups = ["/api/v1"] + [f"/apis/{version['groupVersion']}" for group in cluster.api("GET", "/apis")["groups"]
                            for version in group["versions"]]
    asked = 0
    for group in groups:
        for resource in cluster.api("GET", group)["resources"]:
            # Kubernetes lets every account ask what it may do itself, and read the certificates that all trust.
            if "/" in resource["name"] or resource["name"].startswith(("self", "clustertrustbundles")):
                continue
            inside = "/namespaces/leat" if resource["namespaced"] else ""
            where = f"{group}{inside}/{resource['name']}"
            for verb, method in (("list", "GET"), ("get", "GET"), ("create", "POST"), ("delete", "DELETE")):
                if verb not in resource["verbs"]:
                    continue
                at = where if verb in ("list", "create") else f"{where}/some"
                assert account.status(method, at, {} if method == "POST" else None) == 403, (method, at)
                asked += 1
    assert asked > 150
    assert cluster.api.status("GET", "/api/v1/namespaces/leat/pods") == 200


@pytest.fixture(scope="module")
def certificates(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    def cert(*arguments):
        done = leat.run("cert", *arguments)
        assert done.returncode == 0, done.stderr
    cert("init", folder / "ca")
    for role in ("coordinator", "server", "worker", "observer"):
        names = ["coordinator", "coordinator.leat.svc.cluster.local", cluster.kubelet.address("coordinator-0")]
        hosts = names if role == "coordinator" else []
        cert("issue", role, *hosts, "--authority", folder / "ca", "--out", folder / role)
    return folder


@pytest.mark.long
def test_keda_asks_the_coordinator_and_scales_to_zero(cluster, metrics, certificates, tmp_path):
    from kubernetes_scaling import Keda, Scaler
    sooner = {"target": {"kind": "ScaledObject"},
              "patch": '[{"op": "replace", "path": "/spec/cooldownPeriod", "value": 5}]'}
    with Deployed(cluster, tmp_path / "job", ["tls", "keda", "keda-tls"], certificates, [sooner]) as job:
        scaler = Scaler(f"{job.address}:4004", certificates / "observer")
        metrics.source = scaler
        keda = Keda(cluster.api, scaler, time.monotonic)
        try:
            job.grows_to_four_and_shrinks_to_one()
            for _ in range(2):
                leat.wait_for(lambda: job.workers() == (0, 0), "the end of the last worker")
                assert not scaler.is_active()
                job.publish()
                leat.wait_for(lambda: job.workers()[1] >= 1, "the first worker")
                job.all_is_trained()
            assert keda.steps[:4] == [0, 1, 0, 1], keda.steps
            job.ends_exactly()
        finally:
            keda.close()
            metrics.source = None
