"""The page: made from records alone, whole in itself, and the same when it is made again."""

import base64
import csv
import io
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from deadtime.cli.main import main
from deadtime.runs import records
from deadtime.runs.record import Record
from deadtime.studies.experiment import found
from deadtime.studies.paper import published
from deadtime.studies.paper.report_comparisons import against
from deadtime.studies.registry import EXPERIMENTS, chosen
from deadtime.studies.report import page

pytestmark = pytest.mark.slow


class Tags(HTMLParser):
    """Every opening tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.open = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def record_of(spec, value, seeds):
    """Return a record with the score `value` and a little more for each seed."""
    n = len(seeds)
    tested = getattr(spec, "evaluation_delays", ())
    return Record(
        id=spec.id,
        spec=spec.canonical(),
        seeds=list(seeds),
        scores=[value + 0.01 * seed for seed in seeds],
        training_scores=[value + 0.02 * seed for seed in seeds],
        episodes=[10] * n,
        status=["complete"] * n,
        seconds=[1.0] * n,
        points=np.arange(1, 11),
        curve=np.full((n, 10), value, np.float32),
        provenance=[{"date": "2026-01-02", "device": "an <odd> machine", "seeds": list(seeds)}],
        others=np.zeros((n, len(tested)), np.float32),
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return records of the summary with preset best and of one more experiment.

    The other experiment has fewer seeds than it asks for.
    """
    folder = tmp_path_factory.mktemp("records")
    (best,) = chosen(["summary"], "best")
    for (_, _, agent, _), spec in best.runs.items():
        records.write(
            folder / spec.name, record_of(spec, 2.0 if agent == "delayed" else 1.0, range(3))
        )
    for spec in EXPERIMENTS["plain-reward"].runs.values():
        records.write(folder / spec.name, record_of(spec, 400.0, range(3)))
    return folder


def test_the_page_is_whole_in_itself(root):
    text = page(root, "2026-01-03")
    tags = Tags(text)
    assert not tags.open
    assert "http" not in text.split("</style>")[1].replace("http-equiv", "")
    assert not tags.of("script")
    exact = {"stationarity": 7, "random-delay-exact": 11}  # these need no records
    assert len(tags.of("img")) == 2 + len(exact)
    for image in tags.of("img"):
        assert len(image["alt"]) > 30
        assert base64.b64decode(image["src"].removeprefix("data:image/png;base64,")).startswith(
            b"\x89PNG"
        )
    ids = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(ids) == len({*ids})
    assert {link["href"][1:] for link in tags.of("a") if link["href"].startswith("#")} <= {*ids}
    for link in (link for link in tags.of("a") if "download" in link):
        rows = list(
            csv.DictReader(io.StringIO(base64.b64decode(link["href"].split(",")[1]).decode()))
        )
        name = link["download"].removesuffix(".csv")
        assert len(rows) == exact.get(name, len(EXPERIMENTS[name].runs))


