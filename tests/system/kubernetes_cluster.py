"""A Kubernetes cluster on this machine's loopback, without containers: etcd, the API server and the controller manager are
real; pods run as host processes, each container in a root of its own, as the kubelet would have it: read-only, with the
user, the volumes and the secrets of its manifest, and no capability."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import ssl
import subprocess
import threading
import time

import kubernetes_build
import leat
import packages

TOKEN = "administrator"
NODE = "stand-in"
# Directories of the host, in each container's root.
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")


class Refused(Exception):
    """An answer of the API server other than success."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:500]}")
        self.status = status


class Api:
    """Requests to the API server. Thread-safe."""

    def __init__(self, port, token=TOKEN):
        self.port = port
        self.token = token
        self.context = ssl._create_unverified_context()

    def __call__(self, method, path, body=None, kind="application/json"):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Content-Type": kind}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        if response.status >= 300:
            raise Refused(response.status, text)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def status(self, method, path, body=None):
        """The status of the answer."""
        try:
            self(method, path, body)
        except Refused as e:
            return e.status
        return 200


class Processes:
    """Daemons that end in the reverse order of their start."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.log", "w") as log:
            process = subprocess.Popen(list(map(str, arguments)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
        self.running.append((name, process))
        return process

    def said(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def end(self):
        while self.running:
            _, process = self.running.pop()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Cluster:
    """The control plane, and the kubelet's stand-in."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = kubernetes_build.programs()
        self.processes = Processes(folder)
        self.port, self.etcd_port, etcd_peer, self.manager_port = leat.free_ports(4)
        self.api = Api(self.port)
        try:
            self.start(etcd_peer)
            self.kubelet = Kubelet(self.api, folder)
        except BaseException:
            self.processes.end()
            raise

    def start(self, etcd_peer):
        folder, etcd = self.folder, packages.unpacked("kubernetes") / "usr/bin/etcd"
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{etcd_peer}"
        self.processes.start("etcd", etcd, "--data-dir", folder / "etcd", "--listen-client-urls", client,
                             "--advertise-client-urls", client, "--listen-peer-urls", peer,
                             "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                             "--unsafe-no-fsync")
        for name in ("accounts", "proxy"):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (folder / "tokens.csv").write_text(f'"{TOKEN}",admin,1,"system:masters"\n')
        self.processes.start(
            "kube-apiserver", self.programs / "kube-apiserver", f"--etcd-servers={client}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--secure-port={self.port}",
            f"--cert-dir={folder / 'apiserver'}",
            "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'accounts.pem'}",
            f"--service-account-signing-key-file={folder / 'accounts.key'}", "--authorization-mode=RBAC",
            f"--token-auth-file={folder / 'tokens.csv'}", f"--requestheader-client-ca-file={folder / 'proxy.pem'}",
            f"--proxy-client-cert-file={folder / 'proxy.pem'}", f"--proxy-client-key-file={folder / 'proxy.key'}",
            "--requestheader-username-headers=X-Remote-User")
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                      "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}]}))
        leat.wait_for(self.ready, "the start of the API server", 180)
        self.processes.start(
            "kube-controller-manager", self.programs / "kube-controller-manager", f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false", f"--secure-port={self.manager_port}", "--bind-address=127.0.0.1",
            f"--cert-dir={folder / 'manager'}",
            f"--service-account-private-key-file={folder / 'accounts.key'}",
            "--controllers=deployment-controller,replicaset-controller,statefulset-controller,disruption-controller,"
            "horizontal-pod-autoscaler-controller,serviceaccount-controller,garbage-collector-controller,"
            "namespace-controller,persistentvolumeclaim-protection-controller",
            "--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=5s")

    def ready(self):
        for name, process in self.processes.running:
            assert process.poll() is None, f"{name}:\n{self.processes.said(name)[-3000:]}"
        with contextlib.suppress(OSError, Refused):
            return self.api("GET", "/readyz") == "ok"

    def kubectl(self, *arguments, check=True, **options):
        done = subprocess.run([self.programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *map(str, arguments)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **options)
        assert not check or done.returncode == 0, done.stderr
        return done

    def end(self):
        self.kubelet.end()
        self.processes.end()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            print(self.kubelet.report())
            print("kube-controller-manager:\n" + self.processes.said("kube-controller-manager")[-3000:])
        self.end()


class Container:
    """A container of a pod, as a process of this host, which is started again when it ends."""

    def __init__(self, pod, spec):
        self.pod = pod
        self.spec = spec
        self.name = spec["name"]
        self.process = None
        self.restarts = -1
        self.next_start = 0.0
        self.ready = False
        self.ends = []  # exit statuses
        self.log = pod.folder / f"{self.name}.log"

    def variables(self):
        found = {}
        for entry in self.spec.get("env", []):
            source = entry.get("valueFrom", {})
            if "secretKeyRef" in source:
                found[entry["name"]] = self.pod.kubelet.secret(self.pod.namespace, source["secretKeyRef"])
            elif "fieldRef" in source:
                found[entry["name"]] = self.pod.field(source["fieldRef"]["fieldPath"])
            else:
                found[entry["name"]] = entry["value"]
        return found

    def script(self, variables):
        """Makes the root in a mount namespace of its own, and becomes the program in it."""
        context = {**self.pod.spec["securityContext"], **self.spec["securityContext"]}
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]} and context["runAsNonRoot"]
        root = self.pod.kubelet.folder / "root"
        lines = ["set -e", f"mount -t tmpfs -o mode=755 leat {root}", f"cd {root}"]
        for name in SYSTEM:
            host = pathlib.Path("/", name)
            if host.is_symlink():
                lines.append(f"ln -s {os.readlink(host)} {name}")
            elif host.is_dir():
                lines.append(f"mkdir {name}; mount --bind {host} {name}; mount -o remount,bind,ro {name}")
        lines += ["mkdir proc dev etc", "mount --bind /proc proc", "mount --rbind /dev dev",
                  f"cp {self.pod.kubelet.hosts_file} etc/hosts", f"touch leat; mount --bind {leat.PROGRAM} leat"]
        for mount in self.spec["volumeMounts"]:
            at = mount["mountPath"].lstrip("/")
            lines.append(f"mkdir -p {at}; mount --bind {self.pod.volumes[mount['name']]} {at}")
            if mount.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {at}")
        lines.append(f"mount -o remount,ro {root}")
        arguments = []
        for argument in self.spec["args"]:
            for name, value in variables.items():
                argument = argument.replace(f"$({name})", value)
            arguments.append(argument)
        settings = [f"{name}={value}" for name, value in variables.items()]
        lines.append("exec " + shlex.join([
            "chroot", str(root), "/usr/bin/setpriv", f"--reuid={context['runAsUser']}", f"--regid={context['runAsGroup']}",
            f"--groups={context['fsGroup']}", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "/usr/bin/env",
            "-i", *settings, "/leat", *arguments]))
        return "\n".join(lines)

    def start(self):
        script = self.script(self.variables())
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        self.restarts += 1

    def step(self, now):
        """Starts the container when it is time, and looks whether it is ready."""
        if self.process is not None and self.process.poll() is not None:
            self.ends.append(self.process.returncode)
            self.process = None
            self.ready = False
            self.next_start = now + min(2 ** self.restarts, 10)
        if self.process is None:
            if now >= self.next_start and not self.pod.leaving:
                self.start()
        else:
            self.ready = self.probe("readinessProbe")

    def probe(self, which):
        if which not in self.spec:
            return True
        wanted = self.spec[which]["httpGet"]
        (port,) = [p["containerPort"] for p in self.spec["ports"] if p["name"] == wanted["port"]]
        make = http.client.HTTPConnection
        options = {"timeout": 5}
        if wanted.get("scheme") == "HTTPS":
            make = http.client.HTTPSConnection
            options["context"] = ssl._create_unverified_context()
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = make(self.pod.ip, port, **options)
            with contextlib.closing(connection):
                connection.request("GET", wanted["path"])
                return connection.getresponse().status == 200
        return False

    def status(self):
        running = {"running": {"startedAt": None}} if self.process else {"waiting": {"reason": "CrashLoopBackOff"}}
        return {"name": self.name, "image": self.spec["image"], "imageID": "", "ready": self.ready,
                "restartCount": max(self.restarts, 0), "state": running, "started": self.process is not None}


