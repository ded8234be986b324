# SPDX-License-Identifier: BSD-2-Clause
"""A run as JUnit XML, a suite for each group."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from mrc.conformance.results import Result, Run
from mrc.conformance.verdicts import ERROR, FAILED, UNSUPPORTED
from mrc.whole_files import whole_file

_STORY = 40


def write_junit(run: Run, path: Path) -> None:
    """Raises SystemRefused when the file cannot be written."""
    tree = ElementTree.ElementTree(junit(run))
    ElementTree.indent(tree)
    with whole_file(path) as part:
        tree.write(part, encoding="utf-8", xml_declaration=True)


def junit(run: Run) -> ElementTree.Element:
    """`testsuites`. A failed should that does not count is skipped, with what was wrong in its message. What the suite
    or the adapter ended is an `error`, with its traceback."""
    root = ElementTree.Element("testsuites", name=f"{run.transport} conformance of {run.target}")
    control = ElementTree.SubElement(root, "testsuite", name="control", tests="2", skipped="0")
    control.set("failures", str(int(bool(run.void))))
    control.set("errors", str(int(run.closing is not None)))
    one = ElementTree.SubElement(control, "testcase", classname="control", name="the control case fails")
    if run.void:
        ElementTree.SubElement(one, "failure", message=f"the run is void: {run.void}")
    last = ElementTree.SubElement(control, "testcase", classname="control", name="the target is closed")
    if run.closing is not None:
        _error(last, str(run.closing.actual), run.closing.traceback)
    for group in dict.fromkeys(result.case.group for result in run.results):
        results = [result for result in run.results if result.case.group == group]
        suite = ElementTree.SubElement(root, "testsuite", name=group, tests=str(len(results)))
        suite.set("failures", str(sum(result.counts(run.strict) for result in results)))
        suite.set("errors", str(sum(result.verdict == ERROR for result in results)))
        skipped = sum(_is_skipped(result, run.strict) for result in results)
        suite.set("skipped", str(skipped))
        suite.set("time", f"{sum(result.took_s for result in results):.4f}")
        for result in results:
            _testcase(suite, result, run.strict)
    _clean(root)
    return root


def _is_skipped(result: Result, strict: bool) -> bool:
    return result.verdict == UNSUPPORTED or (result.verdict == FAILED and not result.counts(strict))


def _testcase(suite: ElementTree.Element, result: Result, strict: bool) -> None:
    each = result.case
    classname = f"mrc.conformance.{each.group.replace(' ', '_')}"
    one = ElementTree.SubElement(suite, "testcase", classname=classname, name=each.id, time=f"{result.took_s:.4f}")
    if result.counts(strict):
        message = f"expected {result.expected}; {result.actual}"
        failure = ElementTree.SubElement(one, "failure", message=message)
        lines = [each.requirement.text, each.about, "", f"expected: {result.expected}", f"actual:   {result.actual}"]
        failure.text = "\n".join([*lines, f"look at:  {each.look_at}", "", *result.log.story(_STORY)])
    elif result.verdict == ERROR:
        _error(one, str(result.actual), "\n".join([result.traceback, "", *result.log.story(_STORY)]))
    elif _is_skipped(result, strict):
        why = str(result.actual)
        if result.verdict == FAILED:
            why = f"failed, but only a {each.requirement.level}: expected {result.expected}; {result.actual}"
        ElementTree.SubElement(one, "skipped", message=why)


def _error(testcase: ElementTree.Element, message: str, text: str) -> None:
    ElementTree.SubElement(testcase, "error", message=message).text = text


def _clean(root: ElementTree.Element) -> None:
    """Whatever a target or its adapter says of itself, in every text and attribute, is what XML can hold."""
    for each in root.iter():
        each.text = each.text and _text(each.text)
        for name, value in each.attrib.items():
            each.set(name, _text(value))


def _text(text: str) -> str:
    """What XML can hold of it."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)
