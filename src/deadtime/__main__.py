"""`python -m deadtime` is the command line."""

from deadtime.cli import main

main()
