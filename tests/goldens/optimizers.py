#!/usr/bin/env python3
"""Generates optimizers.json: updates of a small variable by PyTorch's optimizers, schedules and clipping.

    /usr/bin/python3 tests/goldens/optimizers.py > tests/goldens/optimizers.json

A case is an `optimizer:` section of a job and the values of a variable after each update. The variable and its
gradients are not stored: both sides compute them (networks.py). PyTorch has no lamb, so this file implements it in
double (You et al. 2020).
"""

import json
import math

import torch

from networks import fill

SIZE = 11
STEPS = 12


def gradient(step):
    g = torch.from_numpy(fill(100 + step, SIZE)) * (3.0 if step % 4 == 2 else 0.5)
    g[3] = 0
    return g


class Lamb:
    def __init__(self, parameters, lr=0.001, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        self.w = parameters[0]
        self.param_groups = [{"lr": lr}]
        self.betas, self.eps, self.decay, self.t = betas, eps, weight_decay, 0
        self.m = torch.zeros_like(self.w, dtype=torch.float64)
        self.v = torch.zeros_like(self.w, dtype=torch.float64)

    def step(self):
        self.t += 1
        g, w = self.w.grad.double(), self.w.detach().double()
        self.m = self.betas[0] * self.m + (1 - self.betas[0]) * g
        self.v = self.betas[1] * self.v + (1 - self.betas[1]) * g * g
        r = (self.m / (1 - self.betas[0] ** self.t)) / ((self.v / (1 - self.betas[1] ** self.t)).sqrt() + self.eps)
        u = r + self.decay * w
        ratio = w.norm() / u.norm() if w.norm() > 0 and u.norm() > 0 else 1.0
        self.w.data = (w - self.param_groups[0]["lr"] * ratio * u).float()


def run(optimizer, schedule=None, clip=None, clip_value=None, zero=False):
    w = torch.nn.Parameter(torch.zeros(SIZE) if zero else torch.from_numpy(fill(1, SIZE)))
    torch_optimizer = optimizer([w])
    torch_schedule = schedule(torch_optimizer) if schedule else None
    values = []
    for step in range(STEPS):
        w.grad = gradient(step)
        if clip_value:
            torch.nn.utils.clip_grad_value_([w], clip_value)
        if clip:
            torch.nn.utils.clip_grad_norm_([w], clip)
        torch_optimizer.step()
        if torch_schedule:
            torch_schedule.step()
        values.append([float(f"{x:.9g}") for x in w.tolist()])
    return values


def cases():
    opt, lrs = torch.optim, torch.optim.lr_scheduler
    yield {"type": "sgd", "learning_rate": 0.1}, dict(optimizer=lambda p: opt.SGD(p, lr=0.1))
    yield ({"type": "sgd", "learning_rate": 0.1, "weight_decay": 0.05},
           dict(optimizer=lambda p: opt.SGD(p, lr=0.1, weight_decay=0.05)))
    yield ({"type": "momentum", "learning_rate": 0.05, "momentum": 0.8},
           dict(optimizer=lambda p: opt.SGD(p, lr=0.05, momentum=0.8)))
    yield ({"type": "momentum", "learning_rate": 0.05, "weight_decay": 0.1},
           dict(optimizer=lambda p: opt.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1)))
    yield ({"type": "nesterov", "learning_rate": 0.05, "momentum": 0.8, "weight_decay": 0.1},
           dict(optimizer=lambda p: opt.SGD(p, lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1)))
    yield ({"type": "adagrad", "learning_rate": 0.1, "initial_accumulator": 0.2, "epsilon": 1e-6, "weight_decay": 0.1},
           dict(optimizer=lambda p: opt.Adagrad(p, lr=0.1, initial_accumulator_value=0.2, eps=1e-6,
                                                weight_decay=0.1)))
    yield ({"type": "rmsprop"}, dict(optimizer=lambda p: opt.RMSprop(p)))
    yield ({"type": "rmsprop", "learning_rate": 0.02, "alpha": 0.9, "epsilon": 1e-3, "weight_decay": 0.1},
           dict(optimizer=lambda p: opt.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-3, weight_decay=0.1)))
    yield ({"type": "rmsprop", "learning_rate": 0.02, "momentum": 0.7},
           dict(optimizer=lambda p: opt.RMSprop(p, lr=0.02, momentum=0.7)))
    # Not the defaults, with which the variance after one gradient is dominated by the cancellation error of f32.
    yield ({"type": "rmsprop", "learning_rate": 0.02, "alpha": 0.8, "centered": True, "epsilon": 0.01},
           dict(optimizer=lambda p: opt.RMSprop(p, lr=0.02, alpha=0.8, centered=True, eps=0.01)))
    yield ({"type": "rmsprop", "learning_rate": 0.02, "alpha": 0.8, "centered": True, "momentum": 0.5, "epsilon": 0.01},
           dict(optimizer=lambda p: opt.RMSprop(p, lr=0.02, alpha=0.8, centered=True, momentum=0.5, eps=0.01)))
    yield {"type": "adam"}, dict(optimizer=lambda p: opt.Adam(p))
    yield ({"type": "adam", "learning_rate": 0.03, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.1},
           dict(optimizer=lambda p: opt.Adam(p, lr=0.03, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.1)))
    yield {"type": "adamw"}, dict(optimizer=lambda p: opt.AdamW(p))
    yield ({"type": "adamw", "learning_rate": 0.03, "weight_decay": 0.5},
           dict(optimizer=lambda p: opt.AdamW(p, lr=0.03, weight_decay=0.5)))
    yield {"type": "lamb"}, dict(optimizer=Lamb)
    yield ({"type": "lamb", "learning_rate": 0.05, "weight_decay": 0.2},
           dict(optimizer=lambda p: Lamb(p, lr=0.05, weight_decay=0.2)))
    yield {"type": "lamb", "learning_rate": 0.05}, dict(optimizer=lambda p: Lamb(p, lr=0.05), zero=True)

    sgd = dict(optimizer=lambda p: opt.SGD(p, lr=0.1))
    section = {"type": "sgd", "learning_rate": 0.1}
    yield ({**section, "schedule": {"type": "step", "every": 3, "factor": 0.5}},
           dict(**sgd, schedule=lambda o: lrs.StepLR(o, 3, 0.5)))
    yield ({**section, "schedule": {"type": "exponential", "every": 1, "factor": 0.8}},
           dict(**sgd, schedule=lambda o: lrs.ExponentialLR(o, 0.8)))
    yield ({**section, "schedule": {"type": "linear", "steps": 8, "final": 0.25}},
           dict(**sgd, schedule=lambda o: lrs.LinearLR(o, 1.0, 0.25, 8)))
    # CosineAnnealingLR rises again after its end; Leat's schedule stays constant.
    yield ({**section, "schedule": {"type": "cosine", "steps": STEPS, "final": 0.1}},
           dict(**sgd, schedule=lambda o: lrs.CosineAnnealingLR(o, STEPS, 0.01)))

    def warm_cosine(t):
        return (t + 1) / 4 if t < 4 else (1 + math.cos(math.pi * min(1, (t - 4) / 6))) / 2

    yield ({"type": "adamw", "learning_rate": 0.03, "schedule": {"type": "cosine", "warmup": 4, "steps": 10}},
           dict(optimizer=lambda p: opt.AdamW(p, lr=0.03), schedule=lambda o: lrs.LambdaLR(o, warm_cosine)))

    yield {**section, "clip_norm": 1.0}, dict(**sgd, clip=1.0)
    yield {**section, "clip_value": 0.3}, dict(**sgd, clip_value=0.3)
    yield {**section, "clip_value": 0.3, "clip_norm": 0.7}, dict(**sgd, clip_value=0.3, clip=0.7)


def main():
    print("[")
    lines = [json.dumps({"optimizer": section, "zero": arguments.get("zero", False), "values": run(**arguments)})
             for section, arguments in cases()]
    print(",\n".join(lines))
    print("]")


if __name__ == "__main__":
    main()
