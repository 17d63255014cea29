"""Hosts in sites and zones: all slices in one site, replicas in another zone of it, and what crosses the link between."""

# folders: protocol/topology protocol

import json
import os
import socket
import subprocess
import time

import pytest

import leat
from hosts import two_sites_fixture
from test_bad_input import GOOD
from test_members import Roles
from test_strategies import counting, values

EVENTS = 40_000
sites = two_sites_fixture(zones=2, hosts=4)


def place(site, zone, of_class=""):
    return ["--site", site, "--zone", zone, *(["--class", of_class] if of_class else [])]


def status_of(roles, where, before=()):
    environment = {**roles.environment, **({"LEAT_TRUSTED_NETWORK": "1"} if before else {})}
    done = subprocess.run([*before, leat.PROGRAM, "status", "--coordinator", where, "--json"], env=environment,
                          capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def servers(status):
    return {m["index"]: (m.get("site"), m.get("zone")) for m in status.get("members", []) if m["role"] == "ps"}


def holders(status):
    """The places of the servers that have slices."""
    where = servers(status)
    return {where[part["index"]] for variable in status.get("variables", []) for part in variable["ps"]}


def zones_of_replicas(status):
    """For the replicas of all slices: (place of the slice, place of its replica), or nothing yet."""
    replicas = status.get("replicas", {})
    where = servers(status)
    if replicas.get("slices", 0) == 0 or replicas["slices"] != replicas["of"]:
        return None
    return {(where.get(pair["ps"]), where.get(pair["replica"])) for pair in replicas["on"]}


def in_other_zones(status, site):
    pairs = zones_of_replicas(status)
    return pairs and all(a[0] == b[0] == site and a[1] != b[1] for a, b in pairs)


def test_slices_are_in_one_site_and_replicas_in_another_zone(tmp_path):
    directory = tmp_path / "job"
    job = counting(tmp_path, "async", **{"ps: 2": "ps: 3, replicas: 2"})
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", 2, "--pause-at", EVENTS // 2)
        south = roles.start("ps", "--coordinator", where, *place("south", "a"))
        named = {zone: roles.start("ps", "--coordinator", where, *place("north", zone[0])) for zone in ["a1", "b1", "b2"]}
        for zone in "ab":
            roles.start("worker", "--coordinator", where, *place("north", zone))
        roles.start("bots", "--coordinator", where)
        leat.wait_for(lambda: in_other_zones(status_of(roles, where), "north"), "replicas in other zones")
        assert ("south", "a") not in holders(status_of(roles, where)), roles.said(south)
        roles.kill(named["b1"])
        leat.wait_for(lambda: len(servers(status_of(roles, where))) == 3, "the loss of the server")
        leat.wait_for(lambda: in_other_zones(status_of(roles, where), "north"), "the replicas of what is left")
        done = leat.run("continue", "--coordinator", where, env=roles.environment)
        assert done.returncode == 0, done.stderr
        shown = leat.run("status", "--coordinator", where, env=roles.environment).stdout
        assert "north/b" in shown or (directory / "summary.json").exists(), shown
        roles.wait()
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["events"] == EVENTS
    assert summary["regranted_leases"] == 0, "a replica has taken the place of the lost server's slices"
    assert values(directory) == {float(EVENTS)}


@pytest.mark.parametrize("topology, parts", [
    ("{workers: {class: gpu}}", ["no host offers the class 'gpu'", "is none"]),
    ("{hosts: {alpha: {class: cores}}, workers: {class: gpu}}", ["job.yaml:13", "no host offers the class 'gpu'", "cores"]),
    ("{hosts: {alpha: {site: north}}}", ["is not in the job's zone map"]),
    ("{hosts: {HERE: {}, alpha: {}}}", ["has host 'alpha'", "HERE"]),
    ("{servers: {site: n/orth}}", ["job.yaml:13", "site 'n/orth' is no name"]),
    ("{far: refuse}", ["job.yaml:13", "far needs max_latency_ms"]),
    ("{rack: 3}", ["job.yaml:13", "rack"]),
])
def test_a_topology_that_is_wrong(tmp_path, topology, parts):
    here = socket.gethostname()
    (tmp_path / "job.yaml").write_text(GOOD + f"topology: {topology.replace('HERE', here)}\n")
    leat.refused(leat.run("train", "job.yaml", cwd=tmp_path), *[part.replace("HERE", here) for part in parts])
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


def test_a_place_that_is_no_name(tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD)
    leat.refused(leat.run("train", "job.yaml", "--zone", "a/b", cwd=tmp_path), "--zone 'a/b' is no name")
    leat.refused(leat.run("worker", "--coordinator", "127.0.0.1:1", env={"LEAT_TOKEN": "x", "LEAT_CLASS": "-"}),
                 "LEAT_CLASS '-' is no name")
    assert os.listdir(tmp_path) == ["job.yaml"], "something was written"


def test_roles_that_are_refused_where_they_are(tmp_path):
    """The zone map has this host, and every role is too far away for it."""
    here = socket.gethostname()
    job = tmp_path / "job.yaml"
    job.write_text(GOOD + f"topology: {{hosts: {{{here}: {{zone: a}}}}, max_latency_ms: 0.0001, far: refuse}}\n")
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", tmp_path / "job")
        leat.refused(leat.run("worker", "--coordinator", where, env=roles.environment),
                     f"this worker on host {here} is", "more than max_latency_ms 0.0001")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a role under another host name")
def test_a_role_on_a_host_that_the_zone_map_lacks(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(GOOD + f"topology: {{hosts: {{{socket.gethostname()}: {{zone: a}}}}}}\n")
    with Roles(tmp_path) as roles:
        where = roles.coordinator(job, "--directory", tmp_path / "job")
        done = subprocess.run(
            ["unshare", "--uts", "sh", "-c", f"hostname elsewhere && exec '{leat.PROGRAM}' worker --coordinator {where}"],
            env=roles.environment, text=True, capture_output=True, timeout=60)
        leat.refused(done, "host 'elsewhere' is not in the job's zone map")


PERIOD, STEP_S, BATCH = 20, 0.05, 5
UNITS = 50_000
MODEL = 4 * UNITS  # bytes
PUBLISHED = 150_000  # more than is trained; of a stream that is waited for, a period would have fewer batches
RATE = BATCH / STEP_S  # the most that a worker can train


def two_site_job(folder, servers, replicas):
    """Each batch takes 50 ms, and 20 of them make a period. The model has 200 kB."""
    job = folder / "job.yaml"
    job.write_text(f"""name: sites
seed: 1
stream: {{topic: events, partitions: 8, bots: {{events: {PUBLISHED}, rate: 0, customers: 1000}}}}
schema: {{format: json, fields: {{amount: {{type: number}}, fraud: {{type: number, role: label}}}}}}
model: {{layers: [{{bias: {{units: {UNITS}}}}}], loss: {{type: negative_sum, reduction: sum}}}}
optimizer: {{type: sgd, learning_rate: 1}}
strategy: {{type: averaging, period: {PERIOD}}}
train: {{batch_size: {BATCH}, split_batches: {PERIOD}}}
cluster: {{workers: 2, ps: {servers}, placement: partitioned, replicas: {replicas}}}
checkpoint: {{interval_s: 0}}
topology: {{servers: {{site: north}}}}
debug: {{step_ms: {int(STEP_S * 1000)}}}
""")
    return job


class SiteRoles:
    """A job on the hosts of one site or two: coordinator and servers in the north, two workers a site."""

    def __init__(self, folder, sites, south, replicas=1):
        self.sites, self.south = sites, south
        self.folder = folder
        folder.mkdir()
        workers = [0, 2] + ([4, 6] if south else [])
        self.roles = Roles(folder)
        self.where = self.roles.coordinator(
            two_site_job(folder, 2, replicas), "--directory", folder / "job", "--workers", len(workers), "--listen",
            sites.addresses[0] + ":0", *sites.place(0), before=sites.at(0))
        for host in [1, 3] + ([5, 7] if south else []):
            self.start("ps", host)
        for host in workers:
            self.start("worker", host)
        self.roles.start("bots", "--coordinator", self.where, before=sites.at(0))
        leat.wait_for(lambda: self.status().get("stream_end") == PUBLISHED, "the events")

    def start(self, role, host):
        self.roles.start(role, "--coordinator", self.where, "--listen", self.sites.addresses[host] + ":0",
                         *self.sites.place(host), before=self.sites.at(host))

    def status(self):
        return status_of(self.roles, self.where, self.sites.at(0))

    def trained(self, site):
        return [m.get("done", 0) for m in self.status().get("members", []) if m["role"] == "worker" and m.get("site") == site]

    def events_per_s(self, site, seconds):
        """The rate of both workers of a site, from the end of one period to that of another."""
        leat.wait_for(lambda: len(self.trained(site)) == 2 and min(self.trained(site)) > 2 * PERIOD * BATCH, "the first periods")
        before, began = self.trained(site), time.monotonic()
        leat.wait_for(lambda: time.monotonic() - began > seconds, "the time", seconds + 60)
        after = self.trained(site)
        return (sum(after) - sum(before)) / (time.monotonic() - began)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.roles.__exit__(*error)


@pytest.mark.long
def test_two_sites_train_as_fast_as_one_each(tmp_path, sites):
    with SiteRoles(tmp_path / "one", sites, south=False) as one:
        alone = one.events_per_s("north", 20)
    with SiteRoles(tmp_path / "two", sites, south=True) as two:
        leat.wait_for(lambda: len(two.trained("south")) == 2 and min(two.trained("south")) > PERIOD * BATCH, "the south")
        before, began = sites.bytes_across(), two.status()["step"]
        samples = [sites.bytes_across()]
        north = two.trained("north"), two.trained("south")
        start = time.monotonic()
        while time.monotonic() - start < 30:
            time.sleep(0.05)
            samples.append(sites.bytes_across())
        took = time.monotonic() - start
        after = two.trained("north"), two.trained("south")
        crossed, steps = sites.bytes_across() - before, two.status()["step"] - began
        assert holders(two.status()) == {("north", "a"), ("north", "b")}
    speeds = [(sum(b) - sum(a)) / took for a, b in zip(north, after)]
    # A worker of the south sends its change and gets the average: twice the model a period. Other traffic is small.
    exchanges = steps * 2 * 2 * MODEL
    bursts = [b - a for a, b in zip(samples, samples[1:])]
    in_bursts = sum(b for b in bursts if b > 20_000)
    print(f"one site {alone:.0f} events/s; two: {speeds[0]:.0f} and {speeds[1]:.0f}; {steps} averages, {crossed / 1e6:.2f} MB "
          f"across the link, {crossed / exchanges:.3f} of the exchanges; {in_bursts / crossed:.3f} in "
          f"{sum(b > 20_000 for b in bursts)} of {len(bursts)} intervals")
    assert steps > 10
    assert crossed < 1.25 * exchanges + 2 * 2 * MODEL, "more than one exchange a period crosses the link"
    assert in_bursts > 0.9 * crossed, "tensors cross the link also within a period"
    for speed in speeds:
        assert speed >= 0.9 * alone, (speeds, alone)


@pytest.mark.long
def test_replicas_stay_in_their_site_when_a_server_is_killed(tmp_path, sites):
    folder = tmp_path
    directory = folder / "job"
    events = 60_000
    job = counting(folder, "async", **{"ps: 2": "ps: 4, replicas: 2", "events: 40000": f"events: {events}"})
    with Roles(folder) as roles:
        where = roles.coordinator(job, "--directory", directory, "--workers", 4, "--pause-at", events // 2, "--listen",
                                  sites.addresses[0] + ":0", *sites.place(0), before=sites.at(0))
        named = [roles.start("ps", "--coordinator", where, "--listen", sites.addresses[host] + ":0", *sites.place(host),
                             before=sites.at(host)) for host in [0, 1, 2, 3, 4, 6]]
        for host in [1, 3, 5, 7]:
            roles.start("worker", "--coordinator", where, "--listen", sites.addresses[host] + ":0", *sites.place(host),
                        before=sites.at(host))
        roles.start("bots", "--coordinator", where, before=sites.at(0))
        status = lambda: status_of(roles, where, sites.at(0))  # noqa: E731
        leat.wait_for(lambda: in_other_zones(status(), "north"), "replicas in other zones")
        assert {site for site, _ in holders(status())} == {"north"}
        for lost in [named[1], named[3]]:
            before = len(servers(status()))
            roles.kill(lost)
            leat.wait_for(lambda n=before: len(servers(status())) == n - 1, "the loss of the server")
            leat.wait_for(lambda: in_other_zones(status(), "north"), "replicas in other zones")
        done = subprocess.run([*sites.at(0), leat.PROGRAM, "continue", "--coordinator", where],
                              env={**roles.environment, "LEAT_TRUSTED_NETWORK": "1"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        leat.wait_for(lambda: (directory / "summary.json").exists(), "the end of the job", 300)
        roles.wait()
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["events"] == events and summary["regranted_leases"] == 0
    assert values(directory) == {float(events)}


SIMULATED = """
classes:
  host: {link: 1gbit, latency: 100us}
zones:
  north: {link: 100mbit, latency: 10ms}
  south: {link: 100mbit, latency: 10ms}
hosts:
"""


def simulated(folder, south):
    """Events/s of each worker, with the latency that a real link cannot be given here: 20 ms from site to site."""
    cluster = folder / "cluster.yaml"
    groups = [(site, zone, role) for site in ["north", "south"][:1 + south] for zone in "ab" for role in ["ps", "workers"]]
    cluster.write_text(SIMULATED + "".join(
        f"  - {{class: host, {role}: 1, zone: {site}, place: {{site: {site}, zone: {zone}}}}}\n" for site, zone, role in groups))
    job = two_site_job(folder, 2, 1)
    job.write_text(job.read_text().replace("debug:", "# debug:"))
    told = leat.summary(leat.run("simulate", job, "--json", "--cluster", cluster, "--compute", "50ms", "--steps", 20 * PERIOD,
                                 "--ps", 2 + 2 * south, "--workers", 2 + 2 * south))
    return told["steady_events_per_s"] / (2 + 2 * south), told


def test_two_simulated_sites_train_as_fast_as_one_each(tmp_path):
    alone, _ = simulated(tmp_path, south=False)
    together, told = simulated(tmp_path, south=True)
    assert holders(told) == {("north", "a"), ("north", "b")}
    assert alone <= 1.01 * RATE
    assert together >= 0.9 * alone, (together, alone)
