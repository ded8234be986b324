"""What a congestion controller is told and what it answers: bytes and signals in, a window out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrc.endpoint.parts.flags import Away
from mrc.errors import CallerError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# rcv_cwnd_pen of a SACK that says nothing of one: its cc_type is not 0 (MRC-SACK-28).
PENALTY_UNKNOWN = -1
# The round trip of an acknowledgement that measured none.
NO_SAMPLE = -1
_NO_SAMPLE = NO_SAMPLE


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """A full packet of a QP in bytes: its nominal size (UDP length + 40; `mtu` in nscc.md) and its payload (`mss`)."""

    mtu: int
    mss: int


class CongestionController:
    """Sender-side, window-based. Sizes are nominal packet sizes in bytes (UDP length + 40), times integer ns.

    A controller belongs to a destination and may govern several QPs; `inflight` is kept here for all of them. One
    written in Python is a subclass that has `cwnd`, `on_ack`, `on_loss`, `on_nack` and `on_rtt`. A compiled one has
    `room`, `acknowledged`, `lost` and `nacked` in place of the first four: the datapath calls those and waits for no
    interpreter.
    """

    __slots__ = ("away", "inflight")

    def __init__(self) -> None:
        self.inflight = 0
        # Whether Python may be away: what would have to wait for it is done later.
        self.away = Away()

    @property
    def cwnd(self) -> int:
        """The window in bytes. A packet may leave while inflight < cwnd."""
        raise NotImplementedError

    @property
    def may_send(self) -> bool:
        return self.inflight < self.cwnd

    @property
    def wants_base_rtt(self) -> bool:
        """Whether a round trip measured now, before there is data, would help: then EV probes are sent at QP start."""
        return False

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> None:
        """One SACK newly acknowledged `acked_bytes`; `marked` is its ECN verdict, `rtt_ns` its sample if valid.

        `penalty` (0..127) and `restore` are its rcv_cwnd_pen and restore_cwnd; PENALTY_UNKNOWN neither begins a penalty
        nor ends one. `on_removed` was called before.
        """
        raise NotImplementedError

    def on_loss(self, now: int, lost_bytes: int) -> None:
        """Packets were lost untrimmed. `on_removed` was called before."""
        raise NotImplementedError

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        """A NACK named these packets; `trimmed` when its reason was TRIMMED or TRIMMED_LASTHOP."""
        raise NotImplementedError

    def on_rtt(self, now: int, rtt_ns: int) -> None:
        """A round trip to this destination was measured without data, by an EV probe say: news of base RTT only."""
        raise NotImplementedError

    def sent(self, sent_bytes: int) -> None:
        """A transmission left: `on_sent` for callers in Python."""
        self.on_sent(sent_bytes)

    def removed(self, removed_bytes: int) -> None:
        """A transmission left the network: `on_removed` for callers in Python."""
        self.on_removed(removed_bytes)

    # ------------------------------------------------------------------ what the datapath calls

    def room(self) -> int:
        """Bytes of the window that are free: one more packet may leave while there are any."""
        return self.cwnd - self.inflight

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        """`on_ack`; `rtt_ns` is NO_SAMPLE where there is no valid sample."""
        self.on_ack(now, acked_bytes, marked, None if rtt_ns == _NO_SAMPLE else rtt_ns, penalty, restore)

    def lost(self, now: int, lost_bytes: int) -> None:
        """`on_loss`."""
        self.on_loss(now, lost_bytes)

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        """`on_nack`."""
        self.on_nack(now, nacked_bytes, trimmed)

    def on_sent(self, sent_bytes: int) -> None:
        """A transmission left."""
        self.inflight += sent_bytes

    def on_removed(self, removed_bytes: int) -> None:
        """A transmission left the network: acknowledged, lost or NACKed, whichever came first."""
        self.inflight -= removed_bytes


ControllerFactory = Callable[[PacketSizes], CongestionController]
# An installed package offers a controller by an entry point of this group: `NAME = "module:factory"`.
ENTRY_POINTS = "mrc.congestion"
_REGISTRY: dict[str, ControllerFactory] = {}


def register(name: str, factory: ControllerFactory) -> None:
    """Make a controller known by name."""
    _REGISTRY[name] = factory


def _offered() -> dict[str, EntryPoint]:
    """By name, the controllers that installed packages offer."""
    # Whoever names none of them does not pay for it: some 20 ms.
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


def algorithm_names() -> tuple[str, ...]:
    """The controllers known by name: registered ones, and those that installed packages offer."""
    return tuple(sorted({*_REGISTRY, *_offered()}))


def factory_of(controller: str | ControllerFactory) -> ControllerFactory:
    """The factory of a controller given by name, or the one given.

    Raises CallerError for an unknown name, and for one whose package cannot be loaded.
    """
    if not isinstance(controller, str):
        return controller
    if controller not in _REGISTRY:
        offered = _offered()
        if controller not in offered:
            known = ", ".join(sorted({*_REGISTRY, *offered}))
            raise CallerError(f"no congestion controller {controller!r}: there are {known}")
        _REGISTRY[controller] = _loaded(offered[controller])
    return _REGISTRY[controller]


def _loaded(entry: EntryPoint) -> ControllerFactory:
    try:
        factory: ControllerFactory = entry.load()
    except Exception as error:
        # Anything: it is another's code.
        raise CallerError(f"congestion controller {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    if not callable(factory):
        raise CallerError(f"congestion controller {entry.name!r}: {entry.value} makes no controller")
    return factory
