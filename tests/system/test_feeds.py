"""Jobs on emulated hosts that do not have what the job reads: workers read it from feeds, and every event counts once."""

# folders: run/feed

import json
import re
import subprocess
import time

import pytest

import leat
from hosts import hosts_fixture
from test_hosts import ask, status
from test_members import Roles, check_counts
from test_strategies import counting

ROWS = 60_000


hosts = hosts_fixture(4)


def counting_rows(folder, strategy="async", rows=ROWS, **changes):
    """A job on a CSV file whose parameters are the number of applied rows."""
    (folder / "data").mkdir()
    with open(folder / "data" / "rows.csv", "w") as file:
        file.write("x,y\n")
        for row in range(rows):
            file.write(f"{row},{'0' * 200}\n")
    return leat.write_job(folder / "job.yaml", f"""name: rows
stream: {{files: {{format: csv, paths: [rows.csv], header: true, partitions: 3}}}}
schema: {{format: csv, fields: {{x: {{type: number}}}}}}
model: {{layers: [bias: {{units: 64}}], loss: {{type: negative_sum, reduction: sum}}}}
optimizer: {{type: sgd, learning_rate: 1}}
strategy: {strategy}
train: {{batch_size: 20, split_batches: 10}}
checkpoint: {{interval_s: 1}}
""", **changes)


class Cluster(Roles):
    """Roles on hosts: the coordinator and the servers on the first."""

    def __init__(self, folder, hosts):
        super().__init__(folder)
        self.hosts = hosts
        self.directory = folder / "job"
        self.where = None

    def begin(self, job, *arguments, workers=2, servers=1):
        self.where = self.coordinator(
            job, "--directory", self.directory, "--workers", workers, "--ps", servers, "--listen",
            self.hosts.addresses[0] + ":0", *arguments, before=self.hosts.at(0))
        for _ in range(servers):
            self.join("ps", 0)

    def join(self, role, host, *arguments):
        listen = [] if role == "bots" else ["--listen", self.hosts.addresses[host] + ":0"]
        return self.start(role, "--coordinator", self.where, *listen, *arguments, before=self.hosts.at(host))

    def events(self):
        return status(self.hosts, self, self.where).get("events", 0)

    def pause(self, events):
        leat.wait_for(lambda: self.events() >= events, f"{events} events")

    def workers(self):
        """The processor time of each worker, as far as the coordinator knows, by node."""
        members = status(self.hosts, self, self.where)["members"]
        return {m["node"]: m["cpu_s"] for m in members if m["role"] == "worker"}

    def cut_for_a_second(self, host, events):
        """Cuts a host off from the first after so many events, until the coordinator has heard of all workers again: a job that
        ends while a worker is away leaves it without a coordinator."""
        self.pause(events)
        self.hosts.cut(0, host)
        time.sleep(1)  # the fault itself, not a wait
        before = self.workers()
        self.hosts.mend(0, host)

        def heard():
            now = self.workers()
            return len(now) == len(before) and all(cpu > before.get(node, 0) for node, cpu in now.items())
        leat.wait_for(heard, "news of all workers")

    def go_on(self):
        assert ask(self.hosts, self, self.where, "continue").returncode == 0

    def finish(self):
        self.wait()
        return json.loads((self.directory / "summary.json").read_text())


@pytest.fixture
def cluster(tmp_path, hosts):
    with Cluster(tmp_path, hosts) as made:
        yield made


READS_FROM_A_FEED = "the stream is read from a feed"


