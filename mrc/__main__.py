# SPDX-License-Identifier: BSD-2-Clause
"""The `mrc` command, also as `python -m mrc`."""

from __future__ import annotations

import gc
import signal


def run() -> None:
    # Until the command looks after it there is nothing to clean up, and nobody wants to see what was being imported.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What is imported stays: nobody looks for garbage in it, now and later.
    gc.disable()
    from mrc.cli import main

    gc.freeze()
    gc.enable()
    main()


if __name__ == "__main__":
    run()
