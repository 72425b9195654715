"""The age of the executed action, and whether a step leaves a transition of that action."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from deadtime.envs.channel import age_of
from deadtime.learn.program import Program, Setup


def action_age(program: Program, setup: Setup, channel: Any) -> Any:
    """Return the age of the action that the present step executes."""
    return setup.delay if program.process is None else age_of(program.process, channel)


def credited(program: Program, setup: Setup, age: Any, action_age: Any) -> Any:
    """Return whether the step `age` of an episode leaves a transition of the executed action.

    It does if that action was chosen in this episode. Under a constant delay the learner's setting
    `skipped_delays` decides instead.
    """
    if program.process is None:
        return True
    return (action_age <= age) | ~jnp.asarray(program.code(setup).executed)
