# SPDX-License-Identifier: BSD-2-Clause
"""The functions of Lua that are written from the table of words; test_capture_wireshark.py runs them in a tshark."""

from __future__ import annotations

import pytest

from mrc.capture.wireshark.words import lua_format, word_functions
from mrc.errors import CallerError
from mrc.wire.headers import HeaderLayout
from mrc.wire.words import WORDS, Phrase

LAYOUT = HeaderLayout.parse("greeting", "wide:64 skewed:20 narrow:12 flag:1 reserved:7")


def written(monkeypatch: pytest.MonkeyPatch, *phrases: Phrase) -> list[str]:
    """The phrases of a header as Lua has them."""
    monkeypatch.setitem(WORDS, "greeting", phrases)
    text = "\n".join(word_functions({"greeting": LAYOUT}))
    body = text.partition("greeting = function(v)\n    return joined(\n")[2].partition("\n    )")[0]
    return [line.strip().rstrip(",") for line in body.splitlines()]


def test_phrases_of_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    phrases = (
        Phrase("hello"),
        Phrase("a=0x{narrow:03x} b={skewed:+d}", "flag"),
        Phrase("c=0x{wide:x}", "wide"),
        Phrase("[none]", "not wide"),
        Phrase("d={narrow+skewed:psn}", "narrow >= 0x10"),
    )
    assert written(monkeypatch, *phrases) == [
        '"hello"',
        'v.flag ~= 0 and ("a=0x%03x b=%+d"):format(v.narrow, v.skewed)',
        # Strings of hexadecimal digits.
        'v.wide ~= "0" and ("c=0x%s"):format(v.wide)',
        'v.wide == "0" and "[none]"',
        'v.narrow >= 16 and ("d=%d"):format((v.narrow + v.skewed) % PSNS)',
    ]


def test_what_lua_cannot_say_is_refused_when_the_script_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    for phrase, says in (
        (Phrase("{wide}"), "format as '' what lies in more than 4 bytes"),
        (Phrase("{wide:016x}"), "format as '016x' what lies in more than 4 bytes"),
        (Phrase("{narrow:>8}"), "format as '>8'$"),
        (Phrase("x", "wide >= 3"), "whether wide >= a number: it lies in more than 4 bytes"),
    ):
        with pytest.raises(CallerError, match=says):
            written(monkeypatch, phrase)


@pytest.mark.parametrize(("form", "lua"), [("", "%d"), ("06x", "%06x"), ("+d", "%+d"), ("s", "%s"), ("x", "%x")])
def test_formats(form: str, lua: str) -> None:
    assert lua_format(form) == lua
