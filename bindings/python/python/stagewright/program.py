"""The command-line program that comes with the package."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path


def program() -> Path:
    """Path of the program `stagewright`: the one in this environment, or else the one on the search path.

    Raises:
        FileNotFoundError: If there is no such program.
    """
    own = Path(sysconfig.get_path("scripts")) / "stagewright"
    if own.is_file():
        return own
    found = shutil.which("stagewright")
    if found is None:
        raise FileNotFoundError("the program `stagewright` is not in this environment; install the package again")
    return Path(found)
