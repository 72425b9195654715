"""What `deadtime train`, `compare` and `watch` do: learn, set side by side, look."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from deadtime.agents.views import VIEWS
from deadtime.experiments import events, records, statistics
from deadtime.experiments.ceiling import mean_ceiling
from deadtime.experiments.figures import new_figure, return_against_delay
from deadtime.experiments.specs import TabularSpec, check_count, check_seeds
from deadtime.pictures import check_picture, save_picture
from deadtime.training.evaluate import delayed_gym, evaluate
from deadtime.training.result import Result, make_spec, record_together, train_recorded
from deadtime.training.tabular import check_workers
from deadtime.training.watch import can_draw, watch

_LEFT_OUT = {"help_behavior_hint": ""}
Whole = Annotated[int | None, tyro.conf.arg(metavar="INT", **_LEFT_OUT)]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", **_LEFT_OUT)]
Word = Annotated[str | None, tyro.conf.arg(metavar="STR", **_LEFT_OUT)]
Place = Annotated[str, tyro.conf.arg(metavar="PATH|URL")]
File = Annotated[Path | None, tyro.conf.arg(metavar="PATH", **_LEFT_OUT)]
Choice = Annotated[bool | None, tyro.conf.arg(metavar="True|False", **_LEFT_OUT)]
"""Options that may be left out; help says of each what it is then."""


@dataclass(frozen=True)
class Options:
    """Settings of the environment, the run and the learner; what is left out has its default."""

    size: Whole = None
    """maze: cells on a side (10)."""
    noise: Number = None
    """maze: probability that an action is replaced; cartpole, acrobot: relative deviation of masses (0; noisy-… 0.1)."""
    maze_seed: Whole = None
    """maze: one maze for all seeds; default: a maze of its own for each."""
    length: Whole = None
    """walk: steps (40)."""
    momentum: Number = None
    """walk: probability to move away from 0 (0.6)."""
    near: Whole = None
    """walk: the largest |x| at which action 0 pays (3)."""
    episodes: Whole = None
    """maze, walk: how long to train (5000)."""
    until_return: Number = None
    """maze, walk: stop a seed once the mean of its last 20 training returns reaches this."""
    step_size: Number = None
    """maze, walk: of Q-learning (0.1)."""
    discount: Number = None
    """maze, walk 0.99; cartpole, acrobot by preset."""
    epsilon: Number = None
    """maze, walk: how often a training decision is random (maze 0, walk 0.1)."""
    preset: Word = None
    """deep agents: paper or best (best)."""
    steps: Whole = None
    """deep agents: how long to train (100,000 and 10,000 more for each step of delay; Atari 1,000,000)."""
    envs: Whole = None
    """gym:ID, atari:NAME: how many environments side by side (1; Atari 8, its recurrent agent 16)."""
    sticky: Number = None
    """atari:NAME: probability that a frame repeats the last action (0.25; with preset paper 0)."""
    max_episode_steps: Whole = None
    """atari:NAME, gym:ID: where episodes are cut off (Atari 27,000)."""
    perturb: Word = None
    """cartpole, acrobot: what noise falls on, masses or masses+lengths."""
    learning_rate: Number = None
    """deep agents: of Q and the model, by preset."""
    model: Word = None
    """delayed: learned, change or simulator; on Atari fresh or kept."""
    members: Whole = None
    """delayed: how many predictions Q is averaged over."""
    shaped: Choice = None
    """cartpole: whether to train on the authors' shaped reward."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Any other setting, as often as needed: --set batch=64 --set hidden=[32,32] --set double=False, or gym:ID's own."""

    def given(self) -> dict[str, Any]:
        """Those that were not left out."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "set" and getattr(self, f.name) is not None}
        for one in self.set:
            name, equals, value = one.partition("=")
            if not name or not equals or name in named:
                raise ValueError(f"a setting is NAME=VALUE, each name once; got {one!r}: write batch=64, say")
            try:
                named[name] = json.loads({"True": "true", "False": "false", "None": "null"}.get(value, value))
            except json.JSONDecodeError:
                named[name] = value
        return named


