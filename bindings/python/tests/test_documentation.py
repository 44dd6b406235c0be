"""The code in docs/python.md runs as printed, except that time limits are shorter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(re.sub(r"time_limit=\d+", "time_limit=1", block), PAGE.name, "exec"), names)
    assert len(blocks) >= 2
    assert (tmp_path / "plan.json").is_file()
    # The custom function has a row in the table.
    assert "scattered" in capsys.readouterr().out
