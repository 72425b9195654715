"""Links between the pages resolve, tables are those of the records, and nothing was left to fill in."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not link.startswith(("http:", "https:", "#")):
            assert (page.parent / link.split("#")[0]).exists(), f"{page.name} links to {link}"
    assert not re.findall(r"@[A-Z]+@", text)


def _tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_numbers_are_those_of_the_records():
    tables = _tables()
    pages = {page.name: page.read_text() for page in tables.PAGES}
    named = re.findall(r"<!-- table: ([a-z-]+) -->", "".join(pages.values()))
    assert sorted(named) == sorted(tables.TABLES)
    for name, text in pages.items():
        assert tables.written(text) == text, (
            f"{name} has another table than the records: python docs/tables.py"
        )
    changed = pages["physical.md"].replace("| CartPole | 5 | 4", "| CartPole | 5 | 3")
    assert tables.written(changed) == pages["physical.md"] != changed


SCALING = (ROOT / "docs" / "scaling.md").read_text()


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
    (text,) = re.findall(r"```bash\n(.*?)```", SCALING, re.DOTALL)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_hours_of_the_table_are_those_of_the_rates():
    plain, ahead = 240e6 / 11_799, 120e6 / 6_567
    assert f"{(plain + ahead) / 3600:.1f} hours of one such machine" in SCALING
    each = (plain + ahead) / 22.5
    said = re.search(r"\| hours \| ([^\n]*) \|", SCALING)[1].split(" | ")
    assert said == [
        f"{(plain + ahead if n == 1 else each * -(-23 // n)) / 3600:.1f}" for n in (1, 2, 4, 8, 23)
    ]
    sticky = 40e6 * (6 + 16 + 26) / 15_000
    assert (
        f"{sticky / 3600:.1f} hours of such a machine, with the other agents {(sticky + plain) / 3600:.0f}"
        in SCALING
    )
