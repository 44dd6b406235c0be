"""The wheel contains the files that come with the code."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def test_the_licences_are_in_the_wheel() -> None:
    files = importlib.metadata.files("stagewright") or []
    found = {file.name: file.read_text() for file in files if file.parent.name == "licenses"}
    root = Path(__file__).parents[3]
    assert found == {name: (root / name).read_text(encoding="utf-8") for name in ("LICENSE-APACHE", "LICENSE-MIT")}
