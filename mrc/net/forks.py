# SPDX-License-Identifier: BSD-2-Clause
"""Import in a parent what its forks would each import for themselves."""

from __future__ import annotations


def import_for_endpoints() -> None:
    """Import what an endpoint imports only once it opens: its control socket, and certificates of an exchange.

    For a process that forks programs with endpoints (`mrc.child.forked`). It takes a fifth of a second of a processor.
    """
    import cryptography.hazmat.backends.openssl
    import cryptography.hazmat.primitives.asymmetric.ec
    import cryptography.hazmat.primitives.serialization
    import cryptography.x509  # noqa: F401

    import mrc.net.control.connection  # noqa: F401
