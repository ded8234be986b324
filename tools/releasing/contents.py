# SPDX-License-Identifier: BSD-2-Clause
"""What a wheel and an sdist have to hold: what git holds of these folders, what building adds, and nothing else."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable
from email import message_from_string
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory

from releasing.run import run

from mrc.errors import CallerError

# Of a checkout, what is in no sdist.
LEFT_OUT = (".ci/", ".gitignore")
_COMPILED = re.compile(r"mrc/_compiled\.\S+\.so")
# What compiling makes beside that object.
MADE = (
    "mrc/compiled.json",
    "mrc/capi/lib/libibverbs.so.1",
    "mrc/capi/lib/lib_mrc.so",
    "mrc/capi/lib/libmrc.so",
)
_NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")
# Of the package, and of mrc/layers, which builds on Scapy.
LICENCES = ("LICENSE", "mrc/layers/LICENSE")
# A user of the wheel misses something without each of these: named here so that a slip in pyproject.toml is seen.
INDISPENSABLE = (
    "mrc/py.typed",
    "mrc/fabric/topology.schema.json",
    "mrc/sim/experiment/experiment.schema.json",
    "mrc/conformance/live/qp_file.schema.json",
    "mrc/lab/bpf/link.o",
    "mrc/lab/bpf/usid.o",
    "mrc/capture/wireshark/packet.lua",
)


def check_wheel(wheel: Path, tracked: Iterable[str], version: str) -> bool:
    """Raise CallerError, naming the files, where the wheel is not what it has to be. Returns whether it is compiled."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        info = f"softmrc-{version}.dist-info"
        metadata = message_from_string(_read(archive, wheel, f"{info}/METADATA"))
        tags = message_from_string(_read(archive, wheel, f"{info}/WHEEL"))
    _check_metadata(wheel, metadata, version)
    for licence in LICENCES:
        if f"{info}/licenses/{licence}" not in names:
            raise CallerError(f"{wheel.name} has no {licence} in {info}/licenses")
    package = {name for name in names if not name.startswith(f"{info}/")}
    manual = f"softmrc-{version}.data/data/share/man/man1"
    if f"{manual}/mrc.1" not in package:
        raise CallerError(f"{wheel.name} lacks its manual pages, which hatch_build.py makes with click")
    package = {name for name in package if not name.startswith(f"{manual}/mrc")}
    built = {name for name in package if _COMPILED.fullmatch(name)} | (package & set(MADE))
    wanted = {name for name in tracked if name.startswith("mrc/")}
    _compare(wheel, package - built, wanted)
    if missing := [name for name in INDISPENSABLE if name not in package]:
        raise CallerError(f"{wheel.name} lacks {', '.join(missing)}")
    compiled = len(built) == 1 + len(MADE)
    if built and not compiled:
        raise CallerError(f"{wheel.name} has only {', '.join(sorted(built))} of what compiling makes")
    pure = tags["Root-Is-Purelib"] == "true"
    for_any = wheel.stem.endswith("-any")
    if compiled in (pure, for_any):
        how = "compiled" if compiled else "not compiled"
        raise CallerError(f"{wheel.name} is {how}, and tagged {tags['Tag']}, Root-Is-Purelib {tags['Root-Is-Purelib']}")
    return compiled


def check_libraries(wheel: Path) -> None:
    """Raise CallerError where a shared object of the wheel is linked with libpython: auditwheel lets that pass, and
    interpreters that have no such library could not load it, nor could C programs."""
    with zipfile.ZipFile(wheel) as archive, TemporaryDirectory() as folder:
        for name in archive.namelist():
            if ".so" in Path(name).suffixes:
                needed = _NEEDED.findall(run(["readelf", "-dW", archive.extract(name, folder)]))
                if linked := [each for each in needed if each.startswith("libpython")]:
                    raise CallerError(f"{wheel.name}: {name} needs {', '.join(linked)}")


def check_sdist(sdist: Path, tracked: Iterable[str], version: str) -> None:
    """Raise CallerError, naming the files, where the sdist is not what it has to be."""
    top = f"softmrc-{version}/"
    with tarfile.open(sdist) as archive:
        members = [each for each in archive.getmembers() if not each.isdir()]
        if outside := [each.name for each in members if not each.name.startswith(top)]:
            raise CallerError(f"{sdist.name} holds files outside of {top}: {_some(outside)}")
        names = {each.name.removeprefix(top) for each in members}
        about = archive.extractfile(f"{top}PKG-INFO") if "PKG-INFO" in names else None
        if about is None:
            raise CallerError(f"{sdist.name} has no PKG-INFO")
        _check_metadata(sdist, message_from_string(about.read().decode()), version)
    # hatchling brings along what git ignores, so that a build there leaves out the same.
    _compare(sdist, names - {"PKG-INFO", ".gitignore"}, {name for name in tracked if not name.startswith(LEFT_OUT)})


def _read(archive: zipfile.ZipFile, wheel: Path, name: str) -> str:
    try:
        return archive.read(name).decode()
    except KeyError:
        raise CallerError(f"{wheel.name} has no {name}: is it of another version?") from None


def _check_metadata(path: Path, metadata: Message, version: str) -> None:
    wanted = {"Name": "softmrc", "Version": version, "License-Expression": "BSD-2-Clause AND GPL-2.0-only"}
    for key, value in wanted.items():
        if metadata[key] != value:
            raise CallerError(f"{path.name}: its {key} is {metadata[key]}, not {value}")
    # An index shows it beside none of the checkout's files.
    if relative := re.findall(r"\]\((?!https?://)([^)]*)\)", str(metadata.get_payload())):
        raise CallerError(f"{path.name}: its description links {_some(relative)}, which an index does not have")


def _compare(path: Path, found: set[str], wanted: set[str]) -> None:
    if missing := sorted(wanted - found):
        raise CallerError(f"{path.name} lacks {_some(missing)}")
    if extra := sorted(found - wanted):
        raise CallerError(f"{path.name} holds what the commit does not: {_some(extra)}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
