# SPDX-License-Identifier: BSD-3-Clause
"""Inference of a language model whose layers are spread over the ranks (tensor parallelism), on CPUs.

    torchrun --standalone --nproc-per-node 2 infer.py --model 7b

Weights are random: what counts is how long the layers take, and how much of that their two allreduces take.
`--backend gloo` runs the same layers with gloo.
"""

import argparse
import hashlib
import statistics
import time
from dataclasses import dataclass

import offbeat.torch  # noqa: F401  # makes the backend known; torch 2.14 and later finds it without this
import torch
import torch.distributed as dist
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The shape of one layer, as Llama 2 has it."""

    width: int
    inner: int
    heads: int
    kv_heads: int


SHAPES = {
    "tiny": Shape(128, 384, 8, 8),
    "7b": Shape(4096, 11008, 32, 32),
    "70b": Shape(8192, 28672, 64, 8),
}


class Stopwatch:
    """Sums up the time in allreduces."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def all_reduce(self, tensor: torch.Tensor) -> None:
        begun = time.perf_counter()
        dist.all_reduce(tensor)
        self.seconds += time.perf_counter() - begun

    def take(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class Layer:
    """This rank's part of one layer: some heads of the attention, some rows of the feed-forward network."""

    def __init__(self, shape: Shape, ranks: int, generator: torch.Generator, watch: Stopwatch) -> None:
        def weights(rows: int, columns: int) -> torch.Tensor:
            return (torch.randn(rows, columns, generator=generator) / columns**0.5).to(torch.bfloat16)

        self.heads, self.kv_heads = shape.heads // ranks, shape.kv_heads // ranks
        self.per_head = shape.width // shape.heads
        self.query = weights(self.heads * self.per_head, shape.width)
        self.key_and_value = weights(2 * self.kv_heads * self.per_head, shape.width)
        self.out = weights(shape.width, self.heads * self.per_head)
        self.gate_and_up = weights(2 * shape.inner // ranks, shape.width)
        self.down = weights(shape.width, shape.inner // ranks)
        self.watch = watch
        self.cache: list[torch.Tensor] = []  # keys and values of the tokens so far

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        normed = functional.rms_norm(tokens, tokens.shape[-1:])
        query = self._by_head(functional.linear(normed, self.query), self.heads)
        both = self._by_head(functional.linear(normed, self.key_and_value), 2 * self.kv_heads)
        self.cache = [torch.cat([*self.cache, both], dim=1)]
        key, value = self.cache[0].split(self.kv_heads)
        attended = functional.scaled_dot_product_attention(
            query, key, value, is_causal=len(tokens) > 1, enable_gqa=True
        )
        partial = functional.linear(attended.transpose(0, 1).reshape(len(tokens), -1), self.out)
        self.watch.all_reduce(partial)
        tokens = tokens + partial
        gate, up = functional.linear(functional.rms_norm(tokens, tokens.shape[-1:]), self.gate_and_up).chunk(
            2, dim=-1
        )
        partial = functional.linear(functional.silu(gate) * up, self.down)
        self.watch.all_reduce(partial)
        return tokens + partial

    def _by_head(self, tokens: torch.Tensor, heads: int) -> torch.Tensor:
        return tokens.view(len(tokens), heads, self.per_head).transpose(0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="offbeat")
    parser.add_argument("--model", choices=SHAPES, default="7b")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to generate")
    arguments = parser.parse_args()
    dist.init_process_group(arguments.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shape, watch = SHAPES[arguments.model], Stopwatch()
    if shape.kv_heads % ranks != 0:
        parser.error(f"{ranks} ranks cannot share {shape.kv_heads} heads")
    generator = torch.Generator().manual_seed(1 + rank)
    layers = [Layer(shape, ranks, generator, watch) for _ in range(arguments.layers)]

    def run(tokens: torch.Tensor) -> tuple[torch.Tensor, float, float]:
        """The result, and the milliseconds of a layer and of its allreduces."""
        watch.take()
        begun = time.perf_counter()
        for layer in layers:
            tokens = layer(tokens)
        seconds = time.perf_counter() - begun
        return tokens, 1e3 * seconds / len(layers), 1e3 * watch.take() / len(layers)

    def say(what: str, tokens: int, layer_ms: float, reduced_ms: float) -> None:
        if rank == 0:
            size = tokens * shape.width * 2
            size_text = f"{size / 1024:.0f} KiB" if size >= 1024 else f"{size} B"
            share = reduced_ms / layer_ms
            print(f"{what}: {layer_ms:.2f} ms a layer, of which two allreduces of {size_text} take "
                  f"{reduced_ms:.2f} ms ({share:.0%})")  # fmt: skip

    with torch.inference_mode():
        prompt = torch.randn(arguments.prompt, shape.width, generator=torch.Generator().manual_seed(0))
        tokens, layer_ms, reduced_ms = run(prompt.to(torch.bfloat16))
        say("prompt", arguments.prompt, layer_ms, reduced_ms)
        last, times = tokens[-1:], []
        for _ in range(arguments.tokens):
            last, *each = run(last)
            times.append(each)
        say("token", 1, *(statistics.median(column) for column in zip(*times, strict=True)))
    digests = [""] * ranks
    dist.all_gather_object(digests, hashlib.sha256(last.view(torch.int16).numpy().tobytes()).hexdigest())
    if rank == 0:
        print(
            f"result {digests[0][:16]}, {'equal' if len(set(digests)) == 1 else 'NOT EQUAL'} on {ranks} ranks"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
