"""A Slurm cluster of several nodes on this host, each a daemon with a port of its own. All of its files are in a folder of the test."""

import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import tempfile

import pytest

import leat
import packages

# More CPUs are configured than there may be: nothing here is measured. With NoInAddrAny the daemons listen where the host's name leads.
CONFIGURATION = """\
ClusterName=leat
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
KillWait=15
MinJobAge=600
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES:16
"""


class Cluster:
    def __init__(self, nodes):
        packages.installed("slurm")
        # Sockets have short paths, and munged demands folders that others cannot write to.
        self.scratch = tempfile.TemporaryDirectory(prefix="leat-slurm-", ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self.scratch.name)
        self.daemons = []
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}
        # The tests have no terminal, and each says itself what its jobs get.
        for name in [n for n in self.environment if n.startswith(("SLURM_", "SBATCH_", "LEAT_")) and n != "SLURM_CONF"]:
            del self.environment[name]

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        port, *ports = leat.free_ports(1 + len(self.nodes))
        address = socket.gethostbyname(os.uname().nodename)
        lines = [f"NodeName={name} NodeHostname={os.uname().nodename} NodeAddr={address} Port={ports[i]} CPUs=4 State=UNKNOWN"
                 for i, name in enumerate(self.nodes)]
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=os.uname().nodename, address=address, port=port, user=pwd.getpwuid(os.geteuid()).pw_name, folder=self.folder, nodes="\n".join(lines)))
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        (self.folder / "munge.key").chmod(0o400)
        for name in ["state", *(f"{kind}-{n}" for kind in ("spool", "tmp") for n in self.nodes)]:
            (self.folder / name).mkdir()
        files = [f"--{what}={self.folder}/munge.{name}" for what, name in
                 {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}.items()]
        self._daemon("munged", "-F", "--force", "--num-threads=2", *files)
        leat.wait_for((self.folder / "munge.socket").exists, "munged")
        self._daemon("slurmctld", "-D")
        for name in self.nodes:
            self._daemon("slurmd", "-D", "-N", name)
        leat.wait_for(lambda: self.run("sinfo", "-h", "-o", "%D %t", check=False).stdout.strip() == f"{len(self.nodes)} idle",
                      "idle nodes", 60)

    def _daemon(self, *command):
        with open(self.folder / f"{'-'.join(command).replace('/', '_')[:40]}.out", "w") as log:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 cwd=self.folder, start_new_session=True))

    def run(self, *command, check=True, **more):
        done = subprocess.run([str(c) for c in command], env={**self.environment, **more.pop("env", {})}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **more)
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def state(self, job):
        """For example RUNNING, and how often it has been requeued, as a pair."""
        shown = self.run("scontrol", "show", "job", "-o", job).stdout
        return re.search(r" JobState=(\S+)", shown)[1], int(re.search(r" Restarts=(\d+)", shown)[1])

    def processes(self):
        """(pid, arguments) of all that runs below the daemons, and nothing else of this host."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                if f"SLURM_CONF={self.folder}/slurm.conf".encode() in environment:
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().decode().split("\0")[:-1]))
            except OSError:
                pass
        return found

    def pids(self, *words):
        """Processes whose arguments contain all the words, one after the other."""
        text = "\0".join(words) + "\0"
        return [pid for pid, arguments in self.processes() if text in "\0".join(arguments) + "\0"]

    def __exit__(self, *_):
        if (self.folder / "state").exists():
            self.run("scancel", "--full", "--user", str(os.geteuid()), check=False)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        while left := [pid for pid, _ in self.processes() if pid != os.getpid()]:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.scratch.cleanup()


def cluster_fixture(nodes):
    @pytest.fixture(scope="module")
    def cluster():
        with Cluster(nodes) as running:
            yield running
    return cluster
