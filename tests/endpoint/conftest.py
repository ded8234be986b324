"""What is received is taken packet by packet or as arrays, by how much there is: tests about that run both ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hand_peer import HandPeer

# A part of the name of each file whose tests are about what is received.
_RECEIVING = (
    "answers",
    "arrivals",
    "drops",
    "immediates",
    "memory",
    "refusals",
    "responder",
    "sack",
    "trimmed",
    "write_requests",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if any(part in metafunc.module.__name__ for part in _RECEIVING):
        metafunc.parametrize("one_by_one", [24, 0], ids=["one by one", "as arrays"], indirect=True)


@pytest.fixture(autouse=True)
def one_by_one(request: pytest.FixtureRequest) -> Iterator[None]:
    before = HandPeer.one_by_one
    HandPeer.one_by_one = getattr(request, "param", before)
    yield
    HandPeer.one_by_one = before
