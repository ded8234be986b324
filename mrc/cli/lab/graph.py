# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab graph` and `mrc lab export`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc.cli.common import complete_files, note
from mrc.cli.lab.amounts import impairment_text
from mrc.cli.lab.described import described, shape_options
from mrc.cli.lab.options import name_option

if TYPE_CHECKING:
    from mrc.fabric import Impairment, Shape
    from mrc.fabric.description import Direction
    from mrc.lab import Lab
    from mrc.lab.graph import LinkLook


_FORMS = {".svg": "svg", ".dot": "dot", ".gv": "dot"}


@click.command()
@click.argument("topology_file", metavar="[TOPOLOGY.yaml]", required=False, shell_complete=complete_files)
@shape_options
@click.option(
    "--format", "form", type=click.Choice(["svg", "dot"]),
    help="A picture, or Graphviz's language.  [default: by the name of --out, else svg]",
)  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.  [default: stdout]")
@name_option
def graph(topology_file: str | None, form: str | None, out: Path | None, name: str, **options: Any) -> None:
    """Draw a lab that is up, with what is cut and impaired; or a topology file, or the fabric that options describe.

    \b
    Examples:
      mrc lab graph --out lab.svg
      mrc lab graph | display
      mrc lab graph --planes 4 --spines 8 --out wide.svg
      mrc lab graph rail.yaml --format dot | dot -Tpdf > rail.pdf
    """
    from mrc.lab.graph import dot, svg

    wanted = form or _form_of(out)
    name, shape, looks = _drawn(topology_file, name, options)
    title = f"{name}: {shape.host_count} hosts, {len(shape.switches)} switches, {len(shape.links)} links, {shape.mode}"
    text = (svg if wanted == "svg" else dot)(shape, title, looks)
    if out is None:
        click.echo(text, nl=False)
    else:
        _write({out: text})


def _form_of(out: Path | None) -> str:
    """What is written, by the name of the file. Raises UsageError for a name of another form."""
    form = _FORMS.get(out.suffix.lower()) if out is not None else "svg"
    if form is None:
        raise click.UsageError(
            f"{out}: name it .svg or .dot, or give --format; other forms by Graphviz: "
            "mrc lab graph --format dot | dot -Tpng"
        )
    return form


@click.command("export")
@click.argument("topology_file", metavar="[TOPOLOGY.yaml]", required=False, shell_complete=complete_files)
@shape_options
@click.option("--image", metavar="IMAGE", help="What the containers run: Linux with iproute2 6.1 or newer.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    help="Directory to write to. [default: .]",
)
@name_option
def export(topology_file: str | None, image: str | None, out: Path, name: str, **options: Any) -> None:
    """Write a containerlab topology of a lab that is up, of a topology file, or of the fabric that options describe.

    The file is NAME.clab.yml; beside it are the fabric files of the hosts, which MRC_FABRIC names inside. Of what
    links are impaired with, the MTU is exported. All modes but stev.

    \b
    Examples:
      mrc lab export --out clab && sudo containerlab deploy --topo clab/mrc.clab.yml
      mrc lab export --name wide --planes 4 --spines 8
      mrc lab export rail.yaml --image debian-with-mrc
    """
    from mrc.lab.containerlab import DEFAULT_IMAGE, files

    name, shape, impairments = _exported(topology_file, name, options)
    written = files(shape, name, image or DEFAULT_IMAGE, impairments)
    out.mkdir(parents=True, exist_ok=True)
    _write({out / file: text for file, text in written.items()})
    note(f"deploy it with: sudo containerlab deploy --topo {out / f'{name}.clab.yml'}")


def _drawn(topology_file: str | None, name: str, options: dict[str, Any]) -> tuple[str, Shape, dict[str, LinkLook]]:
    """The lab that is up, unless a file or an option describes another."""
    from mrc.lab import Lab

    if _describes(topology_file, options):
        name, wanted = described(topology_file, name, options)
        return name, wanted.shape, {}
    with closing(Lab.open(name)) as opened:
        return name, opened.topology, _looks(opened)


def _exported(
    topology_file: str | None, name: str, options: dict[str, Any]
) -> tuple[str, Shape, Mapping[Direction, Impairment]]:
    """What the lab that is up, or a file or options, describe, with the impairments of every direction."""
    from mrc.lab import Lab

    if _describes(topology_file, options):
        name, wanted = described(topology_file, name, options)
        return name, wanted.shape, wanted.impairments
    with closing(Lab.open(name)) as opened:
        links = opened.status().links
        found = {(link.name, node): way.impairment for link in links for node, way in link.toward.items()}
        return name, opened.topology, found


def _describes(topology_file: str | None, options: dict[str, Any]) -> bool:
    return topology_file is not None or any(value is not None for value in options.values())


def _looks(lab: Lab) -> dict[str, LinkLook]:
    from mrc.lab.graph import LinkLook

    hosts = set(lab.topology.hosts)
    looks = {}
    for link in lab.status().links:
        said = [
            f"toward {node} {impairment_text(way.impairment, marks=node not in hosts)}"
            for node, way in link.toward.items()
            if not way.impairment.is_off
        ]
        if link.state != "up":
            looks[link.name] = LinkLook("down", "; ".join(["cut", *said]))
        elif said:
            looks[link.name] = LinkLook("impaired", "; ".join(said))
    return looks


def _write(texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        try:
            path.write_text(text)
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror}") from None
        click.echo(path)
