"""The return of recorded policies against the delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadtime._support.pictures import put_title, save_picture
from deadtime.delays import Delay, as_delay, as_process
from deadtime.learn.evaluate import evaluate
from deadtime.runs import statistics
from deadtime.runs.limits import return_limits
from deadtime.runs.result import Result


def scores_at(result: Result, delay: Delay, episodes: int, seed: int) -> list[float]:
    """Return the mean return of each recorded policy under a delay, on new episodes."""
    spec = result.spec
    scores = []
    for one in sorted(result.replayed):
        policy = result.policy(one).at_delay(delay)
        env = spec.family.gymnasium_form(spec.environment(one), delay, policy)
        returns = evaluate(policy, env, episodes=episodes, seed=seed)
        scores.append(float(returns.mean()))
    return scores


@dataclass(frozen=True)
class DelayCost:
    """The scores of recorded policies under several delays."""

    result: Result
    scores: dict[Delay, list[float]]
    """The score of each policy by delay."""
    refused: dict[Delay, str]
    """Why the policies can't act under a delay."""

    @property
    def trained(self) -> Delay:
        """The delay of the training."""
        spec = self.result.spec
        return as_delay(getattr(spec, "channel", spec.delay))

    def estimate(self, delay: Delay) -> statistics.Estimate:
        """Return the mean score under a delay, with its interval."""
        return statistics.mean(self.scores[delay], return_limits(self.result.spec))

    def to_json(self) -> list[dict[str, Any]]:
        """Return one object for each delay."""
        found: list[dict[str, Any]] = []
        for delay in {**self.scores, **self.refused}:
            row: dict[str, Any] = {"delay": plain(delay)}
            if delay in self.scores:
                row |= {"scores": self.scores[delay], "return": self.estimate(delay).to_json()}
            else:
                row["refused"] = self.refused[delay]
            found.append(row)
        return found

    def draw(self, path: Path) -> Path:
        """Draw the returns into a PNG; a delay that varies stands at its mean age."""
        from deadtime.runs.figures import name_of, new_figure  # noqa: PLC0415  (only to draw)

        figure, axes = new_figure(6.4, 4.2)
        constant = sorted(delay for delay in self.scores if isinstance(delay, int))
        found = [self.estimate(delay) for delay in constant]
        values = [one.value for one in found]
        axes.plot(constant, values, "o-", color="#0072B2", label="constant delays")
        ends = [one.low for one in found], [one.high for one in found]
        axes.fill_between(constant, *ends, color="#0072B2", alpha=0.2, linewidth=0)
        others = [delay for delay in self.scores if not isinstance(delay, int)]
        for marker, delay in zip("*PXD^vsp" * len(others), others, strict=False):
            value = self.estimate(delay).value
            axes.plot(as_process(delay).mean_age, value, marker, markersize=9, label=str(delay))
        trained = as_process(self.trained)
        axes.axvline(trained.mean_age, color="gray", linestyle=":", label=f"trained at {trained}")
        axes.set(xlabel="delay, or its mean (steps)", ylabel="return")
        axes.legend(fontsize=8)
        spec = self.result.spec
        put_title(axes, f"{name_of(spec.agent)} in {spec.env}")
        return save_picture(figure, path)


def plain(delay: Delay) -> Any:
    """Return a delay for JSON."""
    return delay if isinstance(delay, int) else delay.to_json()


def delay_cost(result: Result, delays: Sequence[Delay], episodes: int, seed: int) -> DelayCost:
    """Return the scores under several delays; raise if the policies can act under none of them."""
    scores: dict[Delay, list[float]] = {}
    refused: dict[Delay, str] = {}
    policy = result.policy()
    for delay in delays:
        try:
            policy.at_delay(delay)
        except ValueError as error:
            refused[delay] = str(error)
        else:
            scores[delay] = scores_at(result, delay, episodes, seed)
    if not scores:
        raise ValueError(
            next(
                iter(refused.values()),
                "--delays takes one delay or more; got none: write --delays 0-12, say",
            )
        )
    return DelayCost(result, scores, refused)
