#!/usr/bin/env python3
"""The TensorFlow baseline of `bench scaling`: ParameterServerStrategy with one server, and one process per role.

    scaling_tensorflow.py IMAGES LABELS BATCH WORKERS SECONDS

Prints the events per second of all workers together, and TensorFlow's version. Updates are asynchronous, as always in
this strategy. Each worker holds the decoded images in memory, so reading them costs almost nothing.
"""

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["GRPC_FAIL_FAST"] = "use_caller"  # waits for servers that are still starting

# Steps per closure that the coordinator schedules: calling a worker takes about as long as a step, so the strategy's
# guide recommends several steps per closure.
STEPS = 16
START_SECONDS = 200


def serve(cluster, job, task):
    """Runs a parameter server or a worker until its parent process ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    import tensorflow as tf

    # A single thread computes, the others handle messages. With fewer, a worker that waits for a variable blocks.
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=4)
    server = tf.distribute.Server(cluster, job_name=job, task_index=task, protocol="grpc", config=config)
    server.join()


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return addresses


def read(images, labels):
    import numpy as np

    x = np.fromfile(images, dtype=np.uint8)[16:].reshape(-1, 784)
    return (x.astype(np.float32) - 128) / 74, np.fromfile(labels, dtype=np.uint8)[8:].astype(np.int32)


def measure(cluster, images, labels, batch, workers, seconds):
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        sizes = [784, 512, 512, 10]
        weights = [tf.Variable(tf.random.normal([n, m], stddev=(2 / n) ** 0.5)) for n, m in zip(sizes, sizes[1:])]
        biases = [tf.Variable(tf.zeros([m])) for m in sizes[1:]]
    variables = weights + biases

    def dataset():
        x, y = read(images, labels)
        count = len(x) // batch
        batches = (x[:count * batch].reshape(count, batch, 784), y[:count * batch].reshape(count, batch))
        return tf.data.Dataset.from_tensor_slices(batches).repeat()

    data = iter(coordinator.create_per_worker_dataset(dataset))

    def step(x, labels):
        with tf.GradientTape() as tape:
            for i, (w, b) in enumerate(zip(weights, biases)):
                x = tf.matmul(x, w) + b
                if i < 2:
                    x = tf.nn.relu(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.001, delta=gradient)

    @tf.function
    def steps(iterator):
        for _ in range(STEPS):  # unrolled, because a loop in the graph would synchronize its devices in each step
            step(*next(iterator))

    def train(closures):
        begin = time.perf_counter()
        for _ in range(closures):
            coordinator.schedule(steps, args=(data,))
        coordinator.join()
        return time.perf_counter() - begin

    train(4 * workers)  # warm-up: traces the function and loads each worker's data
    few = 8 * workers
    closures = max(int(few * seconds / train(few)), few)
    print(batch * STEPS * closures / train(closures), tf.__version__, flush=True)


def main():
    images, labels, batch, workers, seconds = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    os.environ["TMPDIR"] = os.path.dirname(images)  # AutoGraph leaves its sources there; the benchmark removes the folder
    addresses = free_addresses(1 + workers)
    cluster = {"ps": addresses[:1], "worker": addresses[1:]}
    context = multiprocessing.get_context("spawn")
    roles = [("ps", 0)] + [("worker", i) for i in range(workers)]
    processes = [context.Process(target=serve, args=(cluster, *role), daemon=True) for role in roles]
    for process in processes:
        process.start()

    ended = threading.Lock()

    def end(status, why=""):
        if not ended.acquire(blocking=False):
            return  # the first one decides
        if why:
            print(why, file=sys.stderr, flush=True)
        for process in processes:
            process.kill()
        os._exit(status)  # the coordinator's threads would try to reach the servers again

    def watch():
        multiprocessing.connection.wait([process.sentinel for process in processes])
        killed = [p.exitcode for p in processes if (p.exitcode or 0) < 0]
        # A process that failed by itself has printed the reason.
        end(1, f"a server or worker was ended by signal {-killed[0]}" if killed else "")

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGALRM, lambda *_: end(1, "no result before the deadline"))
    signal.alarm(int(START_SECONDS + 5 * seconds))
    measure(cluster, images, labels, batch, workers, seconds)
    end(0)


if __name__ == "__main__":
    main()
