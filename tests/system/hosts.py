"""Emulated hosts: network, mount, PID and UTS namespaces, joined by veth pairs to one switch.

Processes of a host see each other and share memory; those of different hosts share nothing but the network, unless a
test leaves them a folder.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import leat


def hosts_fixture(count):
    """A fixture of so many hosts. Its tests skip where hosts cannot be made."""
    @pytest.fixture
    def hosts():
        made = Hosts(count)
        try:
            if why := made.make():
                pytest.skip(why)
            yield made
        finally:
            made.remove()
    return hosts


def two_sites_fixture(zones, hosts):
    """A fixture of two sites with so many hosts each, in so many zones, joined by a link of 100 Mbit/s."""
    @pytest.fixture
    def sites():
        made = TwoSites(zones, hosts)
        try:
            if why := made.make():
                pytest.skip(why)
            yield made
        finally:
            made.remove()
    return sites


class Hosts:
    """`count` hosts with the addresses 10.213.7.1, 10.213.7.2, …. All processes on them end with remove()."""

    def __init__(self, count):
        self.count = count
        self.ip = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
        self.iptables = shutil.which("iptables") or shutil.which("iptables", path="/usr/sbin:/sbin")
        self.addresses = [f"10.213.7.{i + 1}" for i in range(count)]
        self.switch = f"leat-{os.getpid()}"
        self.holders = []
        self.inside = []  # the first process of each host

    def make(self):
        """Creates the hosts. Returns the reason if that is impossible, otherwise None."""
        if os.geteuid() != 0 or self.ip is None or self.iptables is None:
            return "emulating hosts needs root, ip (package iproute2) and iptables"
        why = self._ip("netns", "add", self.switch)
        for bridge in sorted({self.bridge(host) for host in range(self.count)}):
            why = why or self._ip("-n", self.switch, "link", "add", bridge, "type", "bridge")
            why = why or self._ip("-n", self.switch, "link", "set", bridge, "up")
        for host in range(self.count):
            why = why or self._start(host)
        return why

    def _ip(self, *arguments):
        done = subprocess.run([self.ip, *arguments], capture_output=True, text=True)
        return None if done.returncode == 0 else f"ip {' '.join(arguments)}: {done.stderr.strip()}"

    def _start(self, host):
        prepare = f"hostname {self.name(host)} && mount -t tmpfs none /dev/shm && mount -t proc proc /proc && echo ready"
        # The first process of the PID namespace: all others end with it.
        holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", f"{prepare} && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.holders.append(holder)
        said = holder.stdout.readline().strip()
        if said != "ready":
            return f"unshare: {said}"
        inside = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().strip()
        self.inside.append(inside)
        cable = f"leat{os.getpid()}h{host}"[-15:]
        address = self.addresses[host] + "/24"
        return (self._ip("-n", self.switch, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", inside) or
                self._ip("-n", self.switch, "link", "set", cable, "master", self.bridge(host), "up") or
                self._in(host, self.ip, "address", "add", address, "dev", "eth0") or
                self._in(host, self.ip, "link", "set", "eth0", "up") or self._in(host, self.ip, "link", "set", "lo", "up"))

    def _in(self, host, *command):
        done = subprocess.run([*self.at(host), *command], capture_output=True, text=True)
        return None if done.returncode == 0 else f"{' '.join(command)}: {done.stderr.strip()}"

    def bridge(self, host):
        """The bridge that a host is connected to."""
        return "switch"

    def name(self, host):
        return f"leat-{chr(ord('a') + host)}"

    def at(self, host):
        """The command prefix that runs a command on a host."""
        return ["nsenter", "--target", self.inside[host], "--net", "--mount", "--uts", "--pid"]

    def hide(self, host, folder):
        """An empty folder in place of this one, as on a machine that never saw the job."""
        why = self._in(host, "mount", "-t", "tmpfs", "none", str(folder))
        assert why is None, why

    def cut(self, a, b):
        """The network loses everything between two hosts."""
        for here, there in [(a, b), (b, a)]:
            for chain, side in [("INPUT", "-s"), ("OUTPUT", "-d")]:
                why = self._in(here, self.iptables, "-A", chain, side, self.addresses[there], "-j", "DROP")
                assert why is None, why

    def mend(self, a, b):
        for here, there in [(a, b), (b, a)]:
            for chain, side in [("INPUT", "-s"), ("OUTPUT", "-d")]:
                why = self._in(here, self.iptables, "-D", chain, side, self.addresses[there], "-j", "DROP")
                assert why is None, why

    def isolate(self, host):
        """The network loses everything to and from a host."""
        self._all_of(host, "-A")

    def rejoin(self, host):
        self._all_of(host, "-D")

    def _all_of(self, host, change):
        for chain, side in [("INPUT", "-i"), ("OUTPUT", "-o")]:
            why = self._in(host, self.iptables, change, chain, "!", side, "lo", "-j", "DROP")
            assert why is None, why

    def allow_only(self, host, ports):
        """A firewall: from other hosts, only these ports of this one can be connected to."""
        why = self._in(host, self.iptables, "-A", "INPUT", "!", "-i", "lo", "-p", "tcp", "--syn", "-m", "multiport", "!",
                       "--dports", ",".join(map(str, ports)), "-j", "DROP")
        assert why is None, why

    def slow(self, host, rate):
        """Limits the rate at which a host sends, to "8mbit" for example, until fast()."""
        self._tc(host, f"qdisc add dev eth0 root tbf rate {rate} burst 32kb latency 400ms")

    def fast(self, host):
        self._tc(host, "qdisc del dev eth0 root")

    def _tc(self, host, command):
        why = self._in(host, shutil.which("tc") or shutil.which("tc", path="/usr/sbin:/sbin"), *command.split())
        assert why is None, why

    def bytes_received(self, host):
        shown = subprocess.run([*self.at(host), self.ip, "-s", "-j", "link", "show", "dev", "eth0"], capture_output=True,
                               text=True, check=True)
        return json.loads(shown.stdout)[0]["stats64"]["rx"]["bytes"]

    def remove(self):
        for holder in self.holders:
            with contextlib.suppress(OSError):
                holder.stdin.close()
            leat.wait_for(lambda h=holder: h.poll() is not None, "the end of a host", 30)
        if self.ip:
            subprocess.run([self.ip, "netns", "delete", self.switch], capture_output=True)


class TwoSites(Hosts):
    """The sites north and south with zones a, b, …: the hosts of the north come first, zone by zone."""

    LINK = "100mbit"

    def __init__(self, zones, hosts):
        super().__init__(2 * hosts)
        self.zones, self.each = zones, hosts

    def bridge(self, host):
        return "north" if host < self.each else "south"

    def place(self, host):
        zone = chr(ord("a") + host % self.each * self.zones // self.each)
        return ["--site", self.bridge(host), "--zone", zone]

    def make(self):
        tc = shutil.which("tc") or shutil.which("tc", path="/usr/sbin:/sbin")
        why = super().make() or (None if tc else "a slow link needs tc (package iproute2)")
        why = why or self._ip("-n", self.switch, "link", "add", "wan-n", "type", "veth", "peer", "name", "wan-s")
        for end, bridge in [("wan-n", "north"), ("wan-s", "south")]:
            why = why or self._ip("-n", self.switch, "link", "set", end, "master", bridge, "up")
            if why:
                return why
            done = subprocess.run([tc, "-n", self.switch, *f"qdisc add dev {end} root tbf rate {self.LINK} burst 64kb latency 400ms".split()],
                                  capture_output=True, text=True)
            why = None if done.returncode == 0 else f"tc: {done.stderr.strip()}"
        return why

    def bytes_across(self):
        """The bytes that have crossed the link, in both directions."""
        shown = subprocess.run([self.ip, "-n", self.switch, "-s", "-j", "link", "show", "dev", "wan-n"], capture_output=True,
                               text=True, check=True)
        stats = json.loads(shown.stdout)[0]["stats64"]
        return stats["rx"]["bytes"] + stats["tx"]["bytes"]
