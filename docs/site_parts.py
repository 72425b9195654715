"""Sphinx extension of the site: reference pages, docstrings as text, pictures for dark mode.

- Reference pages are written at build time into docs/reference: one page for each package with
  public names, and one for each command, from the parsers of the command line.
- Docstrings are Markdown with single backticks. `as_rst` gives Sphinx the same text.
- A picture NAME.svg with a NAME-dark.svg beside it is shown with the light or the dark theme.
"""

from __future__ import annotations

import inspect
import io
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms.post_transforms import SphinxPostTransform

import deadtime
from deadtime.cli import main as command_line

REFERENCE = Path(__file__).parent / "reference"
HELP_COLUMNS = 88
FOREIGN = ("stable_baselines3", "tensordict", "torch", "torchrl")
"""Libraries of integrations. Where one is not installed, the site imports a mock of it."""
_CODE = re.compile(r"(``?[^`]+``?)")


def missing_libraries() -> list[str]:
    """Return the libraries of integrations that are not installed."""
    return [name for name in FOREIGN if find_spec(name) is None]


def public_packages() -> Iterator[str]:
    """Yield the names of the packages that have public names, `deadtime` first.

    Modules of `deadtime.integrations` are public too, one for each library.
    """
    yield "deadtime"
    walked = pkgutil.walk_packages(deadtime.__path__, "deadtime.")
    for name in sorted(
        module.name
        for module in walked
        if module.ispkg or module.name.rpartition(".")[0] == "deadtime.integrations"
    ):
        hidden = "._" in name or name == "deadtime.cli"
        if not hidden and getattr(import_module(name), "__all__", ()):
            yield name


def package_page(name: str) -> str:
    """Return the reference page of a package: its docstring and each of its public names."""
    package = import_module(name)
    entries = [f".. automodule:: {name}\n   :no-members:"]
    entries += [_entry(name, public, getattr(package, public)) for public in package.__all__]
    text = "\n\n".join(entries)
    return f"# {name}\n\n```{{eval-rst}}\n{text}\n```\n"


def _entry(package: str, public: str, it: Any) -> str:
    """Return the directive that documents a public name."""
    if public == "__version__":
        return ".. autodata:: deadtime.__version__"
    if inspect.ismodule(it):
        return f":py:mod:`{it.__name__}`"
    home = _home(public, it) if package == "deadtime" else package
    if home != package:
        return f".. py:data:: {package}.{public}\n\n   The same as :py:obj:`{home}.{public}`."
    kind = "class" if inspect.isclass(it) else "function" if inspect.isroutine(it) else "data"
    options = {"class": "   :members:", "data": "   :no-value:"}
    return f".. auto{kind}:: {package}.{public}\n{options.get(kind, '')}"


def _home(public: str, it: Any) -> str:
    """Return the package of a name of `deadtime`: the package whose public name it is as well."""
    for name in list(public_packages())[1:]:
        package = import_module(name)
        if public in package.__all__ and getattr(package, public) is it:
            return name
    return "deadtime"


def help_of(*arguments: str) -> str:
    """Return what `deadtime ARGUMENTS --help` prints."""
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(HELP_COLUMNS)
    try:
        with redirect_stdout(printed), suppress(SystemExit):
            command_line([*arguments, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())


def commands() -> list[str]:
    """Return the commands, in the order in which `deadtime --help` lists them."""
    return list(import_module("deadtime.cli.main").COMMANDS)


def command_page(name: str) -> str:
    """Return the reference page of a command, with its subcommands if it has any."""
    text = help_of(name)
    sections = [f"# deadtime {name}", f"```text\n{text}\n```"]
    listed = re.search(r"\{([a-z,-]+)\}", text.splitlines()[0])
    for sub in listed[1].split(",") if listed else ():
        sections += [f"## deadtime {name} {sub}", f"```text\n{help_of(name, sub)}\n```"]
    return "\n\n".join(sections) + "\n"


def write_reference(app: Sphinx) -> None:
    """Write the reference pages, and remove those of names that are gone."""
    with mock(missing_libraries()):
        pages = {name: package_page(name) for name in public_packages()}
    pages |= {f"deadtime-{name}": command_page(name) for name in commands()}
    REFERENCE.mkdir(exist_ok=True)
    for path in REFERENCE.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = REFERENCE / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def as_rst(lines: Iterable[str]) -> list[str]:
    """Return a docstring as reStructuredText, with its indented parts as code."""
    written: list[str] = []
    kind = "text"
    for line in lines:
        before, kind = kind, _kind(line, kind)
        if kind != before and written and written[-1]:
            written.append("")
        if kind == "code" != before:
            written += ["::", ""]
        written.append(f"    {line}".rstrip() if kind == "code" else _escaped(line))
    return written


def _kind(line: str, before: str) -> str:
    """Return what a line is, "text", "list" or "code"; an empty line is what the one before is."""
    if not line.strip():
        return before
    if line.startswith(("- ", "* ")) or (line.startswith("  ") and before == "list"):
        return "list"
    return "code" if line.startswith(("    ", "|")) else "text"


def _escaped(line: str) -> str:
    """Escape what reStructuredText would read as markup, and keep code as code."""
    parts = _CODE.split(line)
    for i, part in enumerate(parts):
        bare = part.strip("`")
        parts[i] = f"``{bare}``" if i % 2 else re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part)
    return "".join(parts)


def _docstring(app: Sphinx, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    if what == "data":
        lines[:] = _text_after(name, it)
    lines[:] = as_rst(lines)


def _text_after(name: str, it: Any) -> list[str]:
    """Return the text below the assignment of a constant, wherever in its package that stands."""
    package, _, public = name.rpartition(".")
    for module_name in sorted(sys.modules):
        module = sys.modules[module_name]
        if module_name.startswith(package) and vars(module).get(public) is it:
            texts = ModuleAnalyzer.for_module(module_name).find_attr_docs()
            if ("", public) in texts:
                return list(texts["", public])
    return []


class DarkPictures(SphinxPostTransform):
    """Show NAME-dark.svg in dark mode, where there is one beside NAME.svg."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Add the dark picture after each light one."""
        for image in list(self.document.findall(nodes.image)):
            light = image["uri"]
            dark = light.removesuffix(".svg") + "-dark.svg"
            if not light.endswith(".svg") or not (Path(self.app.srcdir) / dark).exists():
                continue
            twin = image.deepcopy()
            twin["uri"] = dark
            twin["candidates"] = {"*": dark}
            image["classes"].append("only-light")
            twin["classes"].append("only-dark")
            image.parent.insert(image.parent.index(image) + 1, twin)
            self.env.images.add_file(self.env.docname, dark)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the parts."""
    app.connect("builder-inited", write_reference)
    app.connect("autodoc-process-docstring", _docstring)
    app.add_post_transform(DarkPictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
