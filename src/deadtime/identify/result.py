"""The answer of `identify_delay`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deadtime.delays import DelayProcess
from deadtime.identify.age_model import AgeModel
from deadtime.identify.correlation import Correlation
from deadtime.identify.stamps import Split

_SHOWN = 0.005


@dataclass(frozen=True)
class Identification:
    """A delay estimated from a log: how sure it is, whether it varies, and what may be wrong.

    The delay is the sum of action and observation delay, in steps, by the library's convention: the
    action chosen at step t is executed at step t + delay.
    """

    identifiable: bool
    """Whether the log shows the delay; if not, `reason` says why and `advice` what to log."""
    reason: str
    advice: str
    posterior: tuple[float, ...]
    """The probability of each constant delay; if the delay varies, the share of each age."""
    delay: int | None
    """The most probable whole delay; if the delay varies, its most frequent age."""
    interval: tuple[int, int] | None
    """The shortest range of whole delays, or of ages, that has the probability `level`."""
    level: float
    steps: float | None
    """The delay with its fraction of a step; if the delay varies, its mean age."""
    steps_interval: tuple[float, float] | None
    """The interval of `steps`, None if the delay varies."""
    varies: bool
    process: DelayProcess | None
    """The delay as a process for `ActionDelay` and `train`, in whole steps."""
    actuators: tuple[int, ...] | None
    """The delay of each action number, where they differ."""
    witness: Correlation | None
    """The cross-correlation of actions and later changes."""
    split: Split | None
    """Action and observation delay separately, if the log has the time stamps."""
    model: str
    """The form of the one-step model."""
    rows: int
    """The number of transitions that were used."""
    episodes: int
    step: float | None
    """The duration of a step in seconds, if it is known."""
    warnings: tuple[str, ...] = ()
    ages: AgeModel | None = field(default=None, repr=False)
    """If the delay varies: the model by which later steps tell their ages."""
    others: float | None = None
    """With a constant delay of whole steps: the largest share of steps with other ages that the log
    does not exclude, at the probability `level`, if such steps come one by one."""

    @property
    def seconds(self) -> float | None:
        """The delay in seconds, if the duration of a step is known."""
        return None if self.step is None or self.steps is None else self.steps * self.step

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        witness = self.witness
        return {
            "identifiable": self.identifiable,
            "reason": self.reason,
            "advice": self.advice,
            "delay": self.delay,
            "interval": None if self.interval is None else list(self.interval),
            "level": self.level,
            "steps": self.steps,
            "steps_interval": None if self.steps_interval is None else list(self.steps_interval),
            "seconds": self.seconds,
            "varies": self.varies,
            "others": self.others,
            "process": None if self.process is None else self.process.to_json(),
            "posterior": list(self.posterior),
            "actuators": None if self.actuators is None else list(self.actuators),
            "cross_correlation": None
            if witness is None
            else {
                "values": list(witness.values),
                "threshold": witness.threshold,
                "onset": witness.onset,
                "peak": witness.peak,
            },
            "split": None if self.split is None else self.split.to_json(),
            "model": self.model,
            "rows": self.rows,
            "episodes": self.episodes,
            "step_seconds": self.step,
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """Return the answer as a few lines of text."""
        return "\n".join([self.headline, *self.details])

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        if not self.identifiable:
            return f"not identifiable, because {self.reason}: {self.advice}"
        assert self.interval is not None
        low, high = self.interval
        span = f"{low}" if low == high else f"{low} to {high}"
        if self.varies:
            return (
                f"the delay varies: mean age {self.steps:.2f} steps, {self.level:.0%} of steps "
                f"have age {span}; process {self.process}"
            )
        seconds = "" if self.seconds is None else f" ({self.seconds:.4g} s)"
        if self.steps_interval is not None and self.steps != self.delay:
            first, last = self.steps_interval
            exact = f"{self.steps:.2f} steps{seconds}, {self.level:.0%} interval "
            return f"the delay is {exact}{first:.2f} to {last:.2f}"
        return (
            f"the delay is {self.delay} steps{seconds}, {self.level:.0%} interval {span}, "
            f"probability {self.posterior[self.delay or 0]:.3f}"
        )

    @property
    def details(self) -> list[str]:
        """Further lines: actuators, split, cross-correlation and warnings."""
        lines = []
        if self.actuators is not None:
            lines.append(f"actuators differ: delays {', '.join(map(str, self.actuators))} steps")
        if self.split is not None:
            lines.append(str(self.split))
        witness = self.witness
        if witness is not None and witness.onset is not None:
            lines.append(
                f"cross-correlation: first at lag {witness.onset}, largest at lag {witness.peak}"
            )
        elif witness is not None:
            lines.append("cross-correlation: none above the noise")
        lines.append(f"{self.rows:,} transitions in {self.episodes:,} episodes; {self.model}")
        return [*lines, *(f"warning: {one}" for one in self.warnings)]

    @property
    def table(self) -> list[tuple[int, float, float]]:
        """Rows of (delay, probability, cross-correlation), without improbable delays."""
        values = self.witness.values if self.witness else (0.0,) * len(self.posterior)
        rows = [(k, p, values[k]) for k, p in enumerate(self.posterior)]
        return [row for row in rows if row[1] >= _SHOWN]
