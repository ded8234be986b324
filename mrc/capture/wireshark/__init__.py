# SPDX-License-Identifier: BSD-2-Clause
"""The Wireshark dissector: a Lua script whose tables are made from those of the codec.

The Lua files hold what a dissector does; the opcodes, the headers' bits, the names of numbers and the switches of the
wire profile are put in front of them here, so that Wireshark cannot come to disagree with `mrc.wire`.
"""

from __future__ import annotations

from mrc.capture.wireshark.folder import Installed, install, personal_plugin_folder
from mrc.capture.wireshark.source import dissector_source

__all__ = ["Installed", "dissector_source", "install", "personal_plugin_folder"]
