"""The command line. Speaks to the hub through the client only; imports what a command needs when it is called."""

from turnout.cli.app import main

__all__ = ["main"]
