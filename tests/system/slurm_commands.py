#!/usr/bin/env python3
"""Stand-ins for Slurm's commands in an allocation of nodes that are all this host: srun runs its command here. The name of
the link to this file says which command it is."""

import os
import pathlib
import signal
import subprocess
import sys

name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
state = pathlib.Path(os.environ["SLURM_STAND_IN"])
with open(state / "commands", "a") as log:
    log.write(" ".join([name, *arguments]) + "\n")

if name == "srun":
    options = dict(word[2:].split("=", 1) for word in arguments if word.startswith("--") and "=" in word)
    command = arguments[next(i for i, word in enumerate(arguments) if not word.startswith("-")):]
    environment = {**os.environ, "SLURMD_NODENAME": options.get("nodelist", "n1")}
    tasks = [subprocess.Popen(command, env=environment) for _ in range(int(options["ntasks"]))]
    signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in tasks])
    statuses = [task.wait() for task in tasks]
    sys.exit(max(status if status >= 0 else 128 - status for status in statuses))
elif name == "scontrol" and arguments[:2] == ["show", "hostnames"]:
    print("\n".join(arguments[2].split(",")))
elif name == "scontrol" and arguments[:2] == ["show", "node"]:
    print(f"NodeName={arguments[-1]} Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName={arguments[-1]}")
elif name == "scontrol" and arguments[:2] == ["show", "job"]:
    print(f"JobId={arguments[-1]} JobState=RUNNING Command={os.environ['SLURM_STAND_IN_SCRIPT']} WorkDir=/")
elif name == "scontrol" and arguments[0] == "requeue":
    os.kill(os.getppid(), signal.SIGKILL)
