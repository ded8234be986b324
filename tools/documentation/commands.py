# SPDX-License-Identifier: BSD-2-Clause
"""The reference of commands, from the commands themselves: a page for each command of mrc, with those below it."""

from __future__ import annotations

import inspect
import re

import click

from mrc.cli import man_pages

_VERBATIM = "\b"
_EXAMPLES = "Examples:"


def pages() -> dict[str, str]:
    """Path below docs and text: commands/index.md lists all commands, commands/lab.md has mrc lab and those below."""
    found: dict[str, list[str]] = {}
    index = []
    for words, context in man_pages.commands():
        if len(words) == 1:
            found["index"] = [_command(words, context).replace("# `mrc`", "# Commands", 1)]
            continue
        found.setdefault(words[1], []).append(_command(words, context))
        link = f"[`{' '.join(words)}`]({words[1]}.md#{'-'.join(words)})"
        index.append(f"| {link} | {_cell(_summary(context.command))} |")
    found["index"].append("\n".join(["## All commands\n", "| command | what it does |", "|---|---|", *index, ""]))
    return {f"commands/{name}.md": "\n".join(parts) for name, parts in found.items()}


def _command(words: tuple[str, ...], context: click.Context) -> str:
    name = " ".join(words)
    anchor = f" {{#{'-'.join(words)}}}" if len(words) > 1 else ""
    level = "#" * min(max(len(words) - 1, 1), 3)
    usage = " ".join([name, *context.command.collect_usage_pieces(context)])
    parts = [f"{level} `{name}`{anchor}", f"```text\n{usage}\n```", *text(context.command.help or "")]
    options = [each for each in context.command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        rows = [_option(each, context) for each in options]
        parts.append("\n".join(["| option | what it does |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def text(text: str) -> list[str]:
    """The paragraphs of a help; those that keep their lines are blocks of code."""
    parts = []
    for paragraph in re.split(r"\n\n+", inspect.cleandoc(text).replace(f"\n{_VERBATIM}\n", f"\n\n{_VERBATIM}\n")):
        lines = paragraph.splitlines()
        if lines and lines[0] == _VERBATIM:
            lines = lines[1:]
            if lines[0] == _EXAMPLES:
                parts.append(_EXAMPLES)
                lines = lines[1:]
            parts.append("```text\n" + inspect.cleandoc("\n".join(["", *lines])) + "\n```")
        elif lines:
            parts.append(_plain(" ".join(line.strip() for line in lines)))
    return parts


def _option(option: click.Option, context: click.Context) -> str:
    names, help_text = option.get_help_record(context) or (", ".join(option.opts), "")
    spelled = " ".join(f"`{each.strip()}`" for each in names.split(", "))
    return f"| {_cell_code(spelled)} | {_cell(help_text)} |"


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(limit=1000)


def _plain(text: str) -> str:
    """The text with nothing left in it that Markdown takes for markup, but for `code`."""
    whole = re.split(r"(`[^`]+`)", text)
    return "".join(each if at % 2 else _escaped(each) for at, each in enumerate(whole))


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]#`])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "&#124;")


def _cell_code(text: str) -> str:
    return text.replace("|", "\\|")
