# SPDX-License-Identifier: BSD-2-Clause
"""The wire as wire.md has it, one packet at a time, for the tester alone.

Nothing here comes from the codec that the endpoint runs on: two codecs that agree because they are one prove nothing.
Only the switches of `WireProfile` are shared, since a run names them once for all.
"""
