"""Reads listeners for observers as Prometheus, a probe or a browser does."""

import contextlib
import http.client
import json
import re
import ssl
from dataclasses import dataclass, field

import leat

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def view_token(token):
    done = leat.run("view-token", env={"LEAT_TOKEN": token})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class Response:
    status: int
    body: str
    headers: dict


@dataclass
class Page:
    """A page of metrics."""
    text: str
    types: dict = field(default_factory=dict)   # by metric
    samples: list = field(default_factory=list)  # (name, labels, value)

    def value(self, name, /, **labels):
        found = [value for n, l, value in self.samples if n == name and labels.items() <= l.items()]
        assert len(found) == 1, (name, labels, found)
        return found[0]


class Observer:
    """Someone who looks at listeners. `tls`: the folder of the authority, and of a certificate if there is one."""

    def __init__(self, token=None, authority=None, certificate=None):
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.tls = None
        if authority:
            self.tls = ssl.create_default_context(cafile=authority / "ca.pem")
            if certificate:
                self.tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    def get(self, address, path, headers=None, method="GET"):
        host, port = address.rsplit(":", 1)
        connection = (http.client.HTTPSConnection(host, int(port), timeout=60, context=self.tls) if self.tls
                      else http.client.HTTPConnection(host, int(port), timeout=60))
        with contextlib.closing(connection):
            connection.request(method, path, headers={**self.headers, **(headers or {})})
            response = connection.getresponse()
            return Response(response.status, response.read().decode(), dict(response.getheaders()))

    def metrics(self, address):
        response = self.get(address, "/metrics")
        assert response.status == 200, response
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return parse(response.body)

    def targets(self, address):
        """{(role, index): address} of /targets."""
        response = self.get(address, "/targets")
        assert response.status == 200, response
        found = {}
        for target in json.loads(response.body):
            labels = target["labels"]
            assert labels.get("__scheme__") == ("https" if self.tls else None)
            (found[labels["leat_role"], int(labels["leat_index"])],) = target["targets"]
        return found


def parse(text):
    page = Page(text)
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in page.types, f"{name} comes twice"
            page.types[name] = kind
        elif not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            labels = {name: value for name, value in LABEL.findall(match[2] or "")}
            page.samples.append((match[1], labels, float(match[3])))
    return page
