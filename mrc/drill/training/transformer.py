# SPDX-License-Identifier: BSD-2-Clause
"""A small transformer in PyTorch, of about a million parameters, that learns which symbol follows which.

One thread computes, so the same seed gives the same bits on the same machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mrc.drill.training.learners import F32, I64

SYMBOLS, LENGTH, BATCH = 64, 32, 8
_WIDTH, _HEADS, _BLOCKS = 128, 4, 5
_SURE = 0.9  # how often a symbol is the one that follows
_RATE, _DECAY = 2e-3, 1e-2
_FADE, _FADE_OF_SQUARES, _TINY = 0.9, 0.999, 1e-8
_FOLLOWS, _BATCHES = range(2)  # what a seed is drawn for


class Sequences:
    """Sequences of 64 symbols: nine of ten times a symbol has the same successor, else any."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._follows = np.random.default_rng((seed, _FOLLOWS)).permutation(SYMBOLS)

    def batch(self, rank: int, step: int) -> tuple[I64, I64]:
        """Return sequences, BATCH x LENGTH, and for each symbol the one that follows."""
        draw = np.random.default_rng((self._seed, _BATCHES, rank, step))
        sequences = draw.integers(0, SYMBOLS, (BATCH, LENGTH + 1))
        sure = draw.random((BATCH, LENGTH)) < _SURE
        for at in range(LENGTH):
            sequences[:, at + 1] = np.where(sure[:, at], self._follows[sequences[:, at]], sequences[:, at + 1])
        return sequences[:, :-1], sequences[:, 1:]


class _Network(nn.Module):  # type: ignore[misc]
    """Embeddings, five blocks of attention and perceptron, and a last layer. `buckets`: its parameters in the order
    in which their gradients are complete."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, _WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, _WIDTH))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(_BLOCKS)
        )
        self.last = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, SYMBOLS))
        self._mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)

    def forward(self, symbols: Tensor) -> Tensor:
        values = self.symbols(symbols) + self.places
        for block in self.blocks:
            values = block(values, src_mask=self._mask, is_causal=True)
        return self.last(values)

    @property
    def buckets(self) -> list[list[Tensor]]:
        blocks = [list(block.parameters()) for block in reversed(self.blocks)]
        return [list(self.last.parameters()), *blocks, [*self.symbols.parameters(), self.places]]


def _nobody(_: F32) -> None:
    """Nobody waits for gradients."""


class _AdamW:
    """AdamW, with the formula and the defaults of torch.optim.AdamW. The making of any optimizer of torch imports
    torch's compiler: as much again as all of torch, which a rank's start waits for."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters
        self._means = [torch.zeros_like(each) for each in parameters]
        self._squares = [torch.zeros_like(each) for each in parameters]
        self._steps = 0

    def step(self) -> None:
        self._steps += 1
        rate = _RATE / (1 - _FADE**self._steps)
        of_squares = (1 - _FADE_OF_SQUARES**self._steps) ** 0.5
        with torch.no_grad():
            for parameter, mean, square in zip(self._parameters, self._means, self._squares, strict=True):
                parameter.mul_(1 - _RATE * _DECAY)
                mean.lerp_(parameter.grad, 1 - _FADE)
                square.mul_(_FADE_OF_SQUARES).addcmul_(parameter.grad, parameter.grad, value=1 - _FADE_OF_SQUARES)
                parameter.addcdiv_(mean, (square.sqrt() / of_squares).add_(_TINY), value=-rate)


class Transformer:
    """The network, its optimizer, and its gradients in one array: each bucket is a part of it."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self._network = _Network()
        self._parameters: list[Tensor] = list(self._network.parameters())
        self._optimizer = _AdamW(self._parameters)
        self.gradient: F32 = np.zeros(sum(each.numel() for each in self._parameters), np.float32)
        self._ready: Callable[[F32], None] = _nobody
        at = 0
        for bucket in self._network.buckets:
            first = at
            for parameter in bucket:
                part = self.gradient[at : at + parameter.numel()]
                parameter.grad = torch.from_numpy(part).view_as(parameter)
                at += parameter.numel()
            self._announce(bucket, self.gradient[first:at])

    def _announce(self, bucket: list[Tensor], part: F32) -> None:
        """Tell of a bucket whenever the gradients of all its parameters are there."""
        left = len(bucket)

        def filled(_: Tensor) -> None:
            nonlocal left
            left -= 1
            if not left:
                left = len(bucket)
                self._ready(part)

        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(filled)

    def differentiate(self, symbols: I64, wanted: I64, ready: Callable[[F32], None] = _nobody) -> float:
        self._ready = ready
        self.gradient[:] = 0
        odds: Any = self._network(torch.from_numpy(symbols))
        loss = nn.functional.cross_entropy(odds.flatten(0, 1), torch.from_numpy(wanted).flatten())
        loss.backward()
        return float(loss)

    def learn(self, ranks: int) -> None:
        self.gradient /= np.float32(ranks)
        self._optimizer.step()

    def digest(self) -> str:
        found = hashlib.sha256()
        for parameter in self._parameters:
            found.update(parameter.detach().numpy().tobytes())
        return found.hexdigest()
