#!/usr/bin/env python3
"""The PyTorch baseline of `bench scaling`: DDP with Gloo, one thread per process.

    scaling_torch.py CASE BATCH WORKERS SECONDS

Prints the events per second of all workers together, and PyTorch's version. One worker runs without DDP.
"""

import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet():
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 32, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


def work(rank, case, batch, workers, seconds, rendezvous, results):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = {"mlp": mlp, "lenet": lenet}[case]()
    if workers > 1:
        dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=workers)
        model = nn.parallel.DistributedDataParallel(model)
    x, labels = torch.randn(batch, 784), torch.randint(10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()

    for _ in range(20):
        step()
    # All ranks make the same number of steps, because a missing one would block the others' collectives.
    begin = time.perf_counter()
    for _ in range(20):
        step()
    count = torch.tensor([20 * seconds / (time.perf_counter() - begin)])
    if workers > 1:
        dist.all_reduce(count, op=dist.ReduceOp.MIN)
    count = max(int(count.item()), 20)
    begin = time.perf_counter()
    for _ in range(count):
        step()
    results.put(batch * count / (time.perf_counter() - begin))
    if workers > 1:
        dist.barrier()


def main():
    case, batch, workers, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    with tempfile.TemporaryDirectory() as directory:
        results = mp.get_context("spawn").SimpleQueue()
        mp.spawn(work, (case, batch, workers, seconds, directory + "/rendezvous", results), nprocs=workers)
        print(sum(results.get() for _ in range(workers)), torch.__version__)


if __name__ == "__main__":
    main()
