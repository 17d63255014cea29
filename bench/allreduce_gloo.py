"""A member of the Gloo group of `bench allreduce`: reads commands from one pipe and writes times to another."""

import os
import sys
import time

import torch
import torch.distributed as distributed

rank, members, store, commands, answers = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
torch.set_num_threads(1)
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
distributed.init_process_group("gloo", rank=rank, world_size=members, init_method="file://" + store)
with open(commands, encoding="ascii") as source, open(answers, "w", encoding="ascii") as sink:
    for line in source:
        size, calls = (int(word) for word in line.split()[1:])
        data = torch.zeros(size // 4)
        distributed.all_reduce(data)
        begin = time.perf_counter()
        for _ in range(calls):
            distributed.all_reduce(data)
        sink.write(f"{(time.perf_counter() - begin) / calls:.9f}\n")
        sink.flush()
