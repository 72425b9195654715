"""The checks of the paper's claims, and docs/claims.md, whose table is what they find."""

import re
from collections import Counter
from pathlib import Path

import pytest

from deadtime.studies.paper import claims_optima
from deadtime.studies.paper.claims import CLAIMS, tally
from deadtime.studies.paper.claims_optima import Verdict, lower_bound
from tests.commands import full

PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def rows():
    """The cells of the table, as text without Markdown, by the name of the claim."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    split = [[cell.replace(r"\|", "|") for cell in row] for row in split]
    assert split[0] == ["claim", "where", "statement", "cases", "verdict", "what was found"]
    return {row[0]: row for row in split[1:]}


def same(reported, found):
    """Return whether two texts have the same words and numbers.

    Numbers below 1e-8, made by rounding, may differ.
    """
    if re.split(NUMBER, reported) != re.split(NUMBER, found):
        return False
    pairs = zip(re.findall(NUMBER, reported), re.findall(NUMBER, found), strict=True)
    return all(one == other or max(float(one), float(other)) < 1e-8 for one, other in pairs)


def test_texts_are_compared_number_by_number():
    assert same("off by 3e-12 in 60 cases, 0", "off by 0 in 60 cases, 5.1e-16")
    for other in (
        "off by 3e-12 in 61 cases, 0",
        "off by 3e-7 in 60 cases, 0",
        "off by 3e-12 on 60 cases, 0",
    ):
        assert not same("off by 3e-12 in 60 cases, 0", other)


LONG = {"stationarity table", "stationary", "evaluation"}
"""Checks that take several seconds."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "claim",
    [full(claim) if claim.name in LONG else claim for claim in CLAIMS],
    ids=lambda claim: claim.name,
)
def test_each_check_finds_what_the_docs_report(claim):
    finding = claim.check()
    assert finding.verdict == claim.expected, finding.detail
    assert finding.cases > 0
    *cells, detail = rows()[claim.name]
    verdict = str(finding.verdict) if finding.verdict == Verdict.HOLDS else f"**{finding.verdict}**"
    assert cells == [claim.name, claim.where, claim.statement, str(finding.cases), verdict]
    assert same(detail, finding.detail), finding.detail


def test_the_docs_report_every_claim_in_order_and_count_them():
    assert list(rows()) == [claim.name for claim in CLAIMS]
    verdicts = [claim.expected for claim in CLAIMS]
    assert Counter(verdicts) == {"holds": 12, "fails as written": 6, "unproven": 1}
    assert tally(verdicts) == "12 hold, 6 fail as written, 1 is unproven"
    assert f"Of {len(CLAIMS)} statements, {tally(verdicts)}" in " ".join(PAGE.split())


def test_verdicts_are_counted_in_words():
    assert tally([Verdict.FAILS, Verdict.HOLDS]) == "1 holds, 1 fails as written"


@pytest.mark.slow
def test_the_lower_bound_is_unproven_only_while_howards_bound_carries_over(monkeypatch):
    """Without dummy states the bound does not carry over.

    If the chain itself needed enough changes, the claim would hold.
    """
    assert lower_bound().verdict == Verdict.UNPROVEN
    monkeypatch.setattr(claims_optima, "stretched", lambda mdp, delay: mdp)
    assert lower_bound().verdict == Verdict.FAILS
    monkeypatch.setattr(
        claims_optima, "_changes", lambda mdp, delay: mdp.states * mdp.actions**delay - 1
    )
    assert lower_bound().verdict == Verdict.HOLDS
