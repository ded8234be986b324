"""The `mrc` command, also as `python -m mrc`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading


def run() -> None:
    """Run the command and end the process."""
    # Until the command looks after it there is nothing to clean up, and nobody wants to see what was being imported.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What is imported stays: nobody looks for garbage in it, now and later.
    gc.disable()
    from mrc.cli import main

    gc.freeze()
    gc.enable()
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int) or any(not each.daemon for each in threading.enumerate()[1:]):
            raise
        # The interpreter would take itself apart object by object. The system does it at once.
        atexit._run_exitfuncs()
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(ended.code)


if __name__ == "__main__":
    run()
