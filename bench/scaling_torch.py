#!/usr/bin/env python3
"""PyTorch's side of `bench scaling`: DDP with Gloo, one thread a process.

    scaling_torch.py CASE BATCH WORKERS SECONDS

Prints the examples a second that all workers together train; one worker runs without DDP.
"""

import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


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
    # The same number everywhere: a collective that one of them leaves would hang the others.
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
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        results = mp.get_context("spawn").SimpleQueue()
        mp.spawn(work, (case, batch, workers, seconds, directory + "/rendezvous", results), nprocs=workers)
        print(sum(results.get() for _ in range(workers)))


if __name__ == "__main__":
    main()
