"""The notebooks run from their first cell to their last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@pytest.mark.parametrize("name", ["compare_a_policy", "split_a_model", "reproduce_a_table"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("pandas")
    pytest.importorskip({"compare_a_policy": "gymnasium", "split_a_model": "torch"}.get(name, "pandas"))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and not any(cell.outputs or cell.execution_count for cell in cells)
    # Files that a notebook writes end up in the folder of the test.
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in cells)
    assert any(cell.outputs for cell in cells)


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {
        "compare_a_policy",
        "split_a_model",
        "reproduce_a_table",
    }
