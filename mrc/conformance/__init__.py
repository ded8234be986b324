# SPDX-License-Identifier: BSD-2-Clause
"""A conformance suite for MRC endpoints, ours and others': `mrc conformance list|run` (docs/conformance.md).

`codec` is the wire once more, written from the tables of the protocol pages and sharing nothing with the codec the
endpoint runs on; `bench` plays the target's peer; `cases` holds the scripts, a folder for each group; `target` is what
an endpoint has to offer to be tested, `targets` the adapters there are; `wrong_endpoints` finds the endpoints that are
wrong on purpose, which are in tests/mutants of a checkout.
"""
