# SPDX-License-Identifier: BSD-3-Clause
"""What a trace says about a training, in the words of people who train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offbeat.arrays import Floats
from offbeat.trace.reader import ranges
from offbeat.trace.slow_ranks import SlowRanks
from offbeat.units import format_as_ms, format_count, format_rounded_size, format_share

_SMALL_CALL_BYTES = 1 << 20  # gradient calls below this size are worth putting together
_MANY_CALLS_PER_STEP = 4
_MUCH_TIME_SHARE = 0.05
LITTLE_TIME = 0.02
LATE_SHARE = 0.02  # a rank is late by more than this share of a step


@dataclass(frozen=True)
class Training:
    """A training with gradient calls that repeat in steps. Times are medians over the steps."""

    framework: str
    gradient_calls: int
    gradient_bytes: int
    steps: int  # 0: not found
    why_no_steps: str
    step_ns: float
    step_bytes: float
    calls_per_step: float
    gradient_ns: float  # in gradient calls, in a step
    noise_ns: float  # lateness up to this is noise
    ranks: NDArray[np.int64]
    # Steps x ranks: how long after half of the ranks a rank has its first gradient, or its last one if only
    # that one tells ranks apart; nan if it is not known.
    late_ns: Floats
    slow: tuple[SlowRanks, ...]

    @property
    def gradient_share(self) -> float:
        """The share of a step in gradient calls, between 0 and 1."""
        return self.gradient_ns / self.step_ns if self.step_ns > 0 else 0.0

    @property
    def bandwidth(self) -> float:
        """The bytes of the gradients per second in gradient calls."""
        return 1e9 * self.step_bytes / self.gradient_ns if self.gradient_ns > 0 else 0.0

    @property
    def spread_ns(self) -> float:
        """How long after half of the ranks the last one is ready: the median over the steps."""
        known = self.late_ns[~np.isnan(self.late_ns).any(axis=1)]
        return float(np.median(known.max(axis=1))) if len(known) else 0.0

    @property
    def framework_evidence(self) -> str:
        """What shows the framework, if it is not the gradient calls: the beginning of a list."""
        return ""

    @property
    def slow_rank_of_framework(self) -> tuple[str, str]:
        """For a framework whose slow rank shows elsewhere.

        Returns a phrase for the calls that the findings are about, and a sentence that names those left out.
        """
        return "", ""

    @property
    def lateness_precision(self) -> str:
        """How well the lateness is known, if not by the arrival times: the end of a text."""
        return ""

    @property
    def figures(self) -> dict[str, Any]:
        """What only this framework has, for the JSON."""
        return {}

    @property
    def sentences(self) -> list[str]:
        """What the trace says about the training, the most important first."""
        return [*self._gradient_calls_sentences(), *self._slow_rank_sentences(), *self._gradients()]

    @property
    def advice(self) -> list[str]:
        """What to try, as far as the figures support it."""
        return [*self._advice_on_slow(), *(self._advice_on_calls() if self.steps else [])]

    def _gradient_calls_sentences(self) -> list[str]:
        count = format_count(self.gradient_calls, "gradient call")
        calls = f"Looks like {self.framework}: {self.framework_evidence}{count}"
        if not self.steps:
            return [f"{calls}. The steps of the training cannot be found: {self.why_no_steps}."]
        return [
            f"{calls} in {format_count(self.steps, 'step')}, {format_rounded_size(self.step_bytes)} a step."
        ]

    def _slow_rank_sentences(self) -> list[str]:
        if not self.steps or not len(self.late_ns):
            return []
        if self.slow:
            return [self._text_of_slow(each, first=number == 0) for number, each in enumerate(self.slow)]
        spread = f"the last rank is ready {format_as_ms(self.spread_ns)} (median) after the others"
        if self.spread_ns > self.noise_ns:
            return [f"No rank is slow throughout, but {spread}: a different rank each time."]
        return [f"No rank is slow: {spread}."]

    def _text_of_slow(self, slow: SlowRanks, *, first: bool) -> str:
        verb = "is the slow one" if len(slow.ranks) == 1 else "are the slow ones"
        step = f" of {format_as_ms(self.step_ns)}" if first else ""
        return f"{slow.who} {verb}, by {format_as_ms(slow.late_ns)} a step{step}{slow.when}.{slow.where}"

    def _gradients(self) -> list[str]:
        if not self.steps:
            return []
        return [
            f"Gradient calls take {format_as_ms(self.gradient_ns)} of a step of {format_as_ms(self.step_ns)} "
            f"({format_share(self.gradient_share)}), at {format_rounded_size(self.bandwidth)}/s."
        ]

    def _advice_on_slow(self) -> list[str]:
        ranks = sorted({rank for each in self.slow for rank in each.ranks})
        if not ranks:
            return []
        one = len(ranks) == 1
        who = f"rank {ranks[0]}" if one else f"ranks {ranges(ranks)}"
        its, does, computes = ("its", "does", "computes") if one else ("their", "do", "compute")
        if self.slow[0].in_backward_pass:
            return [
                f"{who.capitalize()} {computes} more slowly: look at the clock rate, and at what else runs "
                f"on {its} cores."
            ]
        return [
            f"Look at what {who} {does} before the backward pass: {its} input pipeline, logging and "
            f"checkpoints. Look at {its} share of the samples, and at what else runs on {its} cores."
        ]

    def _advice_on_calls(self) -> list[str]:
        return []

    @property
    def mean_call(self) -> float:
        """The mean bytes of a gradient call."""
        return self.step_bytes / max(self.calls_per_step, 1.0)

    @property
    def are_small(self) -> bool:
        """Whether gradient calls are so small and many that fewer would be faster."""
        small = self.calls_per_step >= _MANY_CALLS_PER_STEP and self.mean_call < _SMALL_CALL_BYTES
        return small and self.gradient_share >= _MUCH_TIME_SHARE


def median(values: Sequence[float] | Floats) -> float:
    """The median; 0 if there are no values."""
    return float(np.median(np.asarray(values, dtype=np.float64))) if len(values) else 0.0
