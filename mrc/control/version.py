# SPDX-License-Identifier: BSD-2-Clause
"""Which versions of the controller API there are, as `mrc_ctl_query_version` reports them (api.md, Controller)."""

from __future__ import annotations

from typing import NamedTuple


class ApiVersion(NamedTuple):
    """A version of `mrc_ctl.h`. `number` is how `MRC_CTL_API_VER` writes it: 8, 8 and 16 bits.

    >>> hex(ApiVersion(1, 0, 1).number)
    '0x1000001'
    """

    major: int
    minor: int
    sub_minor: int

    @property
    def number(self) -> int:
        """The version in 32 bits."""
        return self.major << 24 | self.minor << 16 | self.sub_minor


class ApiVersions(NamedTuple):
    """The newest version and the oldest that still works, of the API and of the vendor's additions to it.

    This project has no vendor's additions: both of those are 0.0.0.
    """

    current: ApiVersion
    last_supported: ApiVersion
    vendor: ApiVersion
    last_supported_vendor: ApiVersion


_NO_ADDITIONS = ApiVersion(0, 0, 0)


def query_version() -> ApiVersions:
    """Return the versions of the controller API. It takes no device."""
    return ApiVersions(ApiVersion(1, 0, 1), ApiVersion(1, 0, 0), _NO_ADDITIONS, _NO_ADDITIONS)
