# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training of a small network: each rank has its own data, gradients are summed by allreduce.

    offbeat trace -n 4 -o training.trace -- python examples/training.py

Rank 1 has twice as much data as the others, as happens when files are dealt out by number rather
than by size: it computes longer, and all others wait for it. ``--even`` deals the same data out evenly.
"""

import argparse
import hashlib

import numpy as np
from mpi4py import MPI

INPUTS, HIDDEN, OUTPUTS = 64, 512, 10
SLOW_RANK = 1


def samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up data: what a fixed random linear map says of random inputs."""
    teacher = np.random.default_rng(1).standard_normal((INPUTS, OUTPUTS))
    inputs = np.random.default_rng(seed).standard_normal((count, INPUTS))
    return inputs, np.tanh(inputs @ teacher)


def gradients(
    weights: list[np.ndarray], inputs: np.ndarray, wanted: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """The squared error of a network with one hidden layer, and its derivatives."""
    first, bias, second = weights
    hidden = np.tanh(inputs @ first + bias)
    error = hidden @ second - wanted
    back = (error @ second.T) * (1 - hidden**2)
    return float((error**2).sum()), [inputs.T @ back, back.sum(axis=0), hidden.T @ error]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--samples", type=int, default=384, help="in each step, of a rank on average")
    parser.add_argument("--even", action="store_true", help="the same number of samples on every rank")
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    shares = [1 if arguments.even or rank != SLOW_RANK else 2 for rank in range(world.size)]
    many = arguments.samples * world.size * shares[world.rank] // sum(shares)
    inputs, wanted = samples(many, seed=world.rank + 2)
    total = world.allreduce(many)
    generator = np.random.default_rng(0)
    weights = [
        0.1 * generator.standard_normal((INPUTS, HIDDEN)),
        np.zeros(HIDDEN),
        0.1 * generator.standard_normal((HIDDEN, OUTPUTS)),
    ]
    started = MPI.Wtime()
    for step in range(arguments.steps):
        loss, own = gradients(weights, inputs, wanted)
        # Three sizes: 256 KiB, 4 KiB and 40 KiB.
        for weight, gradient in zip(weights, own, strict=True):
            summed = np.empty_like(gradient)
            world.Allreduce(gradient, summed)
            weight -= 0.05 / total * summed
        if step % 50 == 0 or step == arguments.steps - 1:
            loss = world.allreduce(loss) / total
            if world.rank == 0:
                print(f"step {step:4}  loss {loss:.6f}")
    seconds = world.allreduce(MPI.Wtime() - started, op=MPI.MAX)
    # Ranks that got different sums would walk apart.
    prints = world.gather(hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest())
    if world.rank == 0:
        assert prints is not None
        same = "equal" if len(set(prints)) == 1 else "DIFFERENT"
        print(f"{arguments.steps} steps in {seconds:.2f} s; weights on {world.size} ranks: {same}")
        if same != "equal":
            world.Abort(1)


if __name__ == "__main__":
    main()
