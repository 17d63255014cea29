"""The manifests in deploy/kubernetes, and a job that scales itself on a real control plane. Long tests build Kubernetes."""

import hashlib
import json
import os
import pathlib
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
            assert ("LEAT_TRUSTED_NETWORK" in settings) == (overlay == "laptop")
        for probe in ("livenessProbe", "readinessProbe"):
            get = spec["containers"][0][probe]["httpGet"]
            assert get.get("scheme", "HTTP") == ("HTTP" if overlay == "laptop" else "HTTPS")
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
    """One line and exit status 2, before anything starts."""
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


# ---- one executor per job

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
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_real_api_server_accepts_the_manifests(cluster, overlay):
    cluster.kubectl("apply", "-f", FOLDER / "base/namespace.yaml")
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", FOLDER / "overlays" / overlay)
    assert not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 10 and all(line.endswith("(server dry run)") for line in lines), done.stdout
