# SPDX-License-Identifier: BSD-2-Clause
"""What a run leaves behind: one JSON document, JUnit XML, one HTML page, a pcap a case, each read by somebody else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from interpreted_alone import interpreted_alone
from mutants import mutants
from toy_targets import dead

from mrc.capture.files import read_capture
from mrc.conformance.case import Case
from mrc.conformance.catalogue import catalogue, chosen
from mrc.conformance.report.document import run_document
from mrc.conformance.report.junit import junit, write_junit
from mrc.conformance.report.page import page, write_page
from mrc.conformance.report.pcaps import make_directory, write_case_pcap
from mrc.conformance.results import Run
from mrc.conformance.runner import run, run_case
from mrc.conformance.targets.in_process import target
from mrc.errors import SystemRefused

interpreted_alone()

CASES = chosen(catalogue(), ["MRC-SACK-04", "MRC-SACK-09", "MRC-WIRE-04"])


def as_should(each: Case) -> Case:
    return replace(each, requirement=replace(each.requirement, level="should"))


@pytest.fixture(scope="module")
def wrong() -> Run:
    """A run in which MRC-SACK-04 fails and nothing else."""
    return run(CASES, mutants()["sack_echoes_another_ev"].target())


def test_the_document_counts_what_it_lists(wrong: Run) -> None:
    document = json.loads(json.dumps(run_document(wrong)))
    verdicts = [each["verdict"] for each in document["cases"]]
    for verdict, count in (
        ("passed", "passed"),
        ("failed", "failed"),
        ("unsupported", "unsupported"),
        ("error", "errors"),
    ):
        assert document[count] == verdicts.count(verdict)
    assert (document["failed"], document["failed_that_count"], document["void"]) == (1, 1, None)
    assert document["control"]["verdict"] == "failed"
    (failed,) = (each for each in document["cases"] if each["verdict"] == "failed")
    assert failed["id"] == "MRC-SACK-04"
    assert failed["requirement"] == "entropy is the EV of the packet that triggered the SACK."
    assert "entropy 0x00000000" in failed["expected"]
    assert "entropy 0x01000003" in failed["actual"]
    assert any("tester: WRITE Only psn 3" in line for line in failed["story"])
    passed = next(each for each in document["cases"] if each["verdict"] == "passed")
    assert (passed["expected"], passed["actual"]) == (None, None)


def test_a_should_counts_only_when_strict() -> None:
    cases = [as_should(each) for each in CASES]
    faulty = mutants()["sack_echoes_another_ev"].target()
    lenient, strict = run(cases, faulty), run(cases, faulty, strict=True)
    assert (lenient.failed, lenient.counted, lenient.good) == (1, 0, True)
    assert (strict.failed, strict.counted, strict.good) == (1, 1, False)
    for found, failures, skipped in ((lenient, "0", "1"), (strict, "1", "0")):
        (suite,) = (each for each in junit(found).iter("testsuite") if each.get("name") == "responder")
        assert (suite.get("failures"), suite.get("skipped")) == (failures, skipped)


def test_junit_has_a_testcase_for_each_case(wrong: Run, tmp_path: Path) -> None:
    write_junit(wrong, tmp_path / "results.xml")
    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    names = [each.get("name") for each in root.iter("testcase") if each.get("classname") != "control"]
    assert names == [result.case.id for result in wrong.results]
    (failure,) = root.iter("failure")
    assert "entropy 0x01000003" in str(failure.get("message"))
    assert "expected:" in str(failure.text)
    for suite in root.iter("testsuite"):
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))


def test_junit_of_a_void_run_has_a_failure(tmp_path: Path) -> None:
    found = run([], dead())
    (failure,) = junit(found).iter("failure")
    assert "void" in str(failure.get("message"))


class Page(HTMLParser):
    """Tags that are open, and everything a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.summaries = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.fetched += [str(value) for name, value in attributes if name in ("src", "href", "data")]
        self.summaries += tag == "summary"
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_network(wrong: Run, tmp_path: Path) -> None:
    write_page(wrong, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    parser = Page()
    parser.feed(text)
    assert (parser.open, parser.fetched) == ([], [])
    assert not re.search(r"url\(|@import|https?://", text)
    assert parser.summaries == 2 * len(CASES)
    assert text.index("MRC-SACK-04") < text.index("MRC-SACK-09")
    assert "is void" not in text


def test_the_page_of_a_void_run_says_so() -> None:
    assert "This run is void." in page(run([], dead()))


def test_what_a_target_says_does_not_become_markup() -> None:
    each = CASES[0]
    found = run([each], target())
    evil = replace(found.results[0], verdict="failed", expected="<b>", actual="<script>alert(1)</script>\x00")
    found.results[:] = [evil]
    assert "<script>" not in page(found)
    ElementTree.fromstring(ElementTree.tostring(junit(found)))


def test_a_pcap_holds_what_passed(tmp_path: Path) -> None:
    """Read by `mrc dissect`'s reader: each packet, at its time."""
    make_directory(tmp_path / "a" / "b")
    result = run_case(chosen(catalogue(), ["MRC-SACK-09/whole"])[0], target())
    path = write_case_pcap(result, tmp_path / "a" / "b")
    assert path.name == "MRC-SACK-09.whole.pcap"
    with path.open("rb") as stream:
        records = [(record.time_ns, record.data) for record in read_capture(stream, path.name)]
    assert records == [(passed.at, passed.frame) for passed in result.log]
    assert len(records) > 60


@pytest.mark.tshark
def test_tshark_reads_a_pcap(tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("no tshark")
    result = run_case(chosen(catalogue(), ["MRC-WIRE-04/stev"])[0], target())
    path = write_case_pcap(result, tmp_path)
    done = subprocess.run(
        ["tshark", "-n", "-r", path, "-T", "fields", "-e", "ip.src", "-e", "udp.dstport"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == len(result.log)
    assert set(lines) == {"10.0.0.1\t4791", "10.0.0.2\t4791", "10.0.1.2\t4791"}


@pytest.mark.parametrize("write", [write_junit, write_page])
def test_a_file_that_cannot_be_written_is_said_in_words(wrong: Run, tmp_path: Path, write: object) -> None:
    with pytest.raises(SystemRefused, match="cannot be written"):
        write(wrong, tmp_path / "nowhere" / "file")  # type: ignore[operator]
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemRefused, match="cannot be made"):
        make_directory(tmp_path / "file" / "pcaps")


# Everything that XML 1.0 has no place for, what ends a CDATA section or a comment, and markup.
HOSTILE = (
    "".join(map(chr, [*range(32), 0x7F, 0x85, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF, 0x10FFFF])) + "]]> --> <x y='\"'>&amp;"
)


@pytest.mark.parametrize("said", [HOSTILE, "\ud800", "\x00", "]]>", "\udcff.pcap", "a\nb\r\tc", "\x1b[2J"])
def test_junit_is_well_formed_whatever_an_adapter_says(wrong: Run, tmp_path: Path, said: str) -> None:
    """The name of the target, why the run is void, what a case saw, a traceback: expat reads what was written."""
    results = [
        replace(each, actual=said, traceback=said, verdict=verdict)
        for each in wrong.results[:2]
        for verdict in ("failed", "error", "unsupported")
    ]
    hostile = replace(wrong, target=said, void=said, results=results)
    write_junit(hostile, tmp_path / "results.xml")
    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert len(list(root.iter("testcase"))) == 2 + 6
    assert str(root.get("name")).startswith("MRC conformance of ")
    write_page(hostile, tmp_path / "results.html")
    text = (tmp_path / "results.html").read_text()
    assert "<x y=" not in text
