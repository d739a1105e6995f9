# SPDX-License-Identifier: BSD-3-Clause
"""The examples that need torch, and the benchmark of training, which starts jobs of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jobs
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LOSS = re.compile(r"^step +\d+ +loss ([\d.]+)$", re.MULTILINE)


def output_of(program: Path, size: int, *arguments: str) -> str:
    ended = jobs.start_with("torchrun", str(program), size, *arguments)
    assert ended.exit_code == 0, jobs.text_of([ended])
    return ended.out


@pytest.mark.in_turn(1, "name", "size")
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ["ddp/train_ddp.py", "fsdp2/train_fsdp2.py"])
def test_training_learns_and_ranks_agree(name: str, size: int) -> None:
    out = output_of(EXAMPLES / name, size, "--steps", "30")
    losses = [float(each) for each in LOSS.findall(out)]
    assert losses[-1] < losses[0] / 3, out
    assert re.search(rf"^weights \w{{16}}, equal on {size} ranks$", out, re.MULTILINE), out


# With two ranks there is one order in which to add.
def test_inference_has_the_result_of_gloo() -> None:
    def result(*arguments: str) -> str:
        out = output_of(EXAMPLES / "tensor_parallel" / "infer.py", 2, "--model", "tiny", *arguments)
        assert re.search(r"^token: .* two allreduces of 256 B take", out, re.MULTILINE), out
        found = re.search(r"^result (\w{16}), equal on 2 ranks$", out, re.MULTILINE)
        assert found, out
        return found[1]

    assert result() == result("--backend", "gloo")


@pytest.mark.only_deep
@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("buckets", [False, True])
def test_training_is_repeated_whoever_is_late_and_whatever_the_buckets(size: int, buckets: bool) -> None:
    arguments = ["--runs", "10", "--steps", "10", "--late-ms", "3", *(["--buckets"] if buckets else [])]
    out = output_of(EXAMPLES / "ddp" / "reproducible.py", size, *arguments)
    line = rf"^offbeat run \d(?:, .*)?: weights (\w{{16}}), equal on {size} ranks$"
    hashes = re.findall(line, out, re.MULTILINE)
    assert len(hashes) == 10, out
    assert len(set(hashes)) == 1, out
    assert "offbeat: 1 different result(s) in 10 runs" in out
    # gloo's order of adding depends on the place in the bucket.
    assert ("gloo: 1 different result(s) in 10 runs" in out) != buckets


@pytest.mark.only_deep
def test_the_benchmark_of_training(tmp_path: Path) -> None:
    found, figure = tmp_path / "found.json", tmp_path / "figure.svg"
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "training" / "paper_training.py"),
        "--torch",
        sys.executable,
    ]
    command += ["--models", "cnn:32:4", "--binding", "bound", "--rounds", "2", "--seconds", "0.01"]
    command += [
        "--late-ms",
        "0,100",
        "--late-rank",
        "last,random",
        "--json",
        str(found),
        "--figure",
        str(figure),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    on_time, job, other = json.loads(found.read_text())["cells"]
    assert [(each["late_ms"], each["late_rank"]) for each in (on_time, job, other)] == [
        (0, "last"), (100, "last"), (100, "random")
    ]  # fmt: skip
    assert list(job["ways"]) == ["none", "gloo", "gloo, view", "offbeat", "offbeat, view"]
    assert job["ranks"] * job["batch"] / max(job["ways"]["none"]["images_per_s"]) > 0.1, "a rank is late"
    # With two ranks there is one order in which to add.
    hashes = {way: each["weights"] for way, each in job["ways"].items()}
    assert hashes["offbeat"] == hashes["offbeat, view"] == hashes["gloo"] != hashes["none"]
    for late in ("rank 1", "a random rank"):
        assert f"torch DDP, 2 ranks, bound, {late} late by 100 ms (sleep)" in done.stdout
    assert done.stdout.count(" lateness hidden |") == 1, done.stdout
    assert figure.read_text().count("<rect") == 1 + 3 * 2 * 4
