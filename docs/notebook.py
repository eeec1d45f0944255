"""Run a notebook and keep what its cells show; show it as a page of the documentation.

    python docs/notebook.py docs/tutorial.ipynb

No Jupyter is needed: cells are plain Python in one namespace. As in Jupyter, a cell shows what it prints, its figures,
and the value of its last expression. MkDocs calls the hooks (mkdocs.yml).
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

FIGURE_DPI = 100


def run(notebook: dict[str, Any], folder: Path) -> None:
    """Run all cells in ``folder`` and replace their outputs.

    Args:
        notebook: the content of an .ipynb file (nbformat 4), changed in place.
        folder: where cells work; files they write stay there.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    here = Path.cwd()
    os.chdir(folder)
    try:
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for count, cell in enumerate(cells, 1):
            cell["execution_count"] = count
            cell["outputs"] = _outputs("".join(cell["source"]), scope, count)
    finally:
        os.chdir(here)


def _outputs(source: str, scope: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    silent = source.rstrip().endswith(";")  # as in Jupyter
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and not silent else None
    printed, value, name = io.StringIO(), None, f"cell {count}"
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), scope)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    figures = [*_open_figures(), value] if hasattr(value, "savefig") else _open_figures()
    for figure in figures:
        outputs.append({"data": {"image/png": _png(figure)}, "metadata": {}, "output_type": "display_data"})
    if value is not None and value not in figures:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_") and (html := value._repr_html_()):
            data["text/html"] = _lines(html)
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _open_figures() -> list[Any]:
    """The figures that pyplot has open; they are closed."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return []
    figures = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    return figures


def _png(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=FIGURE_DPI, bbox_inches="tight", metadata={"Software": None})
    return base64.b64encode(file.getvalue()).decode()


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def on_files(files: Any, config: Any) -> Any:
    """MkDocs hook: every notebook of the documentation is a page of its own, with its figures."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = file.src_uri.removesuffix(".ipynb")
        content, pictures = as_markdown(json.loads(file.content_string), page)
        files.append(File.generated(config, f"{page}.md", content=content))
        for name, png in pictures.items():
            files.append(File.generated(config, name, content=png))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs hook: links to notebooks lead to their pages."""
    return markdown.replace(".ipynb)", ".md)")


def as_markdown(notebook: dict[str, Any], page: str) -> tuple[str, dict[str, bytes]]:
    """Write a notebook as Markdown.

    Args:
        notebook: the content of an .ipynb file.
        page: the page's address without an ending; pictures are put below it.

    Returns:
        The text, and its pictures by address.
    """
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                name = f"{page}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![Figure {len(pictures)}]({Path(name).name})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append("```text\n" + "".join(data["text/plain"]).rstrip() + "\n```")
    return "\n\n".join(parts) + "\n", pictures


def main() -> None:
    """Run a notebook in place."""
    import tempfile

    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text("utf-8"))
    warnings.simplefilter("error")
    os.environ.setdefault("MPLBACKEND", "agg")
    with tempfile.TemporaryDirectory() as folder:
        run(notebook, Path(folder))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
