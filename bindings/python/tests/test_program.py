"""The program that comes with the package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import stagewright as sw


@pytest.fixture
def program() -> Path:
    try:
        return sw.program()
    except FileNotFoundError:
        pytest.skip("the program is not installed")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in arguments], check=False, capture_output=True, text=True, timeout=600
    )


def test_the_program_has_the_version_of_the_package(program: Path) -> None:
    assert run(program, "--version").stdout.split() == ["stagewright", sw.__version__]


def test_the_program_reads_what_the_package_writes(program: Path, tmp_path: Path) -> None:
    problem = sw.Problem(chain_with_flop(), "2xa100")
    plan = sw.plan(problem, time_limit=5)
    problem.model.save(tmp_path / "model.json")
    plan.save(tmp_path / "plan.json")
    found = run(program, "check", tmp_path / "model.json", tmp_path / "plan.json", "--cluster", "2xa100")
    assert found.returncode == 0, found.stderr


def chain_with_flop() -> sw.Model:
    rows = [{"name": f"op{at}", "flop": 1e12, "bytes_moved": 1e6} for at in range(4)]
    tensors = [{"producer": f"op{at}", "consumers": [f"op{at + 1}"], "bytes": 1e3} for at in range(3)]
    return sw.Graph(rows, tensors)


def test_a_missing_program_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(FileNotFoundError):
        sw.program()
    (tmp_path / "stagewright").write_text("")
    assert sw.program() == tmp_path / "stagewright"
