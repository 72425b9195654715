"""The terminal: text from files and arguments is printed without its control characters."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from deadtime._support.files import printable_lines


class _Plain(Console):
    """A console that prints text as it is: no markup, no names of emoji, no control characters."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Return a string, a cell or a title as Rich prints it, without control characters."""
        return super().render_str(printable_lines(text), **how)


def console(stderr: bool = False) -> Console:
    """Return a console for standard output, or for errors and notes."""
    return _Plain(stderr=stderr, emoji=False, markup=False, highlight=False)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 run, 2 runs."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
