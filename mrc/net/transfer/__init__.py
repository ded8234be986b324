"""Files over MRC: `Receiver` takes them in, `send_files` sends them."""

from mrc.net.transfer.receiver import Receiver
from mrc.net.transfer.report import TransferReport
from mrc.net.transfer.sender import SendOptions, send_files

__all__ = ["Receiver", "SendOptions", "TransferReport", "send_files"]
