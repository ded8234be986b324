# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Whose an endpoint is, of the threads that run its loop, stand in for it and reach in.

Two words of memory: whether it is held, and how many ask for it. Who turns has it without the interpreter, who reaches
in has it with the interpreter.
"""

from __future__ import annotations

from mrc.endpoint.parts import interpreter
from mrc.endpoint.parts.numbers import column
from mrc.net import system
from mrc.net.system import LOCK_WORDS
from mrc.wire.compiled import i64s, may_raise

# Who has the endpoint lets others have it for so long; who cannot have it tries again so much later.
OTHERS_NS = 1_000_000
SHORTLY_NS = 20_000


class EndpointLock:
    """Of one endpoint. It is given back by the thread that holds it."""

    def __init__(self) -> None:
        self._words: i64s = column(LOCK_WORDS)

    def begin(self) -> may_raise[None]:
        """Have the endpoint, with the interpreter. A turn that is under way ends before."""
        if not system.try_hold(self._words):
            self._begin_late()

    def _begin_late(self) -> may_raise[None]:
        system.ask(self._words, 1)
        patience: int = system.clock() + OTHERS_NS
        while not system.try_hold(self._words):
            if system.clock() < patience:
                system.yield_processor()
                continue
            # What is under way may want the interpreter. Who waits for that as well asks for nothing meanwhile.
            system.ask(self._words, -1)
            state: int = interpreter.let_go()
            system.sleep(SHORTLY_NS)
            interpreter.take_back(state)
            system.ask(self._words, 1)
            patience = system.clock() + OTHERS_NS
        system.ask(self._words, -1)

    def hold(self) -> None:
        """Have the endpoint, without the interpreter."""
        while not system.try_hold(self._words):
            system.sleep(SHORTLY_NS)

    def try_hold(self) -> bool:
        """Take the endpoint if no thread has it. Returns whether it was taken."""
        return system.try_hold(self._words)

    def give_back(self) -> None:
        """Another may have it."""
        system.give_back(self._words)

    def is_asked_for(self) -> bool:
        """Whether a caller's thread waits for it."""
        return system.is_asked_for(self._words)

    def let_others(self) -> None:
        """Let those have it who ask for it: for who has given it back, or is about to take it."""
        patience = system.clock() + OTHERS_NS
        while system.is_asked_for(self._words) and system.clock() < patience:
            system.yield_processor()
