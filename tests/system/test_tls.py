"""Mutual TLS on both planes: each port admits only certificates of the job's authority with the role that fits."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess

import pytest

import leat
from hosts import hosts_fixture
from test_members import Roles, check_counts, refused
from test_unauthenticated_peers import CHALLENGE_BYTES, STRATEGIES, connected, hello, lasting, ports_of, read, refusals

ALL = "coordinator,server,worker,bots,admin"


def certificate(folder, name, roles, *hosts, authority="authority"):
    """Issues a certificate and returns its folder. Creates the authority if it is missing."""
    if not (folder / authority).exists():
        assert leat.run("cert", "init", folder / authority).returncode == 0
    done = leat.run("cert", "issue", roles, *hosts, "--authority", folder / authority, "--out", folder / name)
    assert done.returncode == 0, done.stderr
    return folder / name


def expired(folder, name, roles):
    """A certificate of the authority that was valid until yesterday, by openssl."""
    made = certificate(folder, name, roles, "127.0.0.1")
    request, extension = folder / "request.pem", folder / "extension"
    extension.write_text("subjectAltName=" + ",".join(f"URI:leat:role:{r}" for r in roles.split(",")) +
                         "\nextendedKeyUsage=serverAuth,clientAuth\n")
    for command in [["req", "-new", "-key", made / "key.pem", "-subj", "/CN=expired", "-out", request],
                    ["x509", "-req", "-in", request, "-CA", folder / "authority/ca.pem", "-CAkey",
                     folder / "authority/ca-key.pem", "-set_serial", "7", "-days", "-1", "-extfile", extension, "-out",
                     made / "cert.pem"]]:
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    return made


def shake_tls(port, folder):
    """A TLS handshake with a certificate. Returns the socket, or the error at this side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(folder / "ca.pem")
    if folder.name == "other_authority":
        context.verify_mode = ssl.CERT_NONE  # it goes on, to be refused by the other side
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context.wrap_socket(connected(port))


def attack(pid, port, role, folders):
    """Each attempt is refused, with one line in the log of the role."""
    def refused_line(why, s, name):
        place = f" refused 127.0.0.1:{name}: "
        lines = leat.wait_for(lambda: [line for line in refusals(pid) if place in line], why)
        assert len(lines) == 1 and why in lines[0], (why, lines)
        s.close()

    with connected(port) as s:
        s.sendall(hello(role))
        answer = read(s, 1000)
        assert len(answer) == CHALLENGE_BYTES and not any(answer[16:]), "it proves nothing"
        refused_line("the peer does not use TLS, which this port requires", s, s.getsockname()[1])
    whys = {"expired": "certificate has expired", "other_authority": "the peer's certificate: "}
    allowed = {"ps": "worker", "worker": "worker", "transfer": "server, worker", "feed": "coordinator, server, worker, bots"}
    if role in allowed:  # at the coordinator every role may connect
        whys["observer"] = f"the peer's certificate is for the role observer, here it must be for {allowed[role]}"
    for name, why in whys.items():
        s = shake_tls(port, folders[name])
        here = s.getsockname()[1]
        with contextlib.suppress(OSError):
            s.sendall(hello(role))
            assert not s.recv(1000), "it says nothing"
        refused_line(why, s, here)
    for truncated in [b"\x16", b"\x16\x03\x01\x02\x00\x01"]:
        with connected(port) as s:
            s.sendall(truncated)
            s.shutdown(socket.SHUT_WR)
            refused_line("the connection was closed during the TLS handshake", s, s.getsockname()[1])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_port_admits_certificates_of_its_authority_and_role_only(tmp_path, strategy):
    events = 40_000
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text() + "\nsecurity: tls\n",
                              **{"events: 1000000": f"events: {events}", "strategy: async": f"strategy: {strategy}"})
    folders = {
        "all": certificate(tmp_path, "all", ALL, "127.0.0.1"),
        "worker": certificate(tmp_path, "worker", "worker"),
        "server": certificate(tmp_path, "server", "server"),
        "observer": certificate(tmp_path, "observer", "observer"),
        "expired": expired(tmp_path, "expired", "worker"),
        "other_authority": certificate(tmp_path, "other_authority", "worker", authority="other"),
    }
    token = "known to all"
    environment = {**os.environ, "LEAT_TOKEN": token}
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", events // 2, "--security", folders["all"],
                  directory=directory, env=environment) as job:
        where = job.address()

        def ask(command, role, *more):
            return leat.run(command, "--coordinator", where, "--security", folders[role], *more, env=environment)

        leat.wait_for(lambda: '"phase":"paused"' in ask("status", "all", "--json").stdout.replace(" ", ""), "the pause")
        before = lasting(job)
        ports = ports_of(job)
        assert sorted(kind for _, _, kind in ports) == STRATEGIES[strategy], ports
        for pid, port, role in ports:
            attack(pid, port, role, folders)

        # What each certificate may ask.
        assert ask("status", "observer").returncode == 0
        leat.refused(ask("stop", "observer"), "the certificate is for the role observer, this needs one for admin")
        leat.refused(ask("stop", "worker"), "the certificate is for the role worker, this needs one for admin")
        # A worker's certificate used as a server.
        leat.refused(ask("ps", "worker"), "the certificate is for the role worker, this needs one for server")
        leat.refused(ask("worker", "other_authority"), where, "the peer's certificate: ")
        leat.refused(ask("worker", "expired"), str(folders["expired"] / "cert.pem"), "certificate has expired")
        # Roles that differ from the job.
        for arguments in [[], ["--trusted-network"]]:
            done = leat.run("worker", "--coordinator", where, *arguments, env=environment)
            leat.refused(done, where, "the peer requires TLS; start this side with --security")

        assert lasting(job) <= before, "a role has died"
        assert ask("continue", "all").returncode == 0
        assert job.wait(180) == 0, job.text()
        assert job.summary()["evictions"] == 0
    assert {x for v in leat.tensors(directory).values() for x in v} == {float(events)}