@dataclass(frozen=True)
class Train:
    """Train one agent under a delay and record it; seeds that are recorded already are not trained again."""

    env: str
    """maze, noisy-maze, walk, cartpole, noisy-cartpole, acrobot, noisy-acrobot, gymnax:NAME, gym:ID or atari:NAME."""
    settings: tyro.conf.OmitArgPrefixes[Options]
    agent: str = "delayed"
    """delayed, augmented, oblivious; but on Atari shifted; maze, walk: distribution, mbs; deep ones but gym:ID: recurrent."""
    delay: int = 0
    """Steps between choosing an action and its execution."""
    seeds: int = 5
    """How many; seed i is maze i."""
    out: Path = Path("runs")
    """Where records are kept."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to the folder `tensorboard` among them."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Train and print."""
        spec = make_spec(self.env, self.agent, self.delay, self.settings.given())
        result, folder = train_recorded(spec, self.seeds, self.out)
        if self.tensorboard:
            events.write_all([spec], self.out)
        summary = _summary(result) | {"record": str(folder)}
        if self.json:
            print(json.dumps(summary))
            return 0
        table = Table("", "", show_header=False)
        for name, value in summary.items():
            table.add_row(name.replace("_", " "), _plain(value))
        console = Console(emoji=False)
        console.print(table)
        if can_draw(self.env, spec.environment(0)) and getattr(spec.learner, "model", "") != "simulator":
            console.print(f"see it act: deadtime watch {folder}", soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Compare:
    """Train several agents under several delays on the same seeds, and print returns, intervals and paired differences.

    Records keep scores and curves, but no policies.
    """

    env: str
    """maze, noisy-maze, walk, cartpole, noisy-cartpole, acrobot, noisy-acrobot, gymnax:NAME, gym:ID or atari:NAME."""
    settings: tyro.conf.OmitArgPrefixes[Options]
    agents: tuple[str, ...] = ("delayed", "augmented", "oblivious")
    delays: tuple[int, ...] = (0, 5, 15)
    seeds: int = 5
    out: Path = Path("runs")
    """Where records are kept."""
    figure: File = None
    """Also draw the returns against the delay into this PNG."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Train what is not recorded yet, and print."""
        check_picture(self.figure)
        if (
            not self.agents
            or not self.delays
            or len({*self.agents}) < len(self.agents)
            or len({*self.delays}) < len(self.delays)
        ):
            raise ValueError(f"name each agent and delay once, at least one; got {self.agents} and {self.delays}: repeat none")
        specs = {(a, m): make_spec(self.env, a, m, self.settings.given()) for m in self.delays for a in self.agents}
        for spec in specs.values():
            if isinstance(spec, TabularSpec):
                check_workers(spec, check_count("seeds", self.seeds), keep_policies=False)
        deep = [spec for spec in specs.values() if not isinstance(spec, TabularSpec)]
        record_together([(spec, check_seeds(self.seeds)) for spec in deep], self.out)
        results = {key: train_recorded(spec, self.seeds, self.out, keep_policies=False)[0] for key, spec in specs.items()}
        rows = [self._row(results, m) for m in self.delays]
        if self.json:
            print(json.dumps({"env": self.env, **self.settings.given(), "seeds": self.seeds, "delays": rows}))
        else:
            self._print(rows)
        if self.figure is not None:
            self._draw(results, rows, self.figure)
        return 0

    def _draw(self, results: dict[tuple[str, int], Result], rows: list[dict[str, Any]], path: Path) -> None:
        best = {row["delay"]: (row["optimum"]["value"], row["optimum"]["exact"]) for row in rows if row["optimum"]}
        figure, axes = new_figure(6.4, 4.2)
        return_against_delay(axes, {key: result.scores for key, result in results.items()}, best)
        given = "".join(f", {name} {value}" for name, value in self.settings.given().items())
        axes.set_title(f"{self.env}{given}, {self.seeds} seeds, 95% intervals", fontsize=10)
        save_picture(figure, path)

    def _row(self, results: dict[tuple[str, int], Result], delay: int) -> dict[str, Any]:
        first = results[self.agents[0], delay]
        row: dict[str, Any] = {"delay": delay}
        for agent in self.agents:
            row[agent] = statistics.mean(results[agent, delay].scores).said()
            if results[agent, delay].diverged:
                row[agent] |= {"diverged": results[agent, delay].diverged}
            if results[agent, delay].untrained:
                row[agent] |= {"never_updated": results[agent, delay].untrained}
            if agent != self.agents[0]:
                less = statistics.difference(first.scores, results[agent, delay].scores)
                row[agent] |= {"difference": less.said()}
        spec = first.spec
        if not isinstance(spec, TabularSpec):
            return row | {"optimum": None}
        try:
            best = mean_ceiling(self.out, spec, check_seeds(self.seeds))
        except MemoryError:  # too large to solve, which takes nothing from what was learned
            return row | {"optimum": None}
        return row | {"optimum": {"value": best.value, "exact": best.delay == delay}}

    def _print(self, rows: list[dict[str, Any]]) -> None:
        table, first = Table("delay", "agent", "return"), self.agents[0]
        if self.agents[1:]:
            table.add_column(f"{first} minus it")
        for row in rows:
            best = row["optimum"]
            if best is not None:
                table.add_row(str(row["delay"]), "optimum", f"{'' if best['exact'] else '≤ '}{best['value']:.3f}")
            for agent in self.agents:
                less = row[agent].get("difference")
                table.add_row(str(row["delay"]), agent, _estimate(row[agent]), *([] if less is None else [_estimate(less)]))
            table.add_section()
        console = Console(emoji=False)
        console.print(table)
        for row, agent in product(rows, self.agents):
            if "diverged" in row[agent]:
                console.print(f"{agent} at delay {row['delay']} diverged (its mean counts it): {row[agent]['diverged']}")
            if "never_updated" in row[agent]:
                console.print(
                    f"{agent} at delay {row['delay']} was never updated, train longer: seeds {row[agent]['never_updated']}"
                )
        console.print(
            f"mean greedy return over {self.seeds} seeds, 95% intervals; differences are paired by seed", highlight=False
        )


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a recorded training on new episodes, under its own delay or another."""

    record: tyro.conf.Positional[Path]
    """The folder that `deadtime train` printed."""
    delay: int | None = None
    """Default: the one it was trained for."""
    episodes: int = 100
    """For each seed."""
    episode: int = 1_000_000
    """Decides the first one's warm-up and noise; the next ones count on."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        """Evaluate every seed whose policy was kept, and print."""
        result = Result(records.read(self.record, policies=True))
        spec, seeds = result.spec, sorted(result.record.policy_seeds)
        if not seeds:
            raise ValueError(f"{self.record} holds no policies, only scores: train it again with `deadtime train`")
        delay = spec.delay if self.delay is None else self.delay
        scores = []
        for seed in seeds:
            policy = result.policy(seed).at_delay(delay)
            env = delayed_gym(spec.env, spec.environment(seed), delay, policy)
            scores.append(float(evaluate(policy, env, episodes=self.episodes, seed=self.episode).mean()))
        found = statistics.mean(scores)
        if self.json:
            said = {"trained_delay": spec.delay, "delay": delay, "seeds": seeds, "scores": scores, "return": found.said()}
            print(json.dumps(said))
        else:
            about = f"{spec.env} {spec.agent} of delay {spec.delay}, under delay {delay}"
            print(f"{about}: return {found} over {len(seeds)} seeds")
        return 0


@dataclass(frozen=True)
class Watch:
    """Draw an episode of a trained agent as a GIF: where it is, what is pending, where it believes it will be."""

    record: tyro.conf.Positional[Path]
    """The folder that `deadtime train` printed."""
    seed: int | None = None
    """Which of its seeds; default: the first."""
    episode: int = 0
    """Decides the warm-up and the noise."""
    out: Path = Path("watch.gif")

    def run(self) -> int:
        """Run the episode and draw it."""
        if self.out.suffix != ".gif":
            raise ValueError(f"watch writes a GIF; got {self.out}: end the name in .gif")
        if self.episode < 0:
            raise ValueError(f"episode is a whole number, 0 or more; got {self.episode}: each number gives one episode")
        result = Result(records.read(self.record, policies=True))
        seed, spec = result.seeds[0] if self.seed is None else self.seed, result.spec
        steps, earned = watch(spec.env, spec.environment(seed), result.policy(seed), self.episode, self.out)
        print(f"{self.out}: {steps} steps, return {earned:.3f}")
        return 0


def _summary(result: Result) -> dict[str, Any]:
    spec = result.spec
    shaped = hasattr(spec.environment(0), "shaped_reward")
    predicts = spec.agent in VIEWS and VIEWS[spec.agent].predicts
    return {
        **{name: value for name, value in spec.canonical().items() if name not in ("kind", "settings", "learner", "changes")},
        **({"preset": spec.preset} if not isinstance(spec, TabularSpec) else {}),
        **_of_the_environment(spec),
        "delay": spec.delay,
        **({"episodes": spec.episodes} if isinstance(spec, TabularSpec) else {"steps": spec.length}),
        "seeds": len(result.seeds),
        **({"envs": spec.envs} if not isinstance(spec, TabularSpec) and spec.outside else {}),
        **{
            name: value
            for name, value in vars(spec.learner).items()
            if (shaped or not name.startswith("shaped")) and (predicts or name not in ("model", "members"))
        },
        "greedy_return": statistics.mean(result.scores).said(),
        "training_return": statistics.mean(result.training_scores).said(),
        "scores": [round(score, 6) for score in result.record.scores],
        "seconds_of_all_seeds": round(sum(result.record.seconds), 3),
        **({"diverged": result.diverged} if result.diverged else {}),
        **(
            {"never_updated": f"seeds {result.untrained}: there was never enough to learn from, train longer"}
            if result.untrained
            else {}
        ),
    }


def _of_the_environment(spec: Any) -> dict[str, Any]:
    """Its settings, those at their default too where they matter."""
    environment = spec.environment(0)
    usual = {name: getattr(environment, name) for name in ("size", "noise", "perturb", "sticky") if hasattr(environment, name)}
    if not usual.get("noise"):
        usual.pop("perturb", None)
    return usual | spec.settings


def _plain(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"mean", "low", "high"}:
        return _estimate(value)
    if isinstance(value, list) and all(isinstance(item, float) for item in value):
        return ", ".join(f"{item:.3f}" for item in value)
    return str(value)


def _estimate(found: dict[str, Any]) -> str:
    return str(statistics.Estimate(*(np.nan if found[name] is None else found[name] for name in ("mean", "low", "high"))))
