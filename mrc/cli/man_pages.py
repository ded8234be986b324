# SPDX-License-Identifier: BSD-2-Clause
"""Manual pages of all commands, from what their help says: `python -m mrc.cli.man_pages DIR` writes them.

A wheel has them in share/man/man1, where `man mrc-lab-cut` finds them (hatch_build.py). Building one needs no more of
the package than its commands import at their start: click. A page is roff with the macros of man(7).
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from mrc import __version__
from mrc.cli import main

_EXAMPLES = "Examples:"
_VERBATIM = "\b"
_EXIT_STATUS = (
    "Unless the text above says otherwise: 0: done. 1: failed. 2: wrong usage. 130: ended by Ctrl-C. "
    "143: by SIGTERM. 129: by a closed terminal."
)
_WIDTH = 79  # of the lines of a page's source: mandoc warns of longer ones


@dataclass(frozen=True, slots=True)
class Page:
    """The page of one command; `words` are how it is called: mrc, lab, cut."""

    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str:
        """mrc-lab-cut.1"""
        return f"{'-'.join(self.words)}.1"


def commands(context: click.Context | None = None) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Every command with its group's words in front, each group before its commands; all of them are loaded."""
    context = context or _context("mrc", main)
    yield tuple(context.command_path.split()), context
    for name, command in _below(context):
        yield from commands(_context(name, command, context))


def pages(date: str) -> Iterator[Page]:
    """A page for each command. `date` is that of the page, 2026-11-25."""
    for words, context in commands():
        yield Page(words, _page(words, context, date))


def _context(name: str, command: click.Command, parent: click.Context | None = None) -> click.Context:
    return click.Context(command, parent, info_name=name, **command.context_settings)


def _below(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if not command.hidden:
                yield name, command


def _page(words: tuple[str, ...], context: click.Context, date: str) -> str:
    description, examples = _split(context.command)
    usage = " ".join(context.command.collect_usage_pieces(context))
    parts = [
        f'.TH "{"-".join(words).upper()}" 1 "{date}" "mrc {__version__}" "mrc"\n',
        f".SH NAME\n{_plain('-'.join(words))} \\-\n{_filled(_summary(context.command))}",
        f".SH SYNOPSIS\n.B {_plain(' '.join(words))}\n{_filled(usage)}",
        f".SH DESCRIPTION\n{description}",
        _commands(words, context),
        _options(context),
        _environment(context),
        f".SH EXAMPLES\n{examples}" if examples else "",
        f".SH EXIT STATUS\n{_filled(_EXIT_STATUS)}" if len(words) > 1 else "",
        _see_also(words, context),
    ]
    return "".join(parts)


def _summary(command: click.Command) -> str:
    """The first sentence of the help, as a phrase."""
    return command.get_short_help_str(limit=1000).rstrip(".")


def _split(command: click.Command) -> tuple[str, str]:
    """What the help says, and its examples."""
    description, examples = "", ""
    text = inspect.cleandoc(command.help or "").replace(f"\n{_VERBATIM}\n", f"\n\n{_VERBATIM}\n")
    for paragraph in re.split(r"\n\n+", text):
        lines = paragraph.splitlines()
        if lines[0] != _VERBATIM:
            description += (".PP\n" if description else "") + _filled(" ".join(lines))
        elif lines[1] == _EXAMPLES:
            examples += (".PP\n" if examples else "") + _block(lines[2:])
        else:
            description += (".PP\n" if description else "") + _block(lines[1:])
    return description, examples


def _block(lines: list[str]) -> str:
    """Lines that stay as they are."""
    return "".join([".nf\n", *(f"{_plain(line)}\n" for line in lines), ".fi\n"])


def _commands(words: tuple[str, ...], context: click.Context) -> str:
    listed = [
        f".TP\n.BR {_plain('-'.join((*words, name)))} (1)\n{_filled(_summary(command) + '.')}"
        for name, command in _below(context)
    ]
    return "".join([".SH COMMANDS\n", *listed]) if listed else ""


def _options(context: click.Context) -> str:
    listed = []
    for param in context.command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            names, text = record
            listed.append(f".TP\n.B {_plain(names)}\n{_filled(text)}")
    return "".join([".SH OPTIONS\n", *listed])


def _environment(context: click.Context) -> str:
    listed = [
        f".TP\n.B {_plain(str(param.envvar))}\nTakes the place of\n.BR {_plain(param.opts[0])} .\n"
        for param in context.command.params
        if isinstance(param, click.Option) and param.envvar and not param.hidden
    ]
    return "".join([".SH ENVIRONMENT\n", *listed]) if listed else ""


def _see_also(words: tuple[str, ...], context: click.Context) -> str:
    """The group's page and those of the group's other commands."""
    if context.parent is None:
        return ""
    near = [words[:-1]]
    if len(words) > 2:
        near += [(*words[:-1], name) for name, _ in _below(context.parent) if name != words[-1]]
    listed = [f".BR {_plain('-'.join(each))} (1)" for each in near]
    return ".SH SEE ALSO\n" + ",\n".join(listed) + "\n"


def _plain(text: str) -> str:
    """Text in which nothing is a command to roff; what is between backticks is bold."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", escaped)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _filled(text: str) -> str:
    """A paragraph, in lines as short as the page's source is to have them."""
    # Escapes make a line longer.
    lines = textwrap.wrap(text, _WIDTH - 15, break_long_words=False, break_on_hyphens=False)
    marks = [0]
    for line in lines:
        marks.append(marks[-1] + line.count("`"))
    # A pair of backticks may begin on one line and end on the next.
    opened = ["`" if mark % 2 else "" for mark in marks]
    shown = [opened[n] + line + opened[n + 1] for n, line in enumerate(lines)]
    return "".join(f"{_plain(line)}\n" for line in shown)


def write(directory: Path) -> list[Path]:
    """Write all pages into a directory, which is made. Returns the files."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for page in pages(time.strftime("%Y-%m-%d", time.gmtime(epoch))):
        path = directory / page.file
        path.write_text(page.text, encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    write(Path(sys.argv[1]))
