# SPDX-License-Identifier: BSD-3-Clause
"""Times steps of training with Horovod and TensorFlow. paper_training.py starts a job for each turn."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import horovod.tensorflow as hvd
import lateness
import numpy as np
import tensorflow as tf

WARM_UP_STEPS = 5
BETWEEN_STEPS = (3, 1000)
Layers = tf.keras.layers


def convolution(width: int, size: int = 3, stride: int = 1, padding: str = "same") -> Any:
    return Layers.Conv2D(width, size, stride, padding, activation="relu")


def sequence(image: int, *layers: Any) -> Any:
    return tf.keras.Sequential([Layers.Input((image, image, 3)), *layers])


def classifier() -> list[Any]:
    return [Layers.Flatten(), Layers.Dense(4096, "relu"), Layers.Dense(4096, "relu"), Layers.Dense(1000)]


def cnn(image: int) -> Any:
    features = [convolution(16, padding="valid"), Layers.MaxPool2D(), convolution(32, padding="valid")]
    return sequence(image, *features, Layers.Flatten(), Layers.Dense(128, "relu"), Layers.Dense(10))


def alexnet(image: int) -> Any:
    features = [convolution(64, 11, 4), Layers.MaxPool2D(3, 2), convolution(192, 5), Layers.MaxPool2D(3, 2)]
    features += [convolution(384), convolution(256), convolution(256), Layers.MaxPool2D(3, 2)]
    return sequence(image, *features, *classifier())


def vgg11(image: int) -> Any:
    features = []
    for widths in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        features += [*map(convolution, widths), Layers.MaxPool2D()]
    return sequence(image, *features, *classifier())


def resnet110(image: int) -> Any:
    def normalised(images: Any, width: int, size: int, stride: int = 1) -> Any:
        return Layers.BatchNormalization()(Layers.Conv2D(width, size, stride, "same", use_bias=False)(images))

    inputs = Layers.Input((image, image, 3))
    images = Layers.ReLU()(normalised(inputs, 16, 3))
    for width, first in ((16, 1), (32, 2), (64, 2)):
        for block in range(18):
            stride = first if block == 0 else 1
            residual = normalised(Layers.ReLU()(normalised(images, width, 3, stride)), width, 3)
            if stride > 1:
                images = normalised(images, width, 1, stride)
            images = Layers.ReLU()(Layers.Add()([images, residual]))
    return tf.keras.Model(inputs, Layers.Dense(10)(Layers.GlobalAveragePooling2D()(images)))


def of_keras(name: str, image: int) -> Any:
    make = getattr(tf.keras.applications, name)
    return make(weights=None, input_shape=(image, image, 3), classes=1000, classifier_activation=None)


MODELS: dict[str, Callable[[int], Any]] = {
    "cnn": cnn,
    "resnet110": resnet110,
    "resnet50": lambda image: of_keras("ResNet50", image),
    "vgg11": vgg11,
    "alexnet": alexnet,
    "densenet201": lambda image: of_keras("DenseNet201", image),
}


def largest(value: float) -> float:
    """The largest value of all ranks."""
    return float(max(hvd.allgather_object(value)))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    tf.random.set_seed(7)
    model = MODELS[arguments.model](arguments.image)
    optimiser = tf.keras.optimizers.legacy.SGD(0.001)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    random = np.random.default_rng(hvd.rank())
    shape = (arguments.batch, arguments.image, arguments.image, 3)
    images = tf.constant(random.normal(size=shape).astype("float32"))
    labels = tf.constant(random.integers(0, 10, arguments.batch))

    def train() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        if arguments.reduce:
            tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimiser.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    compiled = tf.function(train)
    late = lateness.Lateness(arguments, hvd.rank(), hvd.size())

    def step() -> None:
        late.step()
        compiled().numpy()

    def timed(steps: int) -> tuple[float, float]:
        hvd.allreduce(tf.zeros(1), name="together")
        started, cpu_started = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        return (time.perf_counter() - started) / steps, (time.process_time() - cpu_started) / steps

    step()
    hvd.broadcast_variables(model.variables, root_rank=0)
    for _ in range(WARM_UP_STEPS - 3):
        step()
    least, most = BETWEEN_STEPS
    steps = min(max(math.ceil(arguments.seconds / largest(timed(2)[0])), least), most)
    wall, cpu = timed(steps)
    weights = hashlib.sha256(b"".join(each.numpy().tobytes() for each in model.trainable_variables))
    all_weights = set(hvd.allgather_object(weights.hexdigest()[:12]))
    if arguments.reduce and len(all_weights) > 1:
        raise RuntimeError(f"the ranks have different weights: {all_weights}")
    return {
        "parameters": int(sum(np.prod(each.shape) for each in model.trainable_variables)),
        "software": {"Horovod": version("horovod"), "TensorFlow": tf.__version__},
        "steps": steps,
        "wall_s": largest(wall),
        "cpu_s": sum(hvd.allgather_object(cpu)) / hvd.size(),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--image", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    lateness.add_options(parser)
    parser.add_argument("--no-reduce", dest="reduce", action="store_false")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    found = measure(arguments)
    if hvd.rank() == 0:
        arguments.output.write_text(json.dumps(found))
    hvd.shutdown()


if __name__ == "__main__":
    main()
