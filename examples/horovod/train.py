# SPDX-License-Identifier: BSD-3-Clause
"""Train a small network with Horovod and TensorFlow, on random images. One rank can be slow on purpose.

offbeat trace -n 2 -o run.trace -- python train.py --slow 1 --by 20 --from-step 12
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

BATCH = 16

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--slow", type=int, default=-1, metavar="RANK", help="this rank is slow")
parser.add_argument("--by", type=float, default=20.0, metavar="MS", help="how much it is slower in each step")
parser.add_argument("--from-step", type=int, default=1, metavar="K", help="the first slow step")
parser.add_argument("--busy", action="store_true", help="the slow rank computes; otherwise it sleeps")
arguments = parser.parse_args()

# One thread: with more, the ranks' threads and Horovod's own take each other's cores on a small machine.
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
hvd.init()

layers = tf.keras.layers
model = tf.keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPool2D(),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dense(10),
    ]
)
optimizer = tf.keras.optimizers.legacy.SGD(0.001)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
random = np.random.default_rng(hvd.rank())
images = tf.constant(random.normal(size=(BATCH, 32, 32, 3)).astype("float32"))
labels = tf.constant(random.integers(0, 10, BATCH))


@tf.function  # type: ignore[untyped-decorator]
def train() -> tf.Tensor:
    with tf.GradientTape() as tape:
        value = loss(labels, model(images, training=True))
    gradients = hvd.DistributedGradientTape(tape).gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return value


def be_slow(step: int) -> None:
    if hvd.rank() != arguments.slow or step < arguments.from_step:
        return
    end = time.perf_counter() + arguments.by / 1e3
    if not arguments.busy:
        time.sleep(arguments.by / 1e3)
    while time.perf_counter() < end:
        pass


hvd.broadcast_variables(model.variables, root_rank=0)
begin = time.perf_counter()
for step in range(1, arguments.steps + 1):
    be_slow(step)
    train().numpy()
seconds = time.perf_counter() - begin
weights = hashlib.sha256(b"".join(each.numpy().tobytes() for each in model.trainable_variables)).hexdigest()
print(f"rank {hvd.rank()}: {arguments.steps} steps, {seconds:.1f} s, weights {weights[:8]}", flush=True)
hvd.shutdown()
