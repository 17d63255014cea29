"""Executors of a job's scaling on a cluster, for tests: a provider of external metrics behind the aggregation layer, as
prometheus-adapter and KEDA's metrics server are, and the loop of KEDA's operator."""

import contextlib
import datetime
import http.server
import json
import ssl
import subprocess
import sys
import threading

import kubernetes_build
from kubernetes_cluster import Refused
from observers import Observer, view_token

GROUP = "external.metrics.k8s.io"
METRIC = "leat_wanted_workers"


class NotKnown(Exception):
    """There is no value of a metric now."""


# ---- the scaler's messages

def encoded(*fields):
    """A protobuf message of (number, text or message) pairs, all shorter than 128 bytes."""
    message = b""
    for number, value in fields:
        content = value.encode() if isinstance(value, str) else value
        assert len(content) < 128
        message += bytes([number << 3 | 2, len(content)]) + content
    return message


def decoded(message):
    """{number: [values]} of a protobuf message: integers, bytes of other fields."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = 8 if key & 7 == 1 else varint()
            value = message[at:at + size]
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


class Scaler:
    """The scaler interface of a coordinator, as KEDA uses it. `certificate`: an observer's folder; none: no TLS."""

    def __init__(self, address, certificate=None):
        (packages,) = (kubernetes_build.environment("kubernetes") / "lib").glob("python3*/site-packages")
        if str(packages) not in sys.path:
            sys.path.append(str(packages))
        import grpc
        self.grpc = grpc
        if certificate:
            credentials = grpc.ssl_channel_credentials(*((certificate / name).read_bytes()
                                                         for name in ("ca.pem", "key.pem", "cert.pem")))
            options = [("grpc.ssl_target_name_override", "coordinator.leat.svc.cluster.local")]
            self.channel = grpc.secure_channel(address, credentials, options)
        else:
            self.channel = grpc.insecure_channel(address)
        self.object = encoded((1, "worker"), (2, "leat"))

    def call(self, method, message):
        try:
            return decoded(self.channel.unary_unary(f"/externalscaler.ExternalScaler/{method}")(message, timeout=20))
        except self.grpc.RpcError as e:
            raise NotKnown(f"{method}: {e.code()}: {e.details()}") from e

    def is_active(self):
        return self.call("IsActive", self.object).get(1) == [1]

    def target(self):
        (spec,) = self.call("GetMetricSpec", self.object)[1]
        return decoded(spec)[1][0].decode(), decoded(spec)[2][0]

    def wanted(self):
        (value,) = self.call("GetMetrics", encoded((1, self.object), (2, METRIC)))[1]
        return decoded(value)[2][0]

    def follow(self):
        """Yields what StreamIsActive says, until the coordinator ends."""
        with contextlib.suppress(self.grpc.RpcError):
            for message in self.channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive")(self.object):
                yield decoded(message).get(1) == [1]

    def close(self):
        self.channel.close()


class Gauge:
    """The coordinator's gauge, by the rule of components/hpa/adapter-rules.yaml."""

    def __init__(self, address, token):
        self.address = address
        self.observer = Observer(view_token(token))

    def wanted(self):
        try:
            value = self.observer.metrics(self.address).value(METRIC)
        except OSError as e:
            raise NotKnown(str(e)) from e
        if value == 0:
            raise NotKnown("0")
        return int(value)


# ---- the provider of external metrics

class ExternalMetrics:
    """Serves external.metrics.k8s.io from `source`, which may be replaced: None has no metric."""

    def __init__(self, api, folder):
        self.source = None
        self.asked = 0
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-keyout", folder / "metrics.key", "-out", folder / "metrics.pem"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # noqa: N802
                status, body = provider.answer(self.path.partition("?")[0])
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "metrics.pem", folder / "metrics.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        port = self.server.server_address[1]
        api("POST", "/api/v1/namespaces/default/services", {
            "kind": "Service", "apiVersion": "v1", "metadata": {"name": "external-metrics"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}})
        api("POST", "/apis/apiregistration.k8s.io/v1/apiservices", {
            "kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": {"name": f"v1beta1.{GROUP}"},
            "spec": {"group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                     "insecureSkipTLSVerify": True,
                     "service": {"namespace": "default", "name": "external-metrics", "port": port}}})

    def answer(self, path):
        version = f"{GROUP}/v1beta1"
        parts = path.strip("/").split("/")
        if parts == ["apis", GROUP, "v1beta1"]:
            return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
                {"name": METRIC, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList",
                 "verbs": ["get"]}]}
        if parts[:3] != ["apis", GROUP, "v1beta1"] or len(parts) != 6:
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        self.asked += 1
        try:
            if self.source is None:
                raise NotKnown("no source")
            value = str(self.source.wanted())
        except NotKnown as e:
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                         "message": str(e)}
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, {"kind": "ExternalMetricValueList", "apiVersion": version, "metadata": {}, "items": [
            {"metricName": parts[5], "metricLabels": {}, "timestamp": now, "value": value}]}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Keda:
    """The operator, for one ScaledObject: an autoscaler of Kubernetes for 1 to n, and the steps 0 ↔ 1 of its own."""

    PATH = "/apis/keda.sh/v1alpha1/namespaces/leat/scaledobjects/worker"
    SCALE = "/apis/apps/v1/namespaces/leat/deployments/worker/scale"

    def __init__(self, api, scaler, clock):
        self.api = api
        self.scaler = scaler
        self.clock = clock
        self.spec = api("GET", self.PATH)["spec"]
        (trigger,) = self.spec["triggers"]
        assert trigger["type"] == "external-push"
        metric, target = scaler.target()
        api("POST", "/apis/autoscaling/v2/namespaces/leat/horizontalpodautoscalers", {
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "keda-hpa-worker"},
            "spec": {"scaleTargetRef": self.spec["scaleTargetRef"],
                     "minReplicas": max(self.spec["minReplicaCount"], 1), "maxReplicas": self.spec["maxReplicaCount"],
                     "metrics": [{"type": "External", "external": {
                         "metric": {"name": f"s0-{metric}"},
                         "target": {"type": trigger["metricType"], "averageValue": str(target)}}}],
                     **self.spec["advanced"]["horizontalPodAutoscalerConfig"]}})
        self.steps = []  # numbers of replicas that it has set
        self.active_at = clock()
        self.pushed = threading.Event()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.run, self.follow)]
        for thread in self.threads:
            thread.start()

    def follow(self):
        while not self.stopping.wait(0.5):
            for active in self.scaler.follow():
                if active:
                    self.pushed.set()

    def run(self):
        while not self.stopping.is_set():
            pushed = self.pushed.wait(0.5)
            self.pushed.clear()
            with contextlib.suppress(NotKnown, Refused, OSError):
                self.step(pushed or self.scaler.is_active())

    def step(self, active):
        now = self.clock()
        replicas = self.api("GET", self.SCALE)["spec"].get("replicas", 0)
        if active:
            self.active_at = now
        if active and replicas == 0:
            self.set(1)
        if not active and replicas > 0 and now - self.active_at >= self.spec["cooldownPeriod"]:
            self.set(0)

    def set(self, replicas):
        self.api("PATCH", self.SCALE, {"spec": {"replicas": replicas}}, "application/merge-patch+json")
        self.steps.append(replicas)

    def close(self):
        self.stopping.set()
        self.threads[0].join(60)
        self.scaler.close()  # ends the stream
        self.threads[1].join(30)
