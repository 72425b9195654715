"""`python -m deadtime` is the command line."""

from deadtime.cli.main import main

main()
