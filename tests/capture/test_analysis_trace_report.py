# SPDX-License-Identifier: BSD-2-Clause
"""The report with traces: reported over inferred, and a legend that says which is which."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from analyzing import analysis_of
from crafted_traces import CraftedTrace
from test_analysis_report import data_of, unpacked
from test_analysis_trace import B, capture, receiver_trace, sender_trace

from mrc.capture.analysis.comparison import compare
from mrc.capture.analysis.report import report
from mrc.capture.analysis.reported import read_reported

PAGE_JS = Path(__file__).resolve().parents[2] / "mrc" / "capture" / "analysis" / "page.js"


def page(*traces: CraftedTrace) -> str:
    analysis = analysis_of(capture().pcap())
    reported = [read_reported(io.BytesIO(each.bytes()), "t") for each in traces]
    return report("x.pcap", analysis, [], compare(analysis, reported))


def test_reported_losses_lie_on_the_packets_that_they_are_about() -> None:
    (one,) = data_of(page(sender_trace()))
    lines = {line["name"]: line for line in one["sequence"]}
    numbers = {name: unpacked(line["n"], "<u4").tolist() for name, line in lines.items() if "n" in line}
    # PSN 13 is packet 2, 16 is 5, 17 and 18 are 6 and 7; 17 was sent again as packet 14.
    assert numbers["lost"] == numbers["reported hole"] == [2]
    assert numbers["trimmed"] == numbers["reported nack"] == [5]
    assert numbers["reported path_timer"] == [6, 7]
    assert numbers["reported spurious"] == [14]
    assert "reported local_ack_timeout" not in numbers  # not captured


def test_the_legend_says_what_is_inferred_and_what_is_reported() -> None:
    (one,) = data_of(page(sender_trace()))
    labels = {line["name"]: line.get("label") for line in one["sequence"]}
    assert labels["lost"] == "lost (inferred)"
    assert labels["trimmed"] == "trimmed (inferred)"
    assert labels["spurious retransmission"] == "spurious retransmission (inferred)"
    assert labels["reported hole"] == "lost (reported: hole)"
    assert labels["reported spurious"] == "spurious retransmission (reported)"
    assert labels["sent"] is None
    # Whatever has a name is drawn.
    drawn = PAGE_JS.read_text()
    assert all(f'"{name}": [' in drawn for name in labels)


def test_without_traces_nothing_is_called_reported() -> None:
    (one,) = data_of(page())
    assert not [line for line in one["sequence"] if "label" in line or line["name"].startswith("reported")]
    assert "<p>Reported by the endpoint</p>" not in page()


def test_reported_states_lie_below_the_inferred_ones_on_the_capture_s_time() -> None:
    """B is out from 125 to 415 us of 900: of 400 bins, number 56 to 183 wholly."""
    (one,) = data_of(page(sender_trace()))
    lanes = {lane["name"]: unpacked(lane["bad"], "u1") for lane in one["states"]}
    names = [lane["name"] for lane in one["states"] if f"0x{B:08x}" in lane["name"]]
    assert [name.rpartition(" ")[2] for name in names] == ["(inferred)", "(reported)"]
    reported = lanes[names[1]]
    assert (reported[56:184] == 255).all()
    assert (reported[:55] == 0).all()
    assert (reported[185:] == 0).all()


@pytest.mark.parametrize("end_ns", [701_003, 1_234_567, 182_345_679])
def test_a_bin_spent_wholly_in_a_state_is_dark_whatever_the_times(end_ns: int) -> None:
    crafted, trace = capture(), CraftedTrace()
    crafted.ack(end_ns, 18)
    trace.started([B])
    trace.state(0, B, "GOOD", "ASSUMED_BAD", "LOST")
    trace.metrics(end_ns, 1, 1)
    analysis = analysis_of(crafted.pcap())
    reported = [read_reported(io.BytesIO(trace.bytes()), "t")]
    (one,) = data_of(report("x.pcap", analysis, [], compare(analysis, reported)))
    (lane,) = (lane for lane in one["states"] if lane["name"].endswith(f"0x{B:08x} (reported)"))
    assert (unpacked(lane["bad"], "u1") == 255).all()


def test_a_trace_without_a_wall_clock_has_no_lanes() -> None:
    (one,) = data_of(page(sender_trace(offset_ns=None)))
    assert not [lane for lane in one["states"] if "reported" in lane["name"]]
    assert "reported hole" in {line["name"] for line in one["sequence"]}


def test_bars_and_tables_have_both() -> None:
    text = page(sender_trace(), receiver_trace())
    inferred, reported = text.index("<p>Inferred from the packets</p>"), text.index("<p>Reported by the endpoint</p>")
    # On B 1 of 5 packets is lost going by the packets, 2 going by the endpoint; on A (6 packets) 0 and 1.
    assert "20.0 %: 1 lost of 5" in text[inferred:reported]
    assert "40.0 %: 2 lost of 5" in text[reported:]
    assert "33.3 %: 1 lost, 1 trimmed of 6" in text[reported:]
    # Both on one scale, so that lengths can be compared: 40 % fills a bar, 20 % half of it.
    assert 'class=lost style="width:50.00%"' in text[inferred:reported]
    assert 'class=lost style="width:100.00%"' in text[reported:]
    assert "Inferred and reported" in text


def test_a_browser_draws_it(tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None and os.environ.get("CI") != "true":
        pytest.skip("needs the program chromium")
    assert chromium is not None, "install chromium"
    file = tmp_path / "report.html"
    file.write_text(page(sender_trace(), receiver_trace()))
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    flags += "--disable-component-update --disable-sync --window-size=1200,900 --dump-dom"
    argv = [chromium, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()]
    dom = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r'data-ready="\d+"', dom)
    buttons = re.findall(r'<button type="button"[^>]*><canvas[^>]*></canvas>([^<]*)</button>', dom)
    assert "lost (inferred) (1)" in buttons
    assert "lost (reported: path_timer) (2)" in buttons
