"""Errors of Stagewright."""

from __future__ import annotations

from . import _native


class StagewrightError(ValueError):
    """An invalid input or argument, with a stable code.

    ``stagewright --explain CODE`` says more about a code. The text of the error has control characters of an input as
    escapes; the attributes have them as they are.

    Attributes:
        code: The stable code, such as ``F003``.
        cause: What is wrong.
        place: Where it is: an argument, or a file and a path in it. ``None`` if that is not known.
        help: How to fix it, or ``None``.
    """

    code: str
    cause: str
    place: str | None
    help: str | None

    def __init__(self, code: str, cause: str, place: str | None = None, help: str | None = None) -> None:
        super().__init__(code, cause, place, help)
        self.code, self.cause, self.place, self.help = code, cause, place, help

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.cause}"]
        if self.place is not None:
            lines.append(f"  --> {self.place}")
        if self.help is not None:
            lines += [f"  help: {line}" if at == 0 else f"    {line}" for at, line in enumerate(self.help.split("\n"))]
        return "\n".join(visible(line) for line in lines)


class StagewrightWarning(UserWarning):
    """Something about a model or a plan that a reader of its figures should know."""


def visible(text: str) -> str:
    """A text from an input on one line with every character visible, as the program prints it."""
    # A path may have bytes that are no UTF-8, which Python keeps as surrogates.
    return _native.visible(text.encode("utf-8", "backslashreplace").decode())