class Pod:
    def __init__(self, kubelet, found):
        self.kubelet = kubelet
        self.name, self.namespace = found["metadata"]["name"], found["metadata"]["namespace"]
        self.uid = found["metadata"]["uid"]
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.labels = found["metadata"].get("labels", {})
        self.spec = found["spec"]
        self.ip = kubelet.address(self.name)
        self.folder = kubelet.folder / self.name
        self.folder.mkdir(exist_ok=True)
        self.volumes = {volume["name"]: self.mount(volume) for volume in self.spec["volumes"]}
        self.containers = [Container(self, spec) for spec in self.spec["containers"]]
        self.leaving = False
        self.kill_at = None
        self.told = None

    def field(self, path):
        """The value of a field of the downward API; empty for a missing label."""
        if path == "status.podIP":
            return self.ip
        assert path.startswith("metadata.labels['") and path.endswith("']"), path
        return self.labels.get(path[len("metadata.labels['"):-2], "")

    def mount(self, volume):
        group = self.spec["securityContext"]["fsGroup"]
        if "persistentVolumeClaim" in volume:
            return self.kubelet.claim(volume["persistentVolumeClaim"]["claimName"], group)
        at = self.folder / "volumes" / self.uid / volume["name"]
        at.mkdir(parents=True, exist_ok=True)
        os.chown(at, 0, group)
        if "emptyDir" in volume:
            at.chmod(0o2777)
            return at
        at.chmod(0o755)
        for name, content in self.kubelet.files(self.namespace, volume).items():
            (at / name).write_bytes(content)
            os.chown(at / name, 0, group)
            (at / name).chmod(volume["secret"].get("defaultMode", 0o640) if "secret" in volume else 0o644)
        return at

    def signal(self, which):
        for container in self.containers:
            if container.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(container.process.pid, which)

    def over(self):
        return all(container.process is None for container in self.containers)

    def step(self, now, found):
        leaves = found["metadata"].get("deletionTimestamp")
        if leaves and not self.leaving:
            self.leaving = True
            self.signal(signal.SIGTERM)
            self.kill_at = now + found["metadata"].get("deletionGracePeriodSeconds", 30)
        for container in self.containers:
            container.step(now)
        if self.leaving and self.over():
            self.kubelet.left.append((self.name, [container.ends for container in self.containers]))
            with contextlib.suppress(Refused):
                self.kubelet.api("DELETE", self.path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                                                       "preconditions": {"uid": self.uid}})
            return False
        if self.leaving and now >= self.kill_at:
            self.kubelet.killed.append(self.name)
            self.signal(signal.SIGKILL)
        self.tell()
        return True

    def tell(self):
        ready = str(all(container.ready for container in self.containers))
        status = {"phase": "Running", "podIP": self.ip, "podIPs": [{"ip": self.ip}], "hostIP": "127.0.0.1",
                  "conditions": [{"type": kind, "status": ready if "eady" in kind else "True"}
                                 for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
                  "containerStatuses": [container.status() for container in self.containers]}
        if status != self.told:
            with contextlib.suppress(Refused):
                self.kubelet.api("PATCH", self.path + "/status", {"status": status}, "application/merge-patch+json")
                self.told = status


class Kubelet:
    """Binds pods, as there is no scheduler, and runs them. Each has an address of its own on loopback."""

    def __init__(self, api, folder):
        self.api = api
        self.folder = folder / "pods"
        (self.folder / "root").mkdir(parents=True)
        self.prefix = f"127.{random.randrange(2, 250)}.{random.randrange(250)}."
        self.addresses = {}
        self.hosts_file = self.folder / "hosts"
        coordinator = self.address("coordinator-0")
        self.hosts_file.write_text(f"127.0.0.1 localhost\n{coordinator} coordinator coordinator.leat.svc.cluster.local\n")
        self.pods = {}
        self.left = []    # (name, exit statuses of its containers)
        self.killed = []  # beyond their grace period
        self.failure = None
        self.stopping = threading.Event()
        api("POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}})
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def address(self, name):
        return self.addresses.setdefault(name, f"{self.prefix}{len(self.addresses) % 250 + 1}")

    def claim(self, name, group=10001):
        """The folder of a persistent volume."""
        at = self.folder / "claims" / name
        at.mkdir(parents=True, exist_ok=True)
        os.chown(at, 0, group)
        at.chmod(0o2775)
        return at

    def secret(self, namespace, reference):
        found = self.api("GET", f"/api/v1/namespaces/{namespace}/secrets/{reference['name']}")
        return decoded(found)[reference["key"]].decode()

    def files(self, namespace, volume):
        if "configMap" in volume:
            found = self.api("GET", f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}")
            return {name: text.encode() for name, text in found["data"].items()}
        return decoded(self.api("GET", f"/api/v1/namespaces/{namespace}/secrets/{volume['secret']['secretName']}"))

    def run(self):
        while not self.stopping.wait(0.2):
            try:
                self.step()
            except (OSError, http.client.HTTPException):
                pass  # the API server is busy
            except Exception as e:  # noqa: BLE001 - the test looks at it
                self.failure = self.failure or e

    def step(self):
        listed = {pod["metadata"]["uid"]: pod for pod in self.api("GET", "/api/v1/pods")["items"]}
        for uid, found in listed.items():
            if uid in self.pods:
                continue
            if not found["spec"].get("nodeName"):
                if "deletionTimestamp" not in found["metadata"]:
                    name, namespace = found["metadata"]["name"], found["metadata"]["namespace"]
                    self.api("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", {
                        "kind": "Binding", "apiVersion": "v1", "metadata": {"name": name},
                        "target": {"kind": "Node", "name": NODE}})
                continue
            with contextlib.suppress(Refused):  # a secret that is not there yet
                self.pods[uid] = Pod(self, found)
        now = time.monotonic()
        for uid, pod in list(self.pods.items()):
            if uid not in listed:
                pod.signal(signal.SIGKILL)
                del self.pods[uid]
            else:
                try:
                    if not pod.step(now, listed[uid]):
                        del self.pods[uid]
                except Refused as e:
                    if e.status != 404:  # CreateContainerConfigError
                        raise

    def pods_of(self, component):
        return [pod for pod in list(self.pods.values()) if pod.labels.get("app.kubernetes.io/component") == component]

    def report(self):
        texts = [f"{log.relative_to(self.folder)}:\n{log.read_text(errors='replace')[-2500:]}\n"
                 for log in sorted(self.folder.glob("*/*.log"))]
        return f"kubelet: {self.failure!r}, left: {self.left}, killed: {self.killed}\n" + "".join(texts)

    def end(self):
        self.stopping.set()
        self.thread.join(60)
        for pod in self.pods.values():
            pod.signal(signal.SIGKILL)
            for container in pod.containers:
                if container.process is not None:
                    container.process.wait()
        shutil.rmtree(self.folder / "claims", ignore_errors=True)


def decoded(secret):
    import base64
    return {name: base64.b64decode(text) for name, text in secret.get("data", {}).items()}