@pytest.mark.parametrize("strategy", ["async", "sync"])
def test_workers_without_the_files_read_them_from_the_coordinators_host(tmp_path, hosts, cluster, strategy):
    job = counting_rows(tmp_path, strategy)
    hosts.hide(1, tmp_path)
    cluster.begin(job, "--data", tmp_path / "data", "--pause-at", ROWS * 2 // 3)
    reader, owner = cluster.join("worker", 1), cluster.join("worker", 0)
    cluster.cut_for_a_second(1, ROWS // 6)
    cluster.pause(ROWS * 2 // 3)
    cluster.go_on()
    summary = cluster.finish()
    check_counts(cluster.directory, ROWS)
    assert READS_FROM_A_FEED in cluster.said(reader)
    assert "rows.csv: No such file" in cluster.said(reader)
    assert READS_FROM_A_FEED not in cluster.said(owner), "its copy is the job's"
    assert summary["feed_bytes"] > 100_000, summary


def test_a_firewall_that_knows_three_ports_is_enough(tmp_path, hosts, cluster):
    rows = 4000
    job = counting_rows(tmp_path, rows=rows)
    for host in [1, 2]:
        hosts.hide(host, tmp_path)
    hosts.allow_only(0, [4000, 4001, 4002])
    cluster.where = cluster.coordinator(
        job, "--directory", cluster.directory, "--workers", 1, "--ps", 1, "--listen", hosts.addresses[0] + ":4000",
        "--transfer-port", 4001, "--feed-port", 4002, "--data", tmp_path / "data", before=hosts.at(0))
    server, worker = cluster.join("ps", 1, "--scratch", tmp_path), cluster.join("worker", 2)
    cluster.finish()
    check_counts(cluster.directory, rows)
    assert READS_FROM_A_FEED in cluster.said(worker)
    assert "transfer" in cluster.said(server), "the job's directory is not on its host"


def test_a_copy_that_differs_is_not_read(tmp_path, hosts, cluster):
    job = counting_rows(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "rows.csv").write_text("x,y\n" + "1,2\n" * ROWS)
    cluster.begin(job, "--data", tmp_path / "data", workers=1)
    done = subprocess.run(
        [*hosts.at(1), leat.PROGRAM, "feed", "--coordinator", cluster.where, "--listen", hosts.addresses[1] + ":0", "--data",
         str(other), "--trusted-network"], env=cluster.environment, capture_output=True, text=True, timeout=60)
    leat.refused(done, "rows.csv is not the job's: it is")
    worker = cluster.join("worker", 1, "--data", other)
    cluster.finish()
    check_counts(cluster.directory, ROWS)
    assert "rows.csv is not the job's: it is" in cluster.said(worker)
    assert READS_FROM_A_FEED in cluster.said(worker)


def test_a_lost_feed_is_replaced_by_the_next(tmp_path, hosts, cluster):
    job = counting_rows(tmp_path)
    for host in [1, 2]:
        hosts.hide(host, tmp_path)
    cluster.begin(job, "--data", tmp_path / "data", "--pause-at", ROWS // 3)
    feeds = [cluster.join("feed", 3) for _ in range(2)]
    leat.wait_for(lambda: all("serves on" in cluster.said(feed) for feed in feeds), "the feeds")
    for host in [1, 2]:
        cluster.join("worker", host)
    cluster.pause(ROWS // 3)
    members = status(hosts, cluster, cluster.where)["members"]
    assert [m["role"] for m in members].count("feed") == 2, members
    cluster.kill(feeds[0])
    cluster.go_on()
    cluster.finish()
    check_counts(cluster.directory, ROWS)


def test_a_feed_without_the_files_says_so(tmp_path, hosts, cluster):
    job = counting_rows(tmp_path, rows=1000)
    hosts.hide(1, tmp_path)
    cluster.begin(job, "--data", tmp_path / "data", workers=1)
    done = subprocess.run([*hosts.at(1), leat.PROGRAM, "feed", "--coordinator", cluster.where], env=cluster.environment,
                          capture_output=True, text=True, timeout=60)
    leat.refused(done, "rows.csv: No such file or directory")
    cluster.join("worker", 1)
    cluster.finish()
    check_counts(cluster.directory, 1000)


def test_workers_read_the_embedded_log_from_the_coordinators_host(tmp_path, hosts, cluster):
    events = 60_000
    job = counting(tmp_path, "async", **{"events: 40000": f"events: {events}", "split_batches: 20": "split_batches: 5"})
    for host in [1, 2]:
        hosts.hide(host, tmp_path)
    cluster.begin(job, "--pause-at", events * 2 // 3)
    workers = [cluster.join("worker", host) for host in [1, 2]]
    cluster.join("bots", 0)
    cluster.cut_for_a_second(2, events // 6)
    cluster.pause(events * 2 // 3)
    cluster.go_on()
    summary = cluster.finish()
    check_counts(cluster.directory, events)
    assert summary["feed_bytes"] > 100_000, summary
    for worker in workers:
        assert READS_FROM_A_FEED in cluster.said(worker)


def wait_for_feed(cluster, hosts, *arguments):
    """Starts a coordinator that waits for a feed, and sets its address."""
    name = cluster.start("coordinator", *arguments, "--listen", hosts.addresses[0] + ":0", "--wait-for-feed",
                         before=hosts.at(0))
    said = leat.wait_for(lambda: re.search(r" serves on (\S+) and waits", cluster.said(name)), "the coordinator's address")
    cluster.where = said[1]
    return name


def test_a_coordinator_without_the_files_reads_them_from_a_feed(tmp_path, hosts, cluster):
    counting_rows(tmp_path)
    files = tmp_path.parent / (tmp_path.name + "-files")
    (tmp_path / "data").rename(files)
    job = tmp_path / "job.yaml"
    for host in [0, 1, 2]:
        hosts.hide(host, files)
    wait_for_feed(cluster, hosts, job, "--directory", cluster.directory, "--workers", 2, "--ps", 1, "--pause-at", ROWS // 3)
    feed = cluster.join("feed", 3, "--data", files)
    leat.wait_for(lambda: " joined as node" in cluster.said(feed), "the feed")
    cluster.join("ps", 0)
    readers, owner = [cluster.join("worker", 1), cluster.join("worker", 2)], cluster.join("worker", 3, "--data", files)
    cluster.pause(ROWS // 3)
    cluster.go_on()
    hosts.cut(1, 3)
    time.sleep(1)  # the fault itself, not a wait
    hosts.mend(1, 3)
    cluster.finish()
    check_counts(cluster.directory, ROWS)
    assert all(READS_FROM_A_FEED in cluster.said(reader) for reader in readers)
    assert READS_FROM_A_FEED not in cluster.said(owner)


def test_a_coordinator_without_the_log_has_it_synced_by_a_feed(tmp_path, hosts, cluster):
    events = 60_000
    job = counting(tmp_path, "async", **{"events: 40000": f"events: {events}", "split_batches: 20": "split_batches: 5",
                                         "topic: events": f"topic: events\n  log: {tmp_path}/elsewhere/log"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for host in [0, 1]:
        hosts.hide(host, elsewhere)
    wait_for_feed(cluster, hosts, job, "--directory", cluster.directory, "--workers", 2, "--ps", 1)
    feed = cluster.join("feed", 3)
    leat.wait_for(lambda: " joined as node" in cluster.said(feed), "the feed")
    cluster.join("ps", 0)
    cluster.join("worker", 1)
    cluster.join("worker", 3)
    cluster.join("bots", 3)
    cluster.finish()
    check_counts(cluster.directory, events)
    log = subprocess.run([leat.PROGRAM, "log", elsewhere / "log"], capture_output=True, text=True)
    assert log.returncode == 0 and "counter@" not in log.stdout, (log, "the coordinator's pins are left")
