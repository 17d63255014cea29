"""Jobs whose network is an ONNX file, on emulated hosts that do not have it: every role fetches it once from a feed."""

# folders: compute/onnx run/feed

import random
import shutil
import subprocess

import pytest

import leat
from hosts import hosts_fixture
from test_feeds import Cluster, wait_for_feed
from test_hosts import ask
from test_strategies import digest

ROWS = 6000
GOLDENS = leat.ROOT / "tests/goldens/onnx"
JOB = """name: net
stream: {files: {format: csv, paths: [rows.csv], partitions: 3}}
schema: {format: csv, fields: {a: {type: number}, b: {type: number}, c: {type: number}, d: {type: number}, e: {type: number},
                               f: {type: number}, kind: {type: number, role: label}}}
model: {layers: [onnx: {file: net.onnx}], loss: softmax_cross_entropy}
optimizer: {type: momentum, learning_rate: 0.05, momentum: 0.9}
strategy: {type: sync, lanes: 4}
train: {batch_size: 20, split_batches: 5}
"""
FETCHED = "net.onnx: No such file or directory; a copy of "


hosts = hosts_fixture(4)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The job's files, and the digest of its result on one host."""
    folder = tmp_path_factory.mktemp("onnx")
    rng = random.Random(3)
    with open(folder / "rows.csv", "w") as file:
        for _ in range(ROWS):
            x = [rng.gauss(0, 1) for _ in range(6)]
            file.write(",".join(f"{v:.4f}" for v in x) + f",{(x[0] > 0) + (x[1] > x[2])}\n")
    shutil.copy(GOLDENS / "mlp.onnx", folder / "net.onnx")
    job = folder / "net.yaml"
    job.write_text(JOB)
    result = folder.parent / (folder.name + "-result")
    assert leat.run("train", job, "--data", folder, "--directory", result).returncode == 0
    return folder, digest(result)


@pytest.fixture
def cluster(tmp_path, hosts):
    with Cluster(tmp_path, hosts) as made:
        made.scratch = ["--scratch", tmp_path / "scratch"]
        yield made


def job_file(tmp_path):
    (tmp_path / "net.yaml").write_text(JOB)
    return tmp_path / "net.yaml"


def start_feed(cluster, hosts, data):
    return subprocess.run(
        [*hosts.at(1), leat.PROGRAM, "feed", "--coordinator", cluster.where, "--listen", hosts.addresses[1] + ":0", "--data", data,
         "--trusted-network"], env=cluster.environment, capture_output=True, text=True, timeout=60)


def test_servers_and_workers_without_the_file_fetch_it(tmp_path, tmp_path_factory, hosts, cluster, files):
    folder, expected = files
    other = tmp_path_factory.mktemp("other")  # hosts that see the job's directory take its copy
    shutil.copy(folder / "rows.csv", other)
    for host in (1, 2):
        for hidden in (tmp_path, folder):
            hosts.hide(host, hidden)
    cluster.where = cluster.coordinator(job_file(tmp_path), "--directory", cluster.directory, "--data", folder, "--workers", 2,
                                        "--ps", 2, "--listen", hosts.addresses[0] + ":0", before=hosts.at(0))
    leat.refused(start_feed(cluster, hosts, other), "net.onnx: No such file or directory")
    shutil.copy(GOLDENS / "mlp_fixed.onnx", other / "net.onnx")
    leat.refused(start_feed(cluster, hosts, other), "net.onnx is not the job's: it is ", ", the job has ")
    owners = [cluster.join("ps", 3, "--data", folder)]
    without = [cluster.join("ps", 1, *cluster.scratch), cluster.join("worker", 2, *cluster.scratch)]
    with_another = cluster.join("worker", 1, "--data", other, *cluster.scratch)
    cluster.finish()
    assert digest(cluster.directory) == expected
    size = (folder / "net.onnx").stat().st_size
    for name in without:
        assert cluster.said(name).count(f"{FETCHED}{size} bytes is fetched from a feed") == 1, cluster.said(name)
    assert "net.onnx is not the job's: it is " in cluster.said(with_another)
    assert "is fetched from a feed" in cluster.said(with_another)
    for name in owners:
        assert "is fetched" not in cluster.said(name)


def test_a_coordinator_without_the_file_fetches_it_too(tmp_path, hosts, cluster, files):
    folder, expected = files
    for host, hidden in [(0, folder), (1, folder), (1, tmp_path), (2, folder), (2, tmp_path)]:
        hosts.hide(host, hidden)
    wait_for_feed(cluster, hosts, job_file(tmp_path), "--directory", cluster.directory, "--data", folder, "--workers", 2, "--ps", 1,
                  "--pause-at", ROWS // 3)
    feed = cluster.join("feed", 3)
    leat.wait_for(lambda: " joined as node" in cluster.said(feed), "the feed")
    cluster.join("ps", 1, *cluster.scratch)
    cluster.join("worker", 1, *cluster.scratch)
    cluster.pause(ROWS // 3)
    (folder / "net.onnx").rename(folder / "moved")
    late = cluster.join("worker", 2, *cluster.scratch)
    try:
        leat.wait_for(lambda: "net.onnx: No such file or directory" in cluster.said(feed), "the warning of the feed")
    finally:
        (folder / "moved").rename(folder / "net.onnx")
    leat.wait_for(lambda: "is fetched from a feed" in cluster.said(late), "the file")
    cluster.go_on()
    cluster.finish()
    assert digest(cluster.directory) == expected
    assert FETCHED in cluster.said("coordinator-0")
    # The job's directory has what the host lacks.
    done = subprocess.run([*hosts.at(0), leat.PROGRAM, "export", "--directory", cluster.directory, "--to", tmp_path / "out.onnx"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_coordinator_that_has_lost_the_file_resumes_with_a_feed(tmp_path, hosts, cluster, files):
    folder, expected = files
    cluster.begin(job_file(tmp_path), "--data", folder, "--pause-at", ROWS // 3)
    for _ in range(2):
        cluster.join("worker", 3)
    cluster.pause(ROWS // 3)
    assert ask(hosts, cluster, cluster.where, "checkpoint").returncode == 0
    for name in list(cluster.processes):
        cluster.kill(name)
    hosts.hide(0, folder)
    again = wait_for_feed(cluster, hosts, "--resume", cluster.directory)
    cluster.join("feed", 3)
    cluster.join("ps", 0)
    for _ in range(2):
        cluster.join("worker", 3)
    cluster.finish()
    assert digest(cluster.directory) == expected
    assert FETCHED in cluster.said(again)
