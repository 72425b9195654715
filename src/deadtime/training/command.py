"""The commands `deadtime train`, `evaluate`, `compare` and `watch`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.table import Table

from deadtime.agents.views import VIEWS
from deadtime.experiments import events, records, statistics
from deadtime.experiments.ceiling import mean_ceiling
from deadtime.experiments.figures import new_figure, return_against_delay
from deadtime.experiments.runner import Runs, count, counted, missing
from deadtime.experiments.specs import TabularSpec, check_count, check_seeds
from deadtime.experiments.store import local_folder
from deadtime.pictures import check_picture, put_title, save_picture
from deadtime.terminal import console
from deadtime.training.evaluate import delayed_gym, evaluate
from deadtime.training.options import File, Limits, Options
from deadtime.training.result import Result, make_spec, record_together, train_recorded
from deadtime.training.tabular import check_workers
from deadtime.training.watch import can_draw, watch


@dataclass(frozen=True)
class Train:
    """Train one agent under a delay and record it; seeds that are recorded already are not trained again."""

    env: str
    """maze, noisy-maze, walk, cartpole, noisy-cartpole, acrobot, noisy-acrobot, gymnax:NAME, gym:ID or atari:NAME."""
    settings: tyro.conf.OmitArgPrefixes[Options]
    agent: str = "delayed"
    """Everywhere: delayed, augmented, oblivious; shifted, except on Atari. In maze and walk also
    distribution and mbs. In cartpole, acrobot, gymnax:NAME and atari:NAME also recurrent."""
    delay: int = 0
    """Steps between choosing an action and its execution."""
    seeds: int = 1
    """How many runs, seed 0 first; in mazes seed i is also maze i. Intervals need at least 3."""
    out: Path = Path("runs")
    """Where records are kept."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to the folder `tensorboard` among them."""
    json: bool = False
    """Print one JSON object."""
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)

    def run(self) -> int:
        """Train and print."""
        local_folder(self.out)
        spec = make_spec(self.env, self.agent, self.delay, self.settings.given())
        seeds, folder = check_seeds(self.seeds), self.out / spec.name
        known = records.read(folder).policy_seeds if records.exists(folder) else []
        trained = len({*seeds} - {*known})
        result, _ = train_recorded(spec, seeds, self.out)
        if self.tensorboard:
            events.write_all([spec], self.out)
        summary = _summary(result) | {"record": str(folder)}
        if self.json:
            print(json.dumps(summary | {"trained": trained}))
            return 0
        table = Table("", "", show_header=False)
        for name, value in summary.items():
            table.add_row(name.replace("_", " "), _plain(value))
        console().print(table)
        if can_draw(self.env, spec.environment(0)) and getattr(spec.learner, "model", "") != "simulator":
            console().print(f"see it act: deadtime watch {folder}", soft_wrap=True)
        _say_if_nothing_was_trained(trained, len(seeds), "seed")
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
    """Which agents; the first is compared with each of the others."""
    delays: tuple[int, ...] = (0, 5, 15)
    """Steps between choosing an action and its execution, one or more numbers."""
    seeds: int = 5
    """How many runs of each agent under each delay, seed 0 first. Intervals need at least 3."""
    out: Path = Path("runs")
    """Where records are kept."""
    figure: File = None
    """Also draw the returns against the delay into this PNG."""
    json: bool = False
    """Print one JSON object."""
    limits: tyro.conf.OmitArgPrefixes[Limits] = field(default_factory=Limits)

    def run(self) -> int:
        """Train what is not recorded yet, and print."""
        local_folder(self.out)
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
        wanted: Runs = [(spec, check_seeds(self.seeds)) for spec in specs.values()]
        trained = count(missing(wanted, self.out))
        deep = [(spec, seeds) for spec, seeds in wanted if not isinstance(spec, TabularSpec)]
        record_together(deep, self.out)
        results = {key: train_recorded(spec, self.seeds, self.out, keep_policies=False)[0] for key, spec in specs.items()}
        rows = [self._row(results, m) for m in self.delays]
        if self.json:
            asked = {"env": self.env, **self.settings.given(), "seeds": self.seeds}
            print(json.dumps({**asked, "trained": trained, "delays": rows}))
        else:
            self._print(rows)
            _say_if_nothing_was_trained(trained, count(wanted), "run")
        if self.figure is not None:
            self._draw(results, rows, self.figure)
        return 0

    def _draw(self, results: dict[tuple[str, int], Result], rows: list[dict[str, Any]], path: Path) -> None:
        best = {row["delay"]: (row["optimum"]["value"], row["optimum"]["exact"]) for row in rows if row["optimum"]}
        figure, axes = new_figure(6.4, 4.2)
        return_against_delay(axes, {key: result.scores for key, result in results.items()}, best)
        given = "".join(f", {name} {value}" for name, value in self.settings.given().items())
        put_title(axes, f"{self.env}{given}, {self._over_seeds(rows)}")
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
        console().print(table)
        for row, agent in product(rows, self.agents):
            if "diverged" in row[agent]:
                console().print(f"{agent} at delay {row['delay']} diverged (its mean counts it): {row[agent]['diverged']}")
            if "never_updated" in row[agent]:
                console().print(
                    f"{agent} at delay {row['delay']} was never updated, train longer: seeds {row[agent]['never_updated']}"
                )
        paired = "; differences are paired by seed" if self.agents[1:] else ""
        console().print(f"mean greedy return over {self._over_seeds(rows)}{paired}")

    def _over_seeds(self, rows: list[dict[str, Any]]) -> str:
        """Say how many seeds there are, and which intervals where there are any."""
        intervals = any(row[agent]["low"] is not None for row in rows for agent in self.agents)
        return counted(self.seeds, "seed") + ", 95% intervals" * intervals


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
            print(f"{about}: return {found} over {counted(len(seeds), 'seed')}")
        return 0


@dataclass(frozen=True)
class Watch:
    """Draw an episode of a trained agent as a GIF: the environment and the pending actions.

    An agent that predicts (delayed, distribution, mbs) is also drawn where it expects to be when
    they are done, except in gym:ID, which draws itself.
    """

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


def _say_if_nothing_was_trained(trained: int, asked: int, noun: str) -> None:
    """Print a line if every run had been recorded before."""
    if not trained:
        which = f"the {noun} is" if asked == 1 else f"all {counted(asked, noun)} are"
        console().print(f"{which} recorded already: nothing was trained")


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