def test_what_it_says(root):
    text = page(root, "2026-01-03")
    overview = text.split('id="overview"')[1].split("</section>")[0]
    mazes, physical = overview.split("<h3>")[1:]
    assert mazes.startswith("In mazes, with our own settings</h3>")
    assert "<b>6 of 6</b>won by Delayed-Q; in the paper it wins 6 of them" in mazes
    assert physical.startswith(
        "On CartPole and Acrobot, with our own settings "
        "(greedy return beside the paper&#x27;s training"
    )
    assert "CartPole trained on a shaped reward" in physical
    assert "<b>12 of 12</b>won by Delayed-Q; in the paper it wins 12 of them" in physical
    assert (
        "<b>100%</b>[100%, 100%] of its runs beat Augmented-Q&#x27;s of the same seed, ties half"
        in text
    )
    work = "30,600,000 steps · 720 episodes in 3.6 min of computing"
    assert f"3 of 10 seeds · 72 settings · {work} · an &lt;odd&gt; machine · 2026-01-02" in text
    for agent in ("Augmented-Q", "Oblivious-Q"):
        against = f"Delayed-Q against {agent}"
        assert f"{against} in mazes, 6 settings with a delay: it earns more in all." in text
        there = "on CartPole and Acrobot, 12 settings with a delay"
        assert f"{against} {there}: it earns more in all." in text
        assert f"{against}, 6 settings with a delay: no clear difference in all." in text
    explained = "the page of claims (docs/claims.md) explains each verdict"
    assert f"12 hold, 6 fail as written, 1 is unproven; {explained}" in text
    assert 'href="up/claims.md"' in page(root, "2026-01-03", "up/claims.md")
    assert "deadtime reproduce summary --preset best" in text
    missing = text.split("Not run")[1]
    assert "deadtime reproduce summary --preset paper" in missing
    assert "runs are there): <code>deadtime reproduce summary --preset best" in missing
    assert "runs are there): <code>deadtime reproduce summary --preset paper" not in missing
    assert "the authors&#x27; protocol" not in text


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 1, 0), "1 setting with a delay: no clear difference."),
        (
            (9, 2, 1),
            "12 settings with a delay: it earns more in 9, it earns less in 1, "
            "no clear difference in 2.",
        ),
        ((0, 0, 3), "3 settings with a delay: it earns less in all."),
    ],
)
def test_the_words_of_a_comparison(counts, expected):
    assert against("Augmented-Q", *counts) == f"Delayed-Q against Augmented-Q, {expected}"


def test_what_a_terminal_would_obey_and_other_versions(tmp_path, capsys):
    """A machine's name without escapes; a record of another version is named and not shown."""
    spec = next(iter(EXPERIMENTS["plain-reward"].runs.values()))
    record = record_of(spec, 400.0, range(3))
    odd = replace(record, provenance=[{**record.provenance[0], "device": "<b>\x1b[2J"}])
    records.write(tmp_path / spec.name, odd)
    other = f"{spec.name.rpartition('-')[0]}-{'0' * 12}"
    records.write(tmp_path / other, replace(record, id="0" * 12))
    text = page(tmp_path, "2026-01-03")
    assert "\x1b" not in text
    assert "&lt;b&gt;?[2J" in text
    why = f"{tmp_path}/{other} is outdated, since a part that it uses has changed: train it again"
    assert why in text
    assert f"not shown: {why}" in capsys.readouterr().err


def test_two_seeds_decide_nothing(tmp_path):
    for spec in EXPERIMENTS["plain-reward"].runs.values():
        records.write(
            tmp_path / spec.name, record_of(spec, 400.0 + 50 * (spec.agent == "delayed"), range(2))
        )
    text = page(tmp_path, "2026-01-03")
    assert "Fewer than three seeds of each decide nothing." in text
    assert "it earns more" not in text


@pytest.mark.full
def test_made_again_it_is_the_same(root):
    assert page(root, "2026-01-03") == page(root, "2026-01-03")


def test_every_experiment_has_its_words():
    assert {*published.SAYS} <= {name for e in EXPERIMENTS.values() for name in (e.id, e.name)}
    assert all({e.id, e.name} & {*published.SAYS} for e in EXPERIMENTS.values())


def test_results_with_the_seeds_that_all_runs_have(root, tmp_path):
    experiment = EXPERIMENTS["plain-reward"]
    assert found(experiment, tmp_path) is None
    assert {len(result.seeds) for result in found(experiment, root).values()} == {3}
    for number, spec in enumerate(experiment.runs.values()):
        records.write(tmp_path / spec.name, record_of(spec, 1.0, [0, 1 + number]))
    assert {tuple(result.seeds) for result in found(experiment, tmp_path).values()} == {(0,)}


def test_the_command(root, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["report", str(root), "--out", str(tmp_path / "deep" / "page.html")])
    assert end.value.code == 0
    assert (tmp_path / "deep" / "page.html").read_text().endswith("</html>\n")
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "nowhere")])
    assert end.value.code == 2
    assert "is not a folder" in capsys.readouterr().err
