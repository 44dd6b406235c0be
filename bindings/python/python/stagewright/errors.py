"""Errors of Stagewright."""

from __future__ import annotations

from . import _native


class StagewrightError(ValueError):
    """An invalid input or argument, with a stable code.

    ``stagewright --explain CODE`` explains a code. In the text of the error, control characters from an input are
    escaped; in the attributes, they are unchanged.

    Attributes:
        code: The stable code, such as ``F003``.
        cause: What is wrong.
        place: Where the error is: an argument, or a file and a path in it. ``None`` if this is not known.
        help: How to fix the error, or ``None``.
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
    """A remark on a model or a plan that matters for interpreting its figures."""


def visible(text: str) -> str:
    """A text from an input, on one line with every character visible, as the program prints it."""
    # A path may contain bytes that are not UTF-8, which Python keeps as surrogates.
    return _native.visible(text.encode("utf-8", "backslashreplace").decode())
