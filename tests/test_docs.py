"""Every link between the pages resolves, and nothing was left to fill in."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not link.startswith(("http:", "https:", "#")):
            assert (page.parent / link.split("#")[0]).exists(), f"{page.name} links to {link}"
    assert not re.findall(r"@[A-Z]+@", text)
