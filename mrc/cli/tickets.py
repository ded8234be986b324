# SPDX-License-Identifier: BSD-2-Clause
"""Arguments that are tickets: which they are, and where one comes from when it is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc.cli.common import complete_files

if TYPE_CHECKING:
    from mrc.net.ticket import Ticket

F = TypeVar("F", bound=Callable[..., Any])


class TicketType(click.ParamType["Ticket"]):
    """A ticket, which the command `printed_by` prints at the other end."""

    name = "ticket"

    def __init__(self, printed_by: str) -> None:
        self.printed_by = printed_by

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Ticket:
        """Raises CallerError for what is no ticket."""
        from mrc.net.ticket import Ticket

        return value if isinstance(value, Ticket) else Ticket.parse(str(value))

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        return f"`{self.printed_by}` prints it: start that at the other end, and copy the line it prints"


def ticket_argument(printed_by: str) -> Callable[[F], F]:
    """The argument TICKET, passed on as `ticket`."""
    return click.argument("ticket", type=TicketType(printed_by))


class FilesAndTicket(click.Argument):
    """FILE... TICKET as one argument, passed on as (paths, ticket).

    click would take the only file for the ticket, and say that the file is missing.
    """

    def __init__(self, *args: Any, printed_by: str, **kwargs: Any) -> None:
        super().__init__(*args, nargs=-1, metavar="FILE... TICKET", shell_complete=complete_files, **kwargs)
        self._ticket = TicketType(printed_by)

    def process_value(self, ctx: click.Context, value: Any) -> tuple[tuple[Path, ...], Ticket]:
        """Raises click.UsageError, and CallerError for a ticket that is none."""
        words: Sequence[str] = super().process_value(ctx, value) or ()
        usage = f"{ctx.command_path} FILE... TICKET"
        if not words:
            raise click.UsageError(f"which file or directory, and to which receiver? {usage}", ctx)
        if not words[-1].strip():
            raise click.UsageError(f"the ticket is empty: `{self._ticket.printed_by}` may not have printed it yet", ctx)
        tickets = [word for word in words if _is_meant_as_ticket(word)]
        if not tickets and (len(words) == 1 or Path(words[-1]).exists()):
            source = self._ticket.get_missing_message(self, ctx)
            raise click.UsageError(f"the ticket is missing behind {words[-1]}: {usage}. {source}", ctx)
        if list(words) == tickets[:1]:
            raise click.UsageError(f"no file before the ticket: {usage}", ctx)
        if tickets and not _is_meant_as_ticket(words[-1]):
            raise click.UsageError(f"the ticket comes last: {usage}", ctx)
        if len(tickets) > 1:
            raise click.UsageError(f"{len(tickets)} tickets: files go to one receiver at a time: {usage}", ctx)
        paths = tuple(self._file(word, ctx) for word in words[:-1])
        return paths, self._ticket.convert(words[-1], self, ctx)

    @staticmethod
    def _file(word: str, ctx: click.Context) -> Path:
        from mrc.errors import CallerError
        from mrc.net.transfer.outgoing import check_regular

        if word == "-":
            return Path(word)
        path = Path(str(click.Path(exists=True).convert(word, None, ctx)))
        try:
            if not path.is_dir():
                check_regular(path)
        except CallerError as error:
            raise click.UsageError(str(error), ctx) from None
        return path


def _is_meant_as_ticket(word: str) -> bool:
    from mrc.net.ticket import names_a_version

    return names_a_version(word) and not Path(word).exists()
