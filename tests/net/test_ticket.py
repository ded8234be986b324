# SPDX-License-Identifier: BSD-2-Clause
"""The ticket: its bytes against a vector put together by hand, and every way a paste goes wrong."""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.net.ticket import MAX_ADDRESSES, PREFIX, Ticket

FINGERPRINT = bytes(range(32))
SECRET = bytes(range(100, 116))
TICKET = Ticket(("fd00::1", "10.0.0.7"), 40000, FINGERPRINT, SECRET)

ADDRESSES = st.one_of(st.ip_addresses(v=6), st.ip_addresses(v=4)).filter(
    lambda address: not (address.is_link_local or address.is_unspecified or address.is_multicast)
)
TICKETS = st.builds(
    Ticket,
    st.lists(ADDRESSES.map(str), min_size=1, max_size=MAX_ADDRESSES).map(tuple),
    st.integers(1, 65535),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=16, max_size=16),
)


def test_the_bytes_of_a_ticket() -> None:
    body = bytes.fromhex("9c40020002") + FINGERPRINT + SECRET + bytes.fromhex("fd00" + "00" * 13 + "010a000007")
    expected = base64.urlsafe_b64encode(body + binascii.crc32(body).to_bytes(4, "big")).decode().rstrip("=")
    assert TICKET.text == "mrc1:" + expected
    assert len(TICKET.text) == 108


@settings(max_examples=draws(10), deadline=None)
@given(TICKETS)
def test_a_ticket_comes_back_as_it_went(ticket: Ticket) -> None:
    assert Ticket.parse(ticket.text) == ticket
    assert Ticket.parse(f"  {ticket.text}\n") == ticket


def test_any_single_character_changed_removed_or_doubled_is_refused() -> None:
    text = TICKET.text
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/= :\u00e4"
    for at, original in enumerate(text):
        changed = [text[:at] + other + text[at + 1 :] for other in alphabet if other != original]
        for wrong in [*changed, text[:at] + text[at + 1 :], text[:at] + original + text[at:]]:
            if wrong != text:
                with pytest.raises(CallerError):
                    Ticket.parse(wrong)


@settings(max_examples=draws(10), deadline=None)
@given(TICKETS, st.data())
def test_any_single_changed_character_of_any_ticket_is_refused(ticket: Ticket, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ticket.text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != ticket.text[at]))
    with pytest.raises(CallerError):
        Ticket.parse(ticket.text[:at] + other + ticket.text[at + 1 :])


@settings(max_examples=draws(10), deadline=None)
@given(TICKETS, st.data())
def test_a_cut_off_paste_is_called_cut_short(ticket: Ticket, data: st.DataObject) -> None:
    kept = data.draw(st.integers(len(PREFIX), len(ticket.text) - 1))
    with pytest.raises(CallerError, match="cut short"):
        Ticket.parse(ticket.text[:kept])


@given(st.text() | st.text("ABCDwxyz0189-_").map(lambda text: PREFIX + text))
def test_no_text_does_anything_but_parse_or_raise_caller_error(text: str) -> None:
    try:
        ticket = Ticket.parse(text)
    except CallerError:
        return
    assert ticket.text == text.strip()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the ticket is empty"),
        ("hello", "not a ticket"),
        ("mrc2:AAAA", "version 2"),
        (TICKET.text[:-1] + ("A" if TICKET.text[-1] != "A" else "B"), "altered|attached"),
        (TICKET.text[:20] + ("A" if TICKET.text[20] != "A" else "B") + TICKET.text[21:], "altered"),
        (TICKET.text + "AAAA", "attached"),
        (TICKET.text[:30] + "\n" + TICKET.text[30:], "altered"),
    ],
)
def test_the_text_of_the_error_names_the_trouble(text: str, says: str) -> None:
    with pytest.raises(CallerError, match=says):
        Ticket.parse(text)


@pytest.mark.parametrize(
    ("addresses", "port", "fingerprint", "secret"),
    [
        ((), 1, FINGERPRINT, SECRET),
        (("::1",) * 17, 1, FINGERPRINT, SECRET),
        (("::1",), 0, FINGERPRINT, SECRET),
        (("::1",), 65536, FINGERPRINT, SECRET),
        (("::1",), 1, FINGERPRINT[1:], SECRET),
        (("::1",), 1, FINGERPRINT, SECRET[1:]),
        (("::",), 1, FINGERPRINT, SECRET),
        (("0.0.0.0",), 1, FINGERPRINT, SECRET),
        (("fe80::1",), 1, FINGERPRINT, SECRET),
        (("fd00::1%eth0",), 1, FINGERPRINT, SECRET),
        (("ff02::1",), 1, FINGERPRINT, SECRET),
        (("host.example",), 1, FINGERPRINT, SECRET),
    ],
)
def test_parts_out_of_range_are_refused(
    addresses: tuple[str, ...], port: int, fingerprint: bytes, secret: bytes
) -> None:
    with pytest.raises(CallerError):
        Ticket(addresses, port, fingerprint, secret)


def test_a_ticket_shows_its_secret_only_when_asked_for_its_text() -> None:
    assert SECRET.hex() not in repr(TICKET)
    assert repr(SECRET) not in repr(TICKET)
    assert repr(SECRET) not in str(TICKET)


def test_one_spelling_per_address() -> None:
    assert Ticket(("FD00:0::1",), 1, FINGERPRINT, SECRET) == Ticket(("fd00::1",), 1, FINGERPRINT, SECRET)


def test_importing_it_loads_no_cryptography() -> None:
    code = "import sys, mrc.net.ticket; print([m for m in ('ssl', 'cryptography', 'hashlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
