# SPDX-License-Identifier: BSD-2-Clause
"""The HTML report: one file that needs nothing else, small for what it shows, and that a browser draws."""

from __future__ import annotations

import base64
import html
import json
import os
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analyzing import analysis_of
from crafted_flows import MICROSECOND, Crafted, ev_of, transfer

from mrc.capture.analysis.fates import ARRIVED
from mrc.capture.analysis.findings import findings
from mrc.capture.analysis.report import report
from mrc.report.units import measured_s_text

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(4)]


def lossy(count: int) -> tuple[Crafted, Any]:
    crafted = Crafted(payload=64)

    def lost(chance: random.Random, ev: int) -> bool:
        return ev == PATHS[2] and chance.random() < 0.05

    return crafted, transfer(crafted, count, PATHS, lost)


def page_of(crafted: Crafted, name: str = "x.pcap") -> str:
    analysis = analysis_of(crafted.pcap())
    return report(name, analysis, findings(analysis))


def data_of(page: str) -> list[dict[str, Any]]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    found = json.loads(match[1])
    assert isinstance(found, list)
    return found


def unpacked(text: str, kind: str) -> Any:
    return np.frombuffer(base64.b64decode(text), kind)


class _References(HTMLParser):
    """Whatever would make a browser fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(f"{tag} {name}", value) for name, value in attrs if name in ("src", "href", "srcset", "data")]
        assert tag not in ("link", "iframe", "object", "img")


def test_the_page_refers_to_nothing_outside_and_forbids_it() -> None:
    page = page_of(lossy(500)[0])
    parser = _References()
    parser.feed(page)
    assert parser.found == []
    assert "default-src 'none'" in html.unescape(page)
    assert not re.search(r"url\(|https?://|@import|fetch\(|XMLHttpRequest", page)


def test_findings_come_before_the_graphs() -> None:
    page = page_of(lossy(3000)[0])
    finding = page.index("loses")
    assert page.index("Findings") < finding < page.index("data-plot")
    assert page.index("Queue pairs") < page.index("data-plot")


def test_names_from_outside_cannot_become_markup() -> None:
    name = "<img src=x>&@@DATA@@</script>.pcap"
    page = page_of(lossy(100)[0], name)
    assert "<img" not in page
    assert "&lt;img src=x&gt;&amp;@@DATA@@&lt;/script&gt;.pcap" in page


def test_the_graph_of_time_and_sequence_has_every_loss_and_resend_of_a_small_capture() -> None:
    crafted, truth = lossy(3000)
    (one,) = data_of(page_of(crafted))
    by_name = {line["name"]: line for line in one["sequence"]}
    lost = sum(truth.lost.values())
    assert by_name["sent"]["count"] == 3000
    assert by_name["lost"]["count"] == by_name["sent again"]["count"] == lost
    assert len(unpacked(by_name["lost"]["x"], "<u4")) == lost
    # The first packet leaves at the beginning with the first PSN; PSN 2999 is the last.
    sent = by_name["sent"]
    assert (unpacked(sent["x"], "<u4")[0], unpacked(sent["y"], "<u4")[0]) == (0, 0)
    assert unpacked(sent["y"], "<u4").max() == 2999
    assert unpacked(sent["n"], "<u4")[0] == 1
    # Times come back to a billionth of the span.
    at = unpacked(by_name["lost"]["x"], "<u4")[0] / 0xFFFFFFFF * one["span_s"]
    numbers = unpacked(by_name["lost"]["n"], "<u4")
    assert at == pytest.approx(crafted.records[int(numbers[0]) - 1][0] / 1e9, abs=1e-8)


def test_goodput_is_the_mean_of_windows_with_the_least_and_the_most_as_their_band() -> None:
    """Held against windows counted one by one from the acknowledgements themselves."""
    crafted, _ = lossy(3000)
    analysis = analysis_of(crafted.pcap())
    (direction,) = analysis.directions
    page = report("x.pcap", analysis, findings(analysis))
    (one,) = data_of(page)
    lines = {line["name"]: {key: unpacked(line[key], "<f4") for key in ("y", "low", "high")} for line in one["goodput"]}
    assert set(lines) == {"plane 0", "plane 1", "all planes"}
    bins, window = len(lines["all planes"]["y"]), 17
    width_s = one["span_s"] / bins
    raw = [0.0] * bins
    for at in direction.fates.delivered_at[direction.fates.are(ARRIVED)].tolist():
        raw[min(bins - 1, int((at / 1e9 - one["start_s"]) / width_s))] += 64 * 8 / width_s / 1e9
    assert sum(raw) * width_s * 1e9 / 8 == pytest.approx(3000 * 64)
    for index in (0, 5, bins // 2, bins - 1):
        within = raw[max(0, index - window // 2) : index + window // 2 + 1]
        everything = {key: float(values[index]) for key, values in lines["all planes"].items()}
        expected = {"y": sum(within) / len(within), "low": min(within), "high": max(within)}
        assert everything == pytest.approx(expected, rel=0.02, abs=2 * 64 * 8 / width_s / 1e9 / window)
    planes = lines["plane 0"]["y"] + lines["plane 1"]["y"]
    assert planes == pytest.approx(lines["all planes"]["y"], rel=1e-4)
    for line in lines.values():
        assert (line["low"] <= line["y"] * 1.0001).all()
        assert (line["y"] <= line["high"] * 1.0001).all()
    assert "Line: the mean of 17 bins of " in page
    assert "Band: the least and the most of these 17 bins." in page


def test_the_page_says_with_what_probability_a_path_is_named() -> None:
    assert "fewer than one capture in 1,000" in page_of(lossy(3000)[0])


def test_losses_over_time_are_shares_of_equal_bins() -> None:
    """Every 4 us a packet, so all bins have as many, but for those sent again: shares sum up to all that were lost."""
    crafted, truth = lossy(6000)
    page = page_of(crafted)
    (one,) = data_of(page)
    (line,) = one["losses"]
    share = unpacked(line["y"], "<f4")
    lost, sent = truth.lost[PATHS[2]], sum(truth.sent.values())
    assert (line["name"], len(share)) == ("lost", 100)
    assert share.mean() == pytest.approx(100 * lost / sent, rel=0.02)
    assert f"equal bins of {measured_s_text(one['span_s'] / 100)}," in page
    whole = Crafted(payload=64)
    transfer(whole, 1000, PATHS, lambda chance, ev: False)
    page = page_of(whole)
    assert data_of(page)[0]["losses"] == []
    assert "Loss over time" not in page


def test_round_trips_are_quantiles_and_paths_that_are_slow() -> None:
    """Of round trips that grow from 100 to 199 us over and over, on a path of its own from 1000 us on."""
    crafted, sent = Crafted(), 4000
    for psn in range(sent):
        ev, took = PATHS[psn % 8], 100 + psn // 8 % 100 + (900 if psn % 8 == 3 else 0)
        crafted.data(psn * 4 * MICROSECOND, psn, ev)
        crafted.sack(psn * 4 * MICROSECOND + took * MICROSECOND, psn, psn, ev)
    (one,) = data_of(page_of(crafted))
    lines = {line["name"]: unpacked(line["y"], "<f4") for line in one["rtt"]}
    assert list(lines)[:3] == ["p50", "p90", "p99"]
    (slow,) = list(lines)[3:]
    assert slow.startswith("p50 of ")
    assert f"0x{PATHS[3]:08x}" in slow
    half, most, all_but = (values[~np.isnan(values)] for values in list(lines.values())[:3])
    assert (half <= most).all()
    assert (most <= all_but).all()
    # Of eight packets at a time one is slow: the median is below, the highest quantile is that path's.
    assert np.median(half) < 200
    assert np.median(all_but) >= 1000
    assert np.nanmin(lines[slow]) >= 1000


def test_round_trips_alike_are_three_lines() -> None:
    (one,) = data_of(page_of(lossy(3000)[0]))
    assert len(one["rtt"]) == 3
    for line in one["rtt"]:
        values = unpacked(line["y"], "<f4")
        # Every round trip of `transfer` takes 100 us.
        assert np.nanmax(values) == np.nanmin(values) == 100.0


def test_states_are_shares_of_time() -> None:
    """B is bad from 300 to 600 us of 1000: of 400 bins, number 120 to 239."""
    crafted, a, b = Crafted(), PATHS[0], PATHS[4]
    crafted.data(0, 0, a)
    crafted.data(1, 1, b)
    crafted.sack(290 * MICROSECOND, 0, 2, a)
    crafted.data(300 * MICROSECOND, 1, a, rtx=True)
    crafted.sack(500 * MICROSECOND, 1, 1, a, rtx=True)
    crafted.data(600 * MICROSECOND, 2, b)
    crafted.sack(800 * MICROSECOND, 2, 2, b)
    crafted.ack(1000 * MICROSECOND, 2)
    (one,) = data_of(page_of(crafted))
    (lane,) = one["states"]
    bad = unpacked(lane["bad"], "u1")
    assert len(bad) == 400
    assert (bad[120:240] == 255).all()
    assert (bad[:120] == 0).all()
    assert (bad[240:] == 0).all()


def test_a_page_stays_small() -> None:
    """Most of what grows with a capture is bounded: 60,000 packets take less than 3 MB, and ten QPs share the room."""
    crafted, _ = lossy(60_000)
    assert len(page_of(crafted)) < 3_000_000
    several = Crafted(payload=64)
    for number in range(10):
        one = Crafted(payload=64, requestor=0x1000 + number, responder=0x2000 + number)
        transfer(one, 6000, PATHS, lambda chance, ev: chance.random() < 0.05, seed=number)
        several.records += one.records
    page = page_of(several)
    assert len(data_of(page)) == 10
    assert len(page) < 4_000_000


def test_a_capture_of_nothing_has_a_page_too() -> None:
    page = page_of(Crafted())
    assert "none of 0 packets is RoCEv2 or MRC" in page
    assert data_of(page) == []


def test_a_browser_draws_it(tmp_path: Path) -> None:
    """Chromium runs the script to its end; every graph has a canvas with a size."""
    chromium = shutil.which("chromium")
    if chromium is None and os.environ.get("CI") != "true":
        pytest.skip("needs the program chromium")
    assert chromium is not None, "install chromium"
    file = tmp_path / "report.html"
    file.write_text(page_of(lossy(2000)[0]))
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    flags += "--disable-component-update --disable-sync --window-size=1200,900 --dump-dom"
    argv = [chromium, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()]
    dom = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r'data-ready="\d+"', dom)
    plots = re.findall(r'<canvas role="img" aria-label="([^"]+)"[^>]*style="height: \d+px;"', dom)
    assert plots == [
        "time and sequence",
        "goodput over time",
        "round trips over time",
        "losses over time",
        "path states over time",
    ]
