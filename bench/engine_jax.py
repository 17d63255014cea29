#!/usr/bin/env python3
"""The JAX baseline of `bench engine`: the same training steps as Leat's, in one thread. It has the protocol of
engine_torch.py; its only mode is jit.
"""

import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
# XLA starts one thread for each processor that it may use.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

LEARNING_RATE = 1e-3
HEADS = 4


def dense(p, name, x):
    return x @ p[name + ".weight"] + p[name + ".bias"]


def stack(layers):
    def forward(p, x):
        for i in range(1, layers):
            x = jax.nn.relu(dense(p, f"dense{i}", x))
        return dense(p, f"dense{layers}", x)
    return forward


def max_pool(x):
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def lenet(p, x):
    for name in ("conv2d1", "conv2d2"):
        x = lax.conv_general_dilated(x, p[name + ".weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = max_pool(jax.nn.relu(x + p[name + ".bias"]))
    x = jax.nn.relu(dense(p, "dense1", x.reshape(x.shape[0], -1)))
    return dense(p, "dense2", x)


def lstm(p, ids):
    x = p["embedding1.table"][ids] @ p["lstm1.input_weight"] + p["lstm1.bias"]
    zero = jnp.zeros((ids.shape[0], p["lstm1.state_weight"].shape[0]))

    def cell(state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + h @ p["lstm1.state_weight"], 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    states = lax.scan(cell, (zero, zero), x.swapaxes(0, 1))[1]
    return dense(p, "dense1", states.swapaxes(0, 1)).reshape(-1, 65)


def layer_norm(p, name, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[name + ".scale"] + p[name + ".offset"]


def transformer(p, ids):
    x = p["embedding1.table"][ids] + p["position1.table"]
    batch, tokens, units = x.shape
    y = dense(p, "residual1.attention1.qkv", layer_norm(p, "residual1.layer_norm1", x))
    q, k, v = y.reshape(batch, tokens, 3, HEADS, units // HEADS).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(2, 3) * (units // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -jnp.inf)
    y = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(batch, tokens, units)
    x = x + dense(p, "residual1.attention1.out", y)
    y = dense(p, "residual2.dense1", layer_norm(p, "residual2.layer_norm1", x))
    x = x + dense(p, "residual2.dense2", jax.nn.gelu(y, approximate=False))
    return dense(p, "dense1", layer_norm(p, "layer_norm1", x)).reshape(-1, 65)


# The network, the shape of the features, whether they are ids, and the shapes of the variables, as in Leat.
CASES = {
    "mlp": (stack(3), (128, 784), False, {
        "dense1.weight": (784, 512), "dense1.bias": (512,), "dense2.weight": (512, 512), "dense2.bias": (512,),
        "dense3.weight": (512, 10), "dense3.bias": (10,)}),
    "tabular": (stack(3), (128, 30), False, {
        "dense1.weight": (30, 64), "dense1.bias": (64,), "dense2.weight": (64, 32), "dense2.bias": (32,),
        "dense3.weight": (32, 2), "dense3.bias": (2,)}),
    "lenet": (lenet, (64, 28, 28, 1), False, {
        "conv2d1.weight": (32, 1, 5, 5), "conv2d1.bias": (32,), "conv2d2.weight": (64, 32, 5, 5), "conv2d2.bias": (64,),
        "dense1.weight": (3136, 512), "dense1.bias": (512,), "dense2.weight": (512, 10), "dense2.bias": (10,)}),
    "lstm": (lstm, (32, 50), True, {
        "embedding1.table": (65, 64), "lstm1.input_weight": (64, 512), "lstm1.state_weight": (128, 512),
        "lstm1.bias": (512,), "dense1.weight": (128, 65), "dense1.bias": (65,)}),
    "transformer": (transformer, (16, 64), True, {
        "embedding1.table": (65, 128), "position1.table": (64, 128),
        "residual1.layer_norm1.scale": (128,), "residual1.layer_norm1.offset": (128,),
        "residual1.attention1.qkv.weight": (128, 384), "residual1.attention1.qkv.bias": (384,),
        "residual1.attention1.out.weight": (128, 128), "residual1.attention1.out.bias": (128,),
        "residual2.layer_norm1.scale": (128,), "residual2.layer_norm1.offset": (128,),
        "residual2.dense1.weight": (128, 512), "residual2.dense1.bias": (512,),
        "residual2.dense2.weight": (512, 128), "residual2.dense2.bias": (128,),
        "layer_norm1.scale": (128,), "layer_norm1.offset": (128,),
        "dense1.weight": (128, 65), "dense1.bias": (65,)}),
}


def read(directory, name, shape):
    return np.fromfile(os.path.join(directory, name), np.float32).reshape(shape)


class Training:
    def __init__(self, case, directory):
        forward, shape, are_ids, variables = CASES[case]
        features = read(directory, "features", shape)
        self.x = jnp.asarray(features.astype(np.int32) if are_ids else features)
        self.labels = jnp.asarray(read(directory, "labels", -1).astype(np.int32))
        self.p = {name: jnp.asarray(read(directory, name, shape)) for name, shape in variables.items()}
        for name, value in self.p.items():
            if value.ndim == 4:
                self.p[name] = jnp.asarray(value.transpose(2, 3, 1, 0))

        def loss_of(p, x, labels):
            scores = jax.nn.log_softmax(forward(p, x))
            return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

        def step(p, x, labels):
            loss, gradients = jax.value_and_grad(loss_of)(p, x, labels)
            return loss, jax.tree.map(lambda v, g: v - LEARNING_RATE * g, p, gradients)

        self.compiled = jax.jit(step, donate_argnums=0).lower(self.p, self.x, self.labels).compile()

    def step(self):
        loss, self.p = self.compiled(self.p, self.x, self.labels)
        return loss

    def kernels(self):
        """Names the libraries that XLA calls."""
        text = self.compiled.as_text()
        libraries = [name for sign, name in (("__onednn", "oneDNN"), ("__ynn", "YNNPACK"), ("__xnn", "XNNPACK"))
                     if sign in text]
        return "XLA with " + " and ".join(libraries or ["Eigen"])


def measure(training, seconds):
    """The median CPU time of all threads, over samples that are long relative to the clock's resolution."""
    begin = time.process_time()
    training.step().block_until_ready()
    calls = max(1, int(5e-4 / max(time.process_time() - begin, 1e-7)))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.process_time()
        for _ in range(calls):
            loss = training.step()
        loss.block_until_ready()
        times.append((time.process_time() - begin) / calls)
    return sorted(times)[len(times) // 2]


def main():
    trainings = {}
    print("JAX", jax.__version__, flush=True)
    for line in sys.stdin:
        what, case, mode, *rest = line.split()
        if what == "load":
            training = trainings[case] = Training(case, rest[0])
            losses = [training.step().item() for _ in range(int(rest[1]))]
            print(*losses, "jit,", training.kernels(), flush=True)
        else:
            print(measure(trainings[case], float(rest[0])), flush=True)


if __name__ == "__main__":
    main()