def test_what_is_refused_at_the_start(tmp_path):
    good = certificate(tmp_path, "good", ALL, "127.0.0.1")
    other = certificate(tmp_path, "other", "worker")
    mixed = tmp_path / "mixed"
    shutil.copytree(good, mixed)
    shutil.copy(other / "key.pem", mixed / "key.pem")
    counter = leat.EXAMPLES / "counter.yaml"
    tls = leat.write_job(tmp_path / "tls.yaml", counter.read_text() + "\nsecurity: tls\n")
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text(tls.read_text().replace("security: tls", "") + "\n")
    leat.write_job(trusted, trusted.read_text(), **{"cluster: {": "cluster: {trusted_network: true, "})
    both = tmp_path / "both.yaml"
    both.write_text(trusted.read_text() + "\nsecurity: tls\n")
    starts = {
        "coordinator": ["coordinator", counter, "--directory", tmp_path / "job"],
        "train": ["train", counter, "--directory", tmp_path / "job"],
        "ps": ["ps", "--coordinator", "127.0.0.1:1"],
        "worker": ["worker", "--coordinator", "127.0.0.1:1"],
    }
    for start in starts.values():
        leat.refused(leat.run(*start, "--security", mixed), str(mixed / "key.pem"), "not the key of cert.pem")
        leat.refused(leat.run(*start, "--security", good, "--trusted-network"), "contradict each other")
        leat.refused(leat.run(*start, "--listen", "0.0.0.0:0"), "0.0.0.0:0", "--security DIR", "--trusted-network")
    for command in ["coordinator", "train"]:
        run = [command, "--directory", tmp_path / "job"]
        leat.refused(leat.run(*run, tls), "requires TLS", "--security DIR")
        leat.refused(leat.run(*run, trusted, "--security", good), "is for a trusted network")
        leat.refused(leat.run(*run, both), "a job has one of them")
    leat.refused(leat.run("cert", "issue", "worker", "--authority", tmp_path / "authority", "--out", good), "exists already")
    assert not (tmp_path / "job").exists()


hosts = hosts_fixture(2)


@pytest.mark.parametrize("strategy, servers", [("async", 2), ("allreduce", 0)])
def test_two_hosts_with_a_certificate_for_each_role(tmp_path, hosts, strategy, servers):
    events = 12_000
    directory = tmp_path / "job"
    job = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text() + "\nsecurity: tls\n",
                         **{"events: 1000000": f"events: {events}", "strategy: async": f"strategy: {strategy}"})
    secure = {role: ["--security", certificate(tmp_path, role, {"ps": "server"}.get(role, role), *names)]
              for role, names in {"coordinator": [hosts.addresses[0]], "ps": [], "worker": [], "bots": []}.items()}
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", 2, "--ps", servers, "--listen",
                                  hosts.addresses[0] + ":0", *secure["coordinator"], before=hosts.at(0))
        plain = roles.start("worker", "--coordinator", where, before=hosts.at(1))
        assert "the peer requires TLS" in refused(roles, plain)
        for i, role in enumerate(["ps"] * servers + ["worker"] * 2):
            host = i % 2
            roles.start(role, "--coordinator", where, "--listen", hosts.addresses[host] + ":0", *secure[role],
                        before=hosts.at(host))
        roles.start("bots", "--coordinator", where, *secure["bots"], before=hosts.at(0))
        roles.wait()
    check_counts(directory, events)
