# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""How the program of a C interface and its endpoint wake each other: words in the program's memory.

Where the words are is shared with mrc/capi/src/rings.h (tests/capi).
"""

from __future__ import annotations

from mrc.wire import octets

# Of the doorbells, which all QPs of a program share: whether any has rung, whether the endpoint sleeps, the eventfd
# that wakes it, how many event fds it is to ring, the thread that turns (0: not known yet); then a word for each QP
# that rang, the QPs' numbers in the same order, and those fds. A QP's number is 0 where there never was one, -1 where
# there is none any more. Each is a word of its own, not a bit: interpreted the endpoint could not clear one bit while
# the program sets another.
RUNG, ASLEEP, BELL, TELLS, TURNER = range(5)
# What RUNG says. In a burst a program posts several times in a row, and does not look for completions between.
SILENT, SINGLY, IN_BURST = range(3)
# What ASLEEP says. Every post wakes an endpoint that sleeps. One that dozes looks before long by itself: no post in a
# burst wakes it, but the program's next look for completions does.
AWAKE, SLEEPS, DOZES = range(3)
MOST_QPS = 4096
BITS = 8
BIT_WORDS = MOST_QPS
QPNS = BITS + BIT_WORDS
TELL_FDS = QPNS + MOST_QPS
MOST_TELLS = 4096
BELL_WORDS = TELL_FDS + MOST_TELLS
# After a doze that ended by itself though something was posted so many bursts pass without one: that program waits
# elsewhere.
BURSTS_WITHOUT_DOZE = 64


class Doorbells:
    """How a program tells the endpoint which of its QPs have work, and the endpoint which event fds are to be rung."""

    def __init__(self, address: int, bell: int) -> None:
        """`bell` is an eventfd: the program rings it when the endpoint sleeps."""
        self._words = octets.words_at(address, BELL_WORDS)
        self._words[BELL] = bell
        self._in_burst = False
        self._without_doze = 0

    def take(self) -> bool:
        """Whether any has rung since this was asked last."""
        if not self.has_rung():
            return False
        if octets.exchange(self._words, RUNG, SILENT) == IN_BURST:
            self._in_burst = True
        return True

    def has_rung(self) -> bool:
        """Whether any has rung since `take`."""
        return octets.published(self._words, RUNG) != SILENT

    def dozes(self) -> bool:
        """The endpoint is about to sleep: returns whether it is to doze first, as the program may be in a burst."""
        if not self._in_burst:
            return False
        self._in_burst = False
        if self._without_doze:
            self._without_doze -= 1
            return False
        return self._falls_asleep(DOZES)

    def overslept(self) -> None:
        """A doze has ended by itself."""
        if self.has_rung():
            self._without_doze = BURSTS_WITHOUT_DOZE

    def sleeps(self) -> bool:
        """The endpoint is about to sleep: returns whether it may. Otherwise something was posted."""
        return self._falls_asleep(SLEEPS)

    def _falls_asleep(self, how: int) -> bool:
        octets.exchange(self._words, ASLEEP, how)
        if self.has_rung():
            self._words[ASLEEP] = AWAKE
            return False
        return True

    def awake(self) -> None:
        self._words[ASLEEP] = AWAKE

    def next(self, first: int) -> int:
        """The QPN of a QP that has rung, of those in place `first` and after; -1 without any. It is silent then."""
        word = first
        while word < BIT_WORDS and self._words[QPNS + word]:
            bits = self._words[BITS + word]
            if bits and self._words[QPNS + word] > 0:
                octets.exchange(self._words, BITS + word, 0)
                return self._words[QPNS + word]
            word += 1
        return -1

    def tell(self, fd: int) -> bool:
        """This event fd is to be rung. Returns False where there are too many already."""
        count = self._words[TELLS]
        if count >= MOST_TELLS:
            return False
        self._words[TELL_FDS + count] = fd
        self._words[TELLS] = count + 1
        return True

    def next_told(self) -> int:
        """An event fd that is to be rung, each once; -1 without any."""
        count = self._words[TELLS]
        if not count:
            return -1
        self._words[TELLS] = count - 1
        return self._words[TELL_FDS + count - 1]
