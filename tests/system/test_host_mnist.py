"""MNIST on emulated hosts, most of which have neither the files nor the job: killed as a whole, resumed on other hosts and
at another size, and every event counts once."""

# folders: run/feed storage/transfer stream

import json
import shutil

import pytest

import leat
from hosts import hosts_fixture
from test_feeds import READS_FROM_A_FEED, Cluster, wait_for_feed
from test_hosts import ask, status

ROWS = 60_000
FILES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
FIRST = {"ps": [1, 2], "worker": [3, 4]}
THEN = {"ps": [5, 6, 7], "worker": [8, 9, 10]}


hosts = hosts_fixture(11)


class Mnist(Cluster):
    """A job whose files are on the hosts `owners`, and whose directory is on the first host."""

    def __init__(self, folder, hosts, owners):
        super().__init__(folder, hosts)
        self.owners, self.workers = owners, {}
        self.files = folder.parent / (folder.name + "-files")
        self.files.mkdir()
        for name in FILES:
            shutil.copy(leat.data("mnist") + "/" + name, self.files)
        for host in range(hosts.count):
            if host > 0:
                hosts.hide(host, folder)
            if host not in owners:
                hosts.hide(host, self.files)

    def run(self, roles, *arguments):
        """Starts the roles of one run, on these hosts by role."""
        arguments = [*arguments, "--workers", len(roles["worker"]), "--ps", len(roles["ps"]), "--data", self.files]
        if 0 in self.owners:
            self.where = self.coordinator(*arguments, "--listen", self.hosts.addresses[0] + ":0", before=self.hosts.at(0))
        else:
            wait_for_feed(self, self.hosts, *arguments)
            feed = self.join("feed", self.owners[-1])
            leat.wait_for(lambda: " joined as node" in self.said(feed), "the feed")
        self.workers = {}
        for role in ("ps", "worker"):
            for host in roles[role]:
                name = self.join(role, host, "--scratch", self.folder / "scratch")
                if role == "worker":
                    self.workers[name] = host

    def check_readers(self):
        """Workers with the files read them; all others read from a feed."""
        for name, host in self.workers.items():
            assert (READS_FROM_A_FEED in self.said(name)) == (host not in self.owners), (name, host)

    def kill_all(self):
        for name in list(self.processes):
            self.kill(name)


def events_by_slice(directory):
    """The good records that each slice of the newest checkpoint holds, by the metadata of its shards."""
    found = {}
    for shard in max(directory.glob("checkpoint-*")).glob("*.safetensors"):
        content = shard.read_bytes()
        head = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        for key, value in head.items():
            if key.startswith("slice/"):
                assert key not in found, key
                found[key] = json.loads(value)["events"]
    return found


# Epochs, changes, and the accuracy that is required.
LENGTHS = {"an epoch": (1, {"units: 512": "units: 16"}, None), "whole": (10, {}, 0.98)}


@pytest.mark.parametrize("length, where, owners", [
    ("an epoch", "at a feed", [10]),
    pytest.param("whole", "with the coordinator", [0], marks=pytest.mark.long),
    pytest.param("whole", "at a feed", [10], marks=pytest.mark.long),
    pytest.param("whole", "with the coordinator and a worker", [0, 4, 8], marks=pytest.mark.long)])
def test_mnist_is_resumed_on_hosts_that_never_saw_it(tmp_path, hosts, length, where, owners):
    epochs, changes, accuracy = LENGTHS[length]
    job = leat.write_job(tmp_path / "mnist.yaml", (leat.EXAMPLES / "mnist.yaml").read_text(),
                         **{"epochs: 10": f"epochs: {epochs}", **changes})
    events = epochs * ROWS
    with Mnist(tmp_path, hosts, owners) as cluster:
        # The checkpoint is made while splits are open, so the resumed job depends on their ledgers. The pause keeps the job
        # from its end.
        cluster.run(FIRST, job, "--directory", cluster.directory, "--pause-at", events * 2 // 3)
        cluster.pause(events // 6)
        assert ask(hosts, cluster, cluster.where, "checkpoint").returncode == 0
        leat.wait_for(lambda: cluster.events() > events // 2, "events after the checkpoint", 1200)
        cluster.check_readers()
        cluster.kill_all()
        assert not (cluster.directory / "summary.json").exists()
        cluster.run(THEN, "--resume", cluster.directory)
        leat.wait_for(lambda: (cluster.directory / "summary.json").exists(), "the end of the job", 1200)
        summary = cluster.finish()
        cluster.check_readers()
    assert summary["events"] == events
    counts = events_by_slice(cluster.directory)
    assert counts and set(counts.values()) == {events}, counts
    assert summary["failed_checkpoints"] == 0
    if accuracy is None:
        return
    # `leat train` evaluates the job that has ended.
    done = leat.summary(leat.run("train", "--resume", cluster.directory, "--data", cluster.files, "--json", cwd=tmp_path))
    assert done["test_accuracy"] >= accuracy, done["test_accuracy"]
