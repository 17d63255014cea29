"""Mutual TLS on both planes: what each certificate may ask, and a cluster with one certificate for each role."""

# folders: net net/rpc

import os
import shutil

import pytest

import leat
from hosts import hosts_fixture
from peers import certificate, expired, lasting
from test_members import Roles, check_counts, refused

ALL = "coordinator,server,worker,bots,admin"


def test_what_each_certificate_may_ask(tmp_path):
    events = 40_000
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text() + "\nsecurity: tls\n",
                              **{"events: 1000000": f"events: {events}"})
    folders = {
        "all": certificate(tmp_path, "all", ALL, "127.0.0.1"),
        "worker": certificate(tmp_path, "worker", "worker"),
        "observer": certificate(tmp_path, "observer", "observer"),
        "expired": expired(tmp_path, "expired", "worker"),
        "other authority": certificate(tmp_path, "other", "worker", authority="authority-2"),
    }
    environment = {**os.environ, "LEAT_TOKEN": "known to all"}
    with leat.Job("train", job_file, "--directory", directory, "--pause-at", events // 2, "--security", folders["all"],
                  directory=directory, env=environment, security=folders["all"]) as job:
        where = job.address()

        def ask(command, role, *more):
            return leat.run(command, "--coordinator", where, "--security", folders[role], *more, env=environment)

        leat.wait_for(lambda: job.status().get("phase") == "paused", "the pause")
        before = lasting(job)
        assert ask("status", "observer").returncode == 0
        leat.refused(ask("stop", "observer"), "the certificate is for the role observer, this needs one for admin")
        leat.refused(ask("stop", "worker"), "the certificate is for the role worker, this needs one for admin")
        # A worker's certificate used as a server.
        leat.refused(ask("ps", "worker"), "the certificate is for the role worker, this needs one for server")
        leat.refused(ask("worker", "other authority"), where, "the peer's certificate: ")
        leat.refused(ask("worker", "expired"), str(folders["expired"] / "cert.pem"), "certificate has expired")
        # Roles that differ from the job.
        for arguments in [[], ["--trusted-network"]]:
            done = leat.run("worker", "--coordinator", where, *arguments, env=environment)
            leat.refused(done, where, "the peer requires TLS; start this side with --security")

        assert lasting(job) <= before, "a role has died"
        job.go_on()
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
