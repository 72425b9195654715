"""The pages: links resolve, tables are those of the records, examples run, commands parse."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.commands import full, run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "notebooks").glob("*.md"))]
PAGES = [ROOT / "README.md", *WRITTEN, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
LIBRARIES = {
    "batched-arrays.md": "torch",
    "cleanrl.md": "torch",
    "sb3.md": "stable_baselines3",
    "torchrl.md": "torchrl",
}
"""The library that a page needs, which is not an extra of the tests."""
LONG = {"first-agent.md", "my-environment.md", "random-delays.md", *LIBRARIES}
"""Pages whose examples train networks: `make test-all` runs them."""
ROBOT = DOCS / "from-a-log-to-a-robot.md"
"""A page whose commands read what its Python wrote."""
PYTHON = re.compile(r"```(?:python|\{code-cell\} python)\n(.*?)```", re.DOTALL)
BASH = re.compile(r"```bash\n(.*?)```", re.DOTALL)


def named(page):
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_resolve(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not link.startswith(("http:", "https:", "#")):
            assert (page.parent / link.split("#")[0]).exists(), f"{page.name} links to {link}"
    assert not re.findall(r"@[A-Z]+@", text)


def examples():
    """Pages with Python blocks, except those that have a test of their own."""
    for page in WRITTEN:
        if PYTHON.search(page.read_text()) and page not in (DOCS / "extending.md", ROBOT):
            yield full(page) if page.name in LONG else page


@pytest.mark.slow
@pytest.mark.parametrize("page", [*examples()], ids=named)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch, capsys):
    """Each page is one program; what needs a library that is not installed is left out."""
    if page.name in LIBRARIES:
        pytest.importorskip(LIBRARIES[page.name])
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in PYTHON.findall(page.read_text()):
        if "stable_baselines3" in block and page.name not in LIBRARIES:
            if importlib.util.find_spec("stable_baselines3") is None:
                continue
            block = block.replace("50_000", "64")  # noqa: PLW2901
        exec(block, names)
        assert "print" not in block or capsys.readouterr().out


@pytest.mark.parametrize("name", LIBRARIES)
def test_pages_of_integrations_have_short_examples_and_links(name):
    blocks = PYTHON.findall((DOCS / name).read_text())
    assert blocks
    assert max(len(block.splitlines()) for block in blocks) <= 30
    assert f"(docs/{name})" in (ROOT / "README.md").read_text()
    assert f"({name})" in (DOCS / "index.md").read_text()


@pytest.mark.full
def test_from_a_log_to_a_robot(tmp_path, monkeypatch, capsys):
    """All blocks in order, with a shorter training; a shell expands the stars."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, block in re.findall(r"```(python|bash)\n(.*?)```", ROBOT.read_text(), re.DOTALL):
        if kind == "python":
            exec(block, names)
            continue
        for line in block.splitlines():
            words = shlex.split(line.replace("--steps 60000", "--steps 3000"))[1:]
            given = [
                sorted(map(str, tmp_path.glob(word))) if "*" in word else [word] for word in words
            ]
            done = run(*(word for several in given for word in several))
            assert done.returncode == 0, (line, done.stderr)
            if words[0] == "identify":
                assert "the delay is 5 steps (0.1 s)" in done.stdout
    assert names["found"].delay == 5
    assert names["policy"].delay == 5
    assert names["controller"].statistics.steps == 50
    assert (tmp_path / "cost.png").stat().st_size > 10_000
    assert (tmp_path / "policy.onnx").exists()


def command_lines():
    """Yield each `deadtime` command of the pages and README, as words."""
    for page in PAGES:
        for block in BASH.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("deadtime ") and not line.startswith("deadtime --"):
                    yield shlex.split(line.removesuffix(" &"), comments=True)[1:]


def test_commands_of_the_pages_parse(monkeypatch):
    """Each with its own parser; nothing is run."""
    asked = []
    lines = list(command_lines())
    for name in {line[0] for line in lines}:
        command = getattr(import_module(f"deadtime.cli.{name}"), name.capitalize())
        monkeypatch.setattr(command, "run", lambda self: asked.append(self) or 0)
    for line in lines:
        before = len(asked)
        done = run(*line)
        assert (done.returncode, len(asked)) == (0, before + 1), (line, done.stderr)
    assert run(*lines[0], "--no-such-option").returncode == 2


