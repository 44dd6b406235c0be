"""The command-line program that comes with the package."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path


def program() -> Path:
    """Path of the program `stagewright`: that of this environment, otherwise the one on the path.

    Raises:
        FileNotFoundError: If there is none.
    """
    own = Path(sysconfig.get_path("scripts")) / "stagewright"
    if own.is_file():
        return own
    found = shutil.which("stagewright")
    if found is None:
        raise FileNotFoundError("the program `stagewright` is not in this environment; install the package again")
    return Path(found)
