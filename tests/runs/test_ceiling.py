"""The file of solved optima: changed ones are refused."""

import json
from pathlib import Path

import pytest

from deadtime.runs import ceiling
from deadtime.runs.tabular_specs import TabularSpec
from tests.forgery import (
    refused,
)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 99_999,
        "[]",
        "5",
        '{"a": 5}',
        '{"a": {"0": 5}}',
        '{"a": {"0": [1]}}',
        '{"a": {"0": ["x", 1]}}',
        '{"a": {"0": [Infinity, 1]}}',
        '{"a": {"0": [0.5, 1.5]}}',
        '{"a": {"0": [0.5, -1]}}',
    ],
)
def test_kept_optima(text, tmp_path):
    spec = TabularSpec("maze", "delayed", settings={"size": 3})
    contents = [text]
    if text[0] == "{":
        known = json.loads(text)
        contents.append(json.dumps(known | {"digest": ceiling._digest(known)}))
    for content in contents:
        (tmp_path / "ceilings.json").write_text(content)
        refused(
            lambda: ceiling.mean_ceiling(tmp_path, spec, [0]),
            "keeps solved optima and can't be read: delete it",
        )


def test_optima_that_were_changed(tmp_path):
    """Changed optima, and optima without a digest, as in old files, are refused."""
    spec, path = TabularSpec("maze", "delayed", settings={"size": 3}), tmp_path / "ceilings.json"
    found = ceiling.mean_ceiling(tmp_path, spec, [0])
    assert ceiling.mean_ceiling(tmp_path, spec, [0]) == found
    text = path.read_text()
    content = json.loads(text)
    path.write_text(
        json.dumps({name: value for name, value in content.items() if name != "digest"})
    )
    refused(
        lambda: ceiling.mean_ceiling(tmp_path, spec, [0]),
        "keeps solved optima and can't be read: delete it",
    )
    number = f"{found.value!r}"
    assert number in text
    path.write_text(text.replace(number, f"{number[:-1]}{(int(number[-1]) + 1) % 10}"))
    refused(
        lambda: ceiling.mean_ceiling(tmp_path, spec, [0]),
        "keeps solved optima and can't be read: delete it",
    )
    results = Path(__file__).parents[2] / "results" / "paper"
    assert len(ceiling.kept(results)) > 20
