# SPDX-License-Identifier: BSD-2-Clause
"""A small real model in numpy: a perceptron of a million parameters that learns to tell points of 64 kinds apart.

The same seed gives the same bits on the same machine: data are drawn by seed, rank and step, and every value is
computed in one order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from mrc.drill.training.learners import F32, I64

WIDTHS = (256, 640, 640, 640, 64)
BATCH = 64
_KIND_SPREAD = np.float32(0.3)  # between kinds, where points of a kind spread by 1
_RATE, _MOMENTUM = np.float32(0.02), np.float32(0.9)
_CENTRES, _WEIGHTS, _POINTS = range(3)  # what a seed is drawn for


class Data:
    """Points around 64 centres in 256 dimensions, and which centre each is of. No two ranks or steps share a point."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        centres = np.random.default_rng((seed, _CENTRES)).standard_normal((WIDTHS[-1], WIDTHS[0]), np.float32)
        self._centres = centres * _KIND_SPREAD

    def batch(self, rank: int, step: int) -> tuple[F32, I64]:
        """(points, BATCH x 256, and their kinds) for one rank in one step."""
        draw = np.random.default_rng((self._seed, _POINTS, rank, step))
        kinds = draw.integers(0, WIDTHS[-1], BATCH)
        return self._centres[kinds] + draw.standard_normal((BATCH, WIDTHS[0]), np.float32), kinds


class Model:
    """`weights` and `gradient` are one array each. What is summed at once, a bucket, is a layer's part."""

    def __init__(self, seed: int) -> None:
        spans, at = [], 0
        for inputs, outputs in pairwise(WIDTHS):
            spans.append(slice(at, at + (inputs + 1) * outputs))
            at = spans[-1].stop
        self.weights: F32 = np.zeros(at, np.float32)
        self.gradient: F32 = np.zeros(at, np.float32)
        self._moved: F32 = np.zeros(at, np.float32)
        self._spans = spans
        draw = np.random.default_rng((seed, _WEIGHTS))
        for span, (inputs, outputs) in zip(spans, pairwise(WIDTHS), strict=True):
            matrix, _ = _layer(self.weights[span], inputs, outputs)
            matrix[...] = draw.standard_normal((inputs, outputs), np.float32) * np.float32((2 / inputs) ** 0.5)

    def differentiate(self, points: F32, kinds: I64, ready: Callable[[F32], None] = lambda bucket: None) -> float:
        """Fill `gradient` and return the mean loss (cross entropy). `ready` receives each bucket once it is filled, the
        last layer's first, while the layers below still compute."""
        shapes = list(pairwise(WIDTHS))
        layers = [_layer(self.weights[span], *shape) for span, shape in zip(self._spans, shapes, strict=True)]
        values = [points]
        for number, (matrix, bias) in enumerate(layers):
            out = values[-1] @ matrix + bias
            values.append(np.maximum(out, 0) if number < len(layers) - 1 else out)
        logits = values.pop()
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        sums = odds.sum(axis=1, keepdims=True)
        rows = np.arange(len(kinds))
        loss = float(np.mean(np.log(sums[:, 0]) - logits[rows, kinds]))
        back = odds / sums
        back[rows, kinds] -= 1
        back /= np.float32(len(kinds))
        for span, shape, (matrix, _), value in zip(
            reversed(self._spans), reversed(shapes), reversed(layers), reversed(values), strict=True
        ):
            bucket = self.gradient[span]
            by_matrix, by_bias = _layer(bucket, *shape)
            np.matmul(value.T, back, out=by_matrix)
            np.sum(back, axis=0, out=by_bias)
            ready(bucket)
            if span.start:
                back = back @ matrix.T
                back *= value > 0
        return loss

    def learn(self, ranks: int) -> None:
        """Move the weights against the mean gradient, `gradient` being the sum over so many ranks."""
        self._moved *= _MOMENTUM
        self._moved += self.gradient / np.float32(ranks)
        self.weights -= _RATE * self._moved

    def digest(self) -> str:
        """SHA-256 of the weights' bytes."""
        return hashlib.sha256(self.weights.tobytes()).hexdigest()


def _layer(part: F32, inputs: int, outputs: int) -> tuple[F32, F32]:
    """The matrix and the bias that lie in a layer's part of the array."""
    return part[: inputs * outputs].reshape(inputs, outputs), part[inputs * outputs :]
