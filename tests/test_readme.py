"""README: every Python block run as written (the one with another library's agent where that is installed), and its summary."""

import re
from pathlib import Path

import pytest

from deadtime.experiments import summary
from deadtime.experiments.runner import found

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][:40])
def test_python_block_runs(block, capsys):
    names = {}
    if "PPO" in block:
        pytest.importorskip("stable_baselines3", reason="needs pip install stable-baselines3")
        block = block.replace("50_000", "64")
        exec("import gymnasium as gym", names)
    exec(block, names)
    assert "print" not in block or capsys.readouterr().out


def test_the_first_example_prints_what_its_comments_say(capsys):
    exec(BLOCKS[0], names := {})
    before, after = capsys.readouterr().out.splitlines()
    pending = [int(digit) for digit in re.findall(r"\d", before)]
    executed, *later = [int(digit) for digit in re.findall(r"\d", after)]
    assert [executed, *later] == [*pending, 1]
    assert len(pending) == 5
    assert names["info"]["executed_action"] == executed


def test_the_summary_is_that_of_the_records():
    said = [summary.standing(e.part, found(e, ROOT / "results")) for e in summary.EXPERIMENTS]
    rows = [
        ("Delayed-Q has the best mean", str(said[0].won_in_the_paper), *(str(one.won) for one in said)),
        (
            "its return lies above / agrees with / lies below the paper's",
            "–",
            *(" / ".join(str(one.verdicts[word]) for word in ("above", "agrees", "below")) for one in said),
        ),
        *(
            (
                f"of its runs beat {agent.title()}-Q's of the same seed, ties half",
                "–",
                *(f"{one.beats[agent].value:.0%}" for one in said),
            )
            for agent in ("augmented", "oblivious")
        ),
    ]
    assert [f"| {' | '.join(row)} |" in README for row in rows] == [True] * 4
