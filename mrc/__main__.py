"""`python -m mrc` is the `mrc` command."""

from mrc.cli import main

main()
