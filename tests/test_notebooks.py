"""Every notebook runs from top to bottom, and is stored without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
CELL_TIMEOUT_S = 120


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs"), "clear the outputs before committing"
    # In an empty folder: a notebook may not depend on where it is, nor leave anything there.
    done = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": tmp_path}}).execute()
    noise = [
        output.text
        for cell in done.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert not noise, noise
    assert list(tmp_path.iterdir()) == []


def test_there_are_notebooks():
    assert NOTEBOOKS