def _module(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_tables_of_numbers_are_those_of_the_records():
    tables = _module("tables")
    pages = {page.name: page.read_text() for page in tables.PAGES}
    found = re.findall(r"<!-- table: ([a-z-]+) -->", "".join(pages.values()))
    assert {*found} == {*tables.TABLES}
    for name, text in pages.items():
        assert tables.written(text) == text, (
            f"{name} has another table than the records: python docs/tables.py"
        )
    changed = pages["physical.md"].replace("| CartPole | 5 | 4", "| CartPole | 5 | 3")
    assert tables.written(changed) == pages["physical.md"] != changed


@pytest.mark.slow
def test_pictures_show_the_returns_of_the_records(tmp_path):
    pictures = _module("pictures")
    scores = pictures.returns("noisy-cartpole", "augmented")
    tables = _module("tables")
    row = tables.row_of("summary-best", environment="noisy-cartpole", agent="augmented", delay=25)
    assert scores.mean[-1] == float(row["greedy"])
    assert scores.low[-1] < scores.mean[-1] < scores.high[-1]
    pictures.draw(tmp_path)
    _module("delay_pictures").draw(tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "pictures").glob("*.svg")}


def test_docstrings_become_text_that_sphinx_reads():
    pytest.importorskip("sphinx", reason="needs pip install 'deadtime[docs]'")
    as_rst = _module("site_parts").as_rst
    assert as_rst(["Return `a|b` of *args and |S|."]) == [r"Return ``a|b`` of \*args and \|S\|."]
    assert as_rst(["Say:", "", "    x = 1", "", "Then."]) == [
        *("Say:", "", "::", "", "        x = 1", "", "Then."),
    ]
    assert as_rst(["One of:", "- a", "  b", "- c", "Then."]) == [
        *("One of:", "", "- a", "  b", "- c", "", "Then."),
    ]


@pytest.mark.full
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="needs pip install 'deadtime[docs]'")
    from sphinx.cmd.build import main

    options = ["--quiet", "--fail-on-warning", "--keep-going", "-b", "html"]
    assert main([*options, str(DOCS), str(tmp_path)]) == 0
    index = (tmp_path / "genindex.html").read_text()
    for name in ("ActionDelay", "solve", "train", "Uniform"):
        assert name in index


SCALING = (DOCS / "scaling.md").read_text()


def test_the_cluster_file_is_one_for_ray():
    ray = pytest.importorskip("ray", reason="needs pip install 'deadtime[ray]'")
    import jsonschema
    import yaml

    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())

    (text,) = re.findall(r"```yaml\n(.*?)```", SCALING, re.DOTALL)
    jsonschema.validate(yaml.safe_load(text), schema)
    with pytest.raises(jsonschema.ValidationError, match="provder"):
        jsonschema.validate(yaml.safe_load(text.replace("provider:", "provder:")), schema)


def test_the_batch_script_is_one_for_bash():
    (text,) = re.findall(r"```bash\n(#!/bin/bash.*?)```", SCALING, re.DOTALL)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_hours_of_the_table_are_those_of_the_rates():
    seconds = 360e6 / 11_957
    assert f"{seconds / 3600:.1f} hours of one such machine" in " ".join(SCALING.split())
    hours = re.search(r"\| hours \| ([^\n]*) \|", SCALING)[1].split(" | ")
    assert hours == [f"{seconds / 15 * -(-15 // n) / 3600:.1f}" for n in (1, 2, 4, 8, 15)]
    plain = 240e6 / 11_957
    sticky = 40e6 * (6 + 16 + 26) / 15_000
    beside = f"{sticky / 3600:.1f} hours of such a machine"
    assert f"{beside}, with the other agents {(sticky + plain) / 3600:.0f}" in " ".join(
        SCALING.split()
    )
