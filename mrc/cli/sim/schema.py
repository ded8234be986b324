# SPDX-License-Identifier: BSD-2-Clause
"""`mrc sim schema`."""

from __future__ import annotations

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of experiment files.

    \b
    Examples:
      mrc sim schema > experiment.schema.json
    """
    from mrc.sim.experiment.file import schema_text

    click.echo(schema_text(), nl=False)
