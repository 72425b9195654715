"""Noise on the masses, and optionally the lengths, of a physical system, drawn at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Array

FLOOR = 0.05
"""The smallest factor on a nominal value.

At noise 0.1 it lies 9.5 standard deviations below the nominal value. At noise 0.5, the largest
allowed, it lies 1.9 below, and 3% of the draws are raised to it.
"""

PERTURB = ("masses", "masses+lengths")
"""The parameters that noise can perturb."""


def check_noise(noise: float) -> float:
    """Return `noise` as a float, or raise if it does not lie in [0, 0.5]."""
    try:
        value = math.nan if isinstance(noise, bool | str) else float(noise)
    except TypeError:
        value = math.nan
    if not 0 <= value <= 0.5:
        raise ValueError(f"noise is a number in [0, 0.5]; got {noise!r}: pass 0 for none")
    return value


def check_perturb(perturb: object) -> bool:
    """Return whether lengths are perturbed too, or raise if `perturb` is unknown."""
    if not isinstance(perturb, str) or perturb not in PERTURB:
        raise ValueError(
            f'perturb is "masses" or "masses+lengths"; got {perturb!r}: choose one of the two'
        )
    return perturb == "masses+lengths"


def perturbed(
    nominal: float | Array, noise: float | Array, normal: float | Array, xp: ModuleType
) -> Any:
    """Return nominal · (1 + noise · normal), kept positive; `xp` is NumPy or `jax.numpy`."""
    if isinstance(noise, float) and noise == 0:
        return nominal
    return nominal * xp.maximum(1.0 + noise * normal, FLOOR)


@dataclass(frozen=True)
class PerturbedSettings:
    """The settings of a physical system: the noise, and the parameters that it perturbs."""

    noise: float = 0.0
    perturb: str = "masses"

    def __post_init__(self) -> None:
        """Raise if the noise is out of range or `perturb` is unknown."""
        object.__setattr__(self, "noise", check_noise(self.noise))
        check_perturb(self.perturb)

    @property
    def length_noise(self) -> float:
        """The noise on lengths."""
        return self.noise if check_perturb(self.perturb) else 0.0
