# SPDX-License-Identifier: BSD-2-Clause
"""Keyed sums: the same however a file's bytes come, another one for every other file, and GMAC as NIST defines it."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.errors import PeerError
from mrc.net.transfer.sums import CHUNK, FileSum, RunningSum, Sums

SUMS = Sums(bytes(range(16)))
SIZES = [0, 1, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 70_000]


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def gmac(key: bytes, nonce: bytes, data: bytes) -> bytes:
    """By the stream interface of another library layer: AES-GCM of nothing, over `data`."""
    encryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(data)
    encryptor.finalize()
    return encryptor.tag


def test_gmac_is_that_of_the_vectors_of_nist() -> None:
    """CAVP gcmEncryptExtIV128.rsp, [PTlen = 0, AADlen = 128], count 0."""
    key = bytes.fromhex("77be63708971c4e240d1cb79e8d77feb")
    nonce = bytes.fromhex("e0e00f19fed7ba0136a797f3")
    data = bytes.fromhex("7a43ec1d9c0a5a78a0b16533a6213cab")
    assert gmac(key, nonce, data).hex() == "209fcc8d3675ed938e9c7166709dd946"
    kind, file, number = nonce[0], int.from_bytes(nonce[1:5], "big"), int.from_bytes(nonce[5:], "big")
    assert Sums(key).tag(file, kind, number, data).hex() == "209fcc8d3675ed938e9c7166709dd946"


@pytest.mark.parametrize("size", SIZES)
def test_a_file_s_sum_is_of_its_size_and_its_chunks(size: int) -> None:
    data = content(size)

    def nonce(kind: int, number: int) -> bytes:
        return bytes([kind, 0, 0, 0, 7]) + number.to_bytes(7, "big")

    tags = [gmac(SUMS.key, nonce(0, number), data[at : at + CHUNK]) for number, at in enumerate(range(0, size, CHUNK))]
    whole = gmac(SUMS.key, nonce(2, 0), size.to_bytes(8, "big") + b"".join(tags))
    assert SUMS.of_content(7, data) == whole.hex()


@settings(max_examples=draws(20), deadline=None)
@given(size=st.sampled_from(SIZES), seed=st.integers(0, 1 << 32))
def test_order_and_pieces_change_nothing(size: int, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    data, rng = content(size), random.Random(seed)
    expected = SUMS.of_content(3, data)
    cuts = sorted(rng.randrange(size + 1) for _ in range(rng.randrange(6)))
    pieces = list(zip([0, *cuts], [*cuts, size], strict=True))

    running = RunningSum(FileSum(SUMS, 3))
    for begin, end in pieces:
        running.add(memoryview(data)[begin:end])
    assert (running.size, running.text()) == (size, expected)

    # What no piece holds whole is read at the end.
    rng.shuffle(pieces)
    made = FileSum(SUMS, 3)
    for begin, end in pieces:
        made.add(begin, data[begin:end], size)
    path = tmp_path_factory.getbasetemp() / "file"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    made.read(descriptor, 0, size, size)
    os.close(descriptor)
    assert made.missing(size) == 0
    assert made.text(size) == expected


def test_another_file_has_another_sum() -> None:
    data = content(CHUNK + 5)
    first = SUMS.of_content(0, data)
    assert SUMS.of_content(0, data) == first
    others = [data[:-1], data + b"\0", data[:1000] + bytes([data[1000] ^ 1]) + data[1001:], data[::-1]]
    sums = {SUMS.of_content(0, other) for other in others}
    sums |= {SUMS.of_content(1, data), Sums().of_content(0, data), Sums().of_content(0, data)}
    assert len(sums) == 7
    assert first not in sums


def test_what_is_written_to_is_summed_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content(3 * CHUNK))
    descriptor = os.open(path, os.O_RDWR)
    made = FileSum(SUMS, 0)
    made.read(descriptor, 0, 3 * CHUNK, 3 * CHUNK)
    os.pwrite(descriptor, b"new", 2 * CHUNK - 1)  # over two chunks
    made.forget(2 * CHUNK - 1, 3)
    assert made.missing(3 * CHUNK) == 2 * CHUNK
    made.read(descriptor, 0, 3 * CHUNK, 3 * CHUNK)
    os.close(descriptor)
    assert made.text(3 * CHUNK) == SUMS.of_content(0, path.read_bytes())


def test_a_file_that_is_too_short_has_no_sum(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content(CHUNK))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    with pytest.raises(EOFError, match=f"ends after {CHUNK} of {CHUNK + 1} bytes"):
        FileSum(SUMS, 0).read(descriptor, 0, CHUNK + 1, CHUNK + 1)
    os.close(descriptor)


def test_threads_share_the_sums_of_a_session() -> None:
    """A sender reads small files ahead while a large one is summed."""
    data = content(2 * CHUNK)
    expected = [SUMS.of_content(file, data) for file in range(4)]
    found: dict[int, set[str]] = {}

    def work(file: int) -> None:
        found[file] = {SUMS.of_content(file, data) for _ in range(50)}

    threads = [threading.Thread(target=work, args=(file,)) for file in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {file: {expected[file]} for file in range(4)}


@pytest.mark.parametrize("key", ["", "00", "zz" * 16, "00" * 17])
def test_no_key_is_refused(key: str) -> None:
    with pytest.raises(PeerError, match="no key for sums"):
        Sums.of_key(key)
    assert Sums.of_key(SUMS.key.hex()).of_content(0, b"abc") == SUMS.of_content(0, b"abc")
