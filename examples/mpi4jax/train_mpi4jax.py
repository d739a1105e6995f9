# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training with JAX: the gradients are summed by mpi4jax inside a compiled function.

    offbeat run -n 4 -- python train_mpi4jax.py

Without `offbeat run`, mpirun starts the same program.
"""

import argparse
import hashlib

import jax
import jax.numpy as jnp
from mpi4jax import allreduce  # type: ignore[attr-defined]  # not this folder
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def loss_of(weights: dict[str, jax.Array], inputs: jax.Array, wanted: jax.Array) -> jax.Array:
    hidden = jnp.tanh(inputs @ weights["first"] + weights["bias"])
    return jnp.mean((hidden @ weights["second"] - wanted) ** 2)


def trained(
    weights: dict[str, jax.Array], inputs: jax.Array, wanted: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    loss, own = jax.value_and_grad(loss_of)(weights, inputs, wanted)
    moved = {}
    for name in sorted(own):
        total = allreduce(own[name], op=MPI.SUM, comm=WORLD)
        moved[name] = weights[name] - 0.1 * total / WORLD.size
    return moved, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    keys = jax.random.split(jax.random.key(0), 3)
    weights = {
        "first": 0.1 * jax.random.normal(keys[0], (64, 512)),
        "bias": jnp.zeros(512),
        "second": 0.1 * jax.random.normal(keys[1], (512, 10)),
    }
    inputs = jax.random.normal(jax.random.key(1 + WORLD.rank), (256, 64))
    wanted = jnp.tanh(inputs @ jax.random.normal(keys[2], (64, 10)) / 8)
    step = jax.jit(trained)
    for number in range(arguments.steps):
        weights, loss = step(weights, inputs, wanted)
        if WORLD.rank == 0 and (number % 20 == 0 or number == arguments.steps - 1):
            print(f"step {number:4}  loss {loss:.6f}")
    digest = hashlib.sha256(b"".join(weights[name].tobytes() for name in sorted(weights)))
    hashes = WORLD.gather(digest.hexdigest()[:16])
    if hashes is not None:
        equal = "equal" if len(set(hashes)) == 1 else "DIFFERENT"
        print(f"weights {hashes[0]}, {equal} on {WORLD.size} ranks")


if __name__ == "__main__":
    main()
