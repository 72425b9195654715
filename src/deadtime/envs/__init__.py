"""Environments by name: deadtime's own, and those of gymnax, Gymnasium and Atari."""

from deadtime.envs.families import FAMILIES, environment_names, family_of, make, register
from deadtime.envs.family import Family

__all__ = ["FAMILIES", "Family", "environment_names", "family_of", "make", "register"]
