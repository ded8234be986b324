# SPDX-License-Identifier: BSD-2-Clause
"""`mrc completion`: what makes a shell complete the words of this command. What is offered: mrc.cli.completing."""

from __future__ import annotations

import io
import os
import sys

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from mrc.cli.commands import COMPLETE_VARIABLE

# Of the characters at which bash ends a word, those that are inside words of ours: plane:1, --name=mrc.
_INSIDE_WORDS = ":="
_END = "\0"
# In place of click's own, which sees `plane:1` as three words and puts a space behind `bth.psn=`.
_BASH = """\
%(complete_func)s() {
    local line type value
    COMPREPLY=()
    while IFS= read -r line; do
        type=${line%%%%,*} value=${line#*,}
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[=/] ]] && compopt -o nospace ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """bash, told of the line itself: its own words end at colons and equals signs."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        # The mark ends the word that is being typed, an empty one too.
        *words, last = split_arg_string(os.environ["COMP_LINE"] + _END)
        return words[1:], last.removesuffix(_END)

    def format_completion(self, item: CompletionItem[str]) -> str:
        """bash replaces what follows the last of its word breaks only."""
        _, typed = self.get_completion_args()
        breaks = [mark for mark in _INSIDE_WORDS if mark in os.environ.get("COMP_WORDBREAKS", "")]
        there = typed[: max((typed.rfind(mark) + 1 for mark in breaks), default=0)]
        return f"{item.type},{item.value.removeprefix(there)}"


def complete_quietly() -> None:
    """Prepare for a Tab: click completes by the classes here, and nothing that goes wrong is shown on the line."""
    add_completion_class(Bash)
    sys.stderr = io.StringIO()


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options, and the names of labs, nodes, links, endpoints, cases and
    drills.

    Each Tab starts `mrc` for a moment. Where something cannot be read or does not answer nothing is offered.

    \b
    Examples:
      eval "$(mrc completion bash)"          in ~/.bashrc; bash 4.4 or newer
      eval "$(mrc completion zsh)"           in ~/.zshrc, behind compinit
      mrc completion fish > ~/.config/fish/completions/mrc.fish
    """
    add_completion_class(Bash)
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root()
    click.echo(kind(root.command, {}, "mrc", COMPLETE_VARIABLE).source(), nl=False)
