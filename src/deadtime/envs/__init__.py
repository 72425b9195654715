"""Environments by name: ours as pure functions, gymnax's, Gymnasium's and Atari's."""

from deadtime.envs.families import FAMILIES, environment_names, family_of, make, register
from deadtime.envs.family import Family

__all__ = ["FAMILIES", "Family", "environment_names", "family_of", "make", "register"]
