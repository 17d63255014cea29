"""The notebooks of examples/notebooks, executed from the first cell to the last."""

# folders: examples python

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples/notebooks"


def execute(name, folder):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def test_first_job(tmp_path):
    notebook = execute("first-job", tmp_path)
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
             if output.output_type == "display_data"]
    assert any("<table" in output.data.get("text/html", "") for output in shown)


@pytest.mark.long
def test_how_many_machines(tmp_path):
    execute("how-many-machines", tmp_path)


@pytest.mark.long
def test_pytorch_on_a_stream(tmp_path):
    pytest.importorskip("torch")
    execute("pytorch-on-a-stream", tmp_path)


def test_no_notebook_is_forgotten():
    tested = Path(__file__).read_text(encoding="utf-8")
    for file in NOTEBOOKS.glob("*.ipynb"):
        assert f'"{file.stem}"' in tested
