"""Noise on the masses (and, if asked, lengths) of a physical system: a new parameter value at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

FLOOR = 0.05
"""No perturbed mass or length falls below this share of its nominal value; at noise 0.1 that is 9.5 deviations away,
at 0.5, the most that is allowed, 1.9 (3% of the draws)."""

PERTURB = ("masses", "masses+lengths")


def check_noise(noise: Any) -> float:
    """Return `noise` as a float in [0, 0.5], or say what is wrong with it."""
    try:
        value = math.nan if isinstance(noise, bool | str) else float(noise)
    except TypeError:
        value = math.nan
    if not 0 <= value <= 0.5:
        raise ValueError(f"noise is a number in [0, 0.5]; got {noise!r}: pass 0 for none")
    return value


def check_perturb(perturb: Any) -> bool:
    """Whether lengths are perturbed along with masses."""
    if not isinstance(perturb, str) or perturb not in PERTURB:
        raise ValueError(
            f'perturb is "masses" or "masses+lengths"; got {perturb!r}: choose one of the two'
        )
    return perturb == "masses+lengths"


def perturbed(nominal: Any, noise: Any, normal: Any, xp: Any) -> Any:
    """nominal · (1 + noise · normal), kept positive; `xp` is NumPy or `jax.numpy`."""
    if isinstance(noise, float) and noise == 0:
        return nominal
    return nominal * xp.maximum(1.0 + noise * normal, FLOOR)


@dataclass(frozen=True)
class PerturbedSettings:
    """The settings of a physical system: `noise` perturbs masses, or masses and lengths, at each step."""

    noise: float = 0.0
    perturb: str = "masses"

    def __post_init__(self) -> None:
        """Raise if the noise is out of range or falls on something unknown."""
        object.__setattr__(self, "noise", check_noise(self.noise))
        check_perturb(self.perturb)

    @property
    def length_noise(self) -> float:
        """The noise that falls on lengths."""
        return self.noise if check_perturb(self.perturb) else 0.0
