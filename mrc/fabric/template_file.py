# SPDX-License-Identifier: BSD-2-Clause
"""A file with one address template: what `mrc craft --template` reads."""

from __future__ import annotations

from pathlib import Path

from mrc.untrusted import json_file
from mrc.wire.address_template import AddressTemplate

_MOST_BYTES = 1 << 20


def load_template(path: str | Path) -> AddressTemplate:
    """Read a JSON object with template_data, template_mask, ps_mask and ps_list (wire.md section 11).

    Raises CallerError when it cannot be read, or is no template.
    """
    document = json_file(path, "template file", _MOST_BYTES)
    return AddressTemplate.from_document(document, f"template file {path}")
