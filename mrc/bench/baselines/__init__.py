"""What MRC is measured beside in a lab."""

from __future__ import annotations

from mrc.bench.settings import Settings
from mrc.bench.subject import Subject
from mrc.errors import CallerError

BASELINES = ("bare", "udp", "tcp", "mptcp", "aioquic")


def make_baseline(name: str, settings: Settings) -> Subject:
    """The baseline of this name for these settings. Raises CallerError for one there is not."""
    if settings.latency:
        from mrc.bench.baselines.udp_pingpong import UdpPingpong

        if name == "udp":
            return UdpPingpong(settings.size, settings.seconds, settings.loss)
        raise CallerError(f"--latency has one baseline, udp: {name!r} measures goodput")
    if name == "bare":
        from mrc.bench.baselines.bare import Bare

        return Bare(settings.seconds, settings.mtu, settings.loss)
    if name in ("udp", "tcp"):
        from mrc.bench.baselines.iperf3 import Iperf3

        return Iperf3(name, settings.seconds, settings.mtu, settings.loss)
    if name == "mptcp":
        from mrc.bench.baselines.mptcp import Mptcp

        return Mptcp(settings.seconds, settings.mtu, settings.loss)
    if name == "aioquic":
        from mrc.bench.baselines.quic import Aioquic

        return Aioquic(settings.seconds, settings.loss)
    raise CallerError(f"there is no baseline {name!r}: there are {', '.join(BASELINES)}")
