# SPDX-License-Identifier: BSD-2-Clause
"""`mrc capi`: where the C libraries and headers are, for programs that are built or run with them."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from mrc.cli.common import json_option, print_json


def _library() -> Path:
    """The directory of the libraries. Raises SystemRefused where there are none."""
    from mrc.capi.build import LIB, SONAME
    from mrc.errors import SystemRefused

    if not (LIB / SONAME).exists():
        raise SystemRefused(
            f"there is no {LIB / SONAME}: it is compiled when mrc is installed where there is a C compiler; "
            "in a checkout run tools/build-core"
        )
    return LIB


@click.group()
def capi() -> None:
    """Build and run C programs over this endpoint, through libibverbs or mrc.h.

    A program that only writes, with and without immediate, runs unchanged: its RC QPs become QPs of MRC.

    \b
    Examples:
      cc examples/write.c $(mrc capi pkg-config) -o write
      cc examples/mrc_write.c $(mrc capi pkg-config) -o mrc_write
      eval "$(mrc capi env)"
      ibv_devinfo
      mrc lab exec h0 -- ./write 7001
    """


@capi.command()
@json_option
def path(as_json: bool) -> None:
    """Print the directory that has the libraries.

    \b
    Examples:
      LD_LIBRARY_PATH=$(mrc capi path) ib_write_bw
    """
    library = str(_library())
    if as_json:
        print_json({"path": library})
    else:
        click.echo(library)


@capi.command()
def env() -> None:
    """Print what a shell has to evaluate so that programs are built and run with them.

    \b
    Examples:
      eval "$(mrc capi env)"
    """
    from mrc.capi.build import INCLUDE

    library = str(_library())
    for name, value in (("LD_LIBRARY_PATH", library), ("LIBRARY_PATH", library), ("CPATH", str(INCLUDE))):
        click.echo(f"export {name}={shlex.quote(value)}${{{name}:+:${name}}}")


@capi.command("pkg-config")
def pkg_config() -> None:
    """Print the options of a C compiler, for a program that is built with them.

    \b
    Examples:
      cc write.c $(mrc capi pkg-config) -o write
    """
    from mrc.capi.build import INCLUDE, MRC_SONAME, SONAME

    library = _library()
    click.echo(f"-I{shlex.quote(str(INCLUDE))} -L{shlex.quote(str(library))} -l:{MRC_SONAME} -l:{SONAME}")
