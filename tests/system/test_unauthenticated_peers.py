"""10,000 random or partly valid connections to every port leave all roles alive and the job's result exact."""

import os
import random
import re
import socket
import pathlib

import leat

CONNECTIONS = 10_000
# 127.0.0.1 in the notation of /proc, as IPv4 and as an IPv4-mapped IPv6 address.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def listening_ports(pid):
    """TCP ports that a process listens on, from /proc."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            if match := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd)):
                inodes.add(match[1])
        except OSError:
            pass
    found = []
    for table in ["tcp", "tcp6"]:
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                assert address in LOOPBACK, f"listens beyond loopback: {fields[1]}"
                found.append(int(port, 16))
    return found


def disturb(port, rng):
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    kind = rng.randrange(5)
    content = [b"", rng.randbytes(rng.randrange(1, 200)), preface + rng.randbytes(rng.randrange(60)),
               b"LEAT" + rng.randbytes(44), rng.randbytes(48) + b"\xff" * 64][kind]
    with socket.socket() as s:
        s.settimeout(60)
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(content)
            if kind == 4:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        except OSError:
            pass  # the connection was rejected, as it should be


def test_unauthenticated_peers_do_no_harm(tmp_path):
    directory = tmp_path / "counter"
    job_file = leat.write_job(tmp_path / "counter.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
                              **{"events: 1000000": "events: 400000, rate: 30000"})
    rng = random.Random(3)
    with leat.Job("train", job_file, "--directory", directory, directory=directory) as job:
        leat.wait_for(lambda: job.status().get("events", 0) > 0, "the first events")
        before = set(job.children())
        ports = [(pid, port) for _, pid in before for port in listening_ports(pid)]
        assert len({pid for pid, _ in ports}) >= 3, "the coordinator and two servers listen"
        for _, port in ports:
            for _ in range(CONNECTIONS):
                disturb(port, rng)
        if job.process.poll() is None:
            roles = [c for c in job.children() if c[0] != "bots"]
            assert set(roles) <= before, "a role has died"
        assert job.wait(180) == 0, job.text()
        assert job.summary()["evictions"] == 0
    assert {x for v in leat.tensors(directory).values() for x in v} == {400_000.0}
