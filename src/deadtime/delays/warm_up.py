"""The actions that are pending at reset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from deadtime.delays.convention import Warmup, check_delay
from deadtime.delays.nested import leaf_spaces, map_leaves
from deadtime.delays.pending import check_action_space, checked_leaves


class WarmUp:
    """A generator of the K actions that are pending at reset."""

    def __init__(self, warmup: Warmup, space: spaces.Space, delay: int):
        """Check `warmup`; `space` is the action space of one environment."""
        self.delay, self._space, self._warmup = check_delay(delay), space, warmup
        check_action_space(space)
        self.queue_space = batch_space(space, self.delay)
        self.queue_space.seed(
            None
        )  # batch_space copies the generator of `space`, and with it the actions it will sample
        if isinstance(warmup, str) and warmup != "random":
            raise ValueError(
                f'warmup is "random", an action, or a callable; got {warmup!r}: did you mean '
                '"random"?'
            )
        if not callable(warmup) and not isinstance(warmup, str):
            _check_inside(space, warmup, "the warm-up action")

    def seed(self, seed: int) -> None:
        """Seed the draws, independently of the environment's own random numbers."""
        self.queue_space.seed(
            int(np.random.SeedSequence([seed, self.delay, 0xDEAD]).generate_state(1)[0])
        )

    @property
    def needs_observation(self) -> bool:
        """True if the queue depends on what the agent sees at reset."""
        return callable(self._warmup)

    def draw(self, observation: object) -> Any:
        """Return the K pending actions, stacked, oldest first."""
        if isinstance(self._warmup, str):
            return self.queue_space.sample()
        actions = [self._warmup] * self.delay
        if callable(self._warmup):
            given = self._warmup(observation, self.delay, self.queue_space.np_random)
            actions = list(given) if isinstance(given, Iterable) else []
            if len(actions) != self.delay or not isinstance(given, Iterable):
                raise ValueError(
                    f"a warm-up callable returns as many actions as the delay, {self.delay}; got "
                    f"{given!r}: "
                    "return one action for each pending step, oldest first"
                )
            for action in actions:
                _check_inside(self._space, action, "each action that a warm-up callable returns")
        if not actions:
            return self.queue_space.sample()
        return map_leaves(
            lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), self._space, *actions
        )


def _check_inside(space: spaces.Space, action: object, what: str) -> None:
    try:
        leaves = checked_leaves(space, action)
        inside = all(
            part.contains(leaf) for part, leaf in zip(leaf_spaces(space), leaves, strict=True)
        )
    except ValueError:
        inside = False
    if not inside:
        raise ValueError(
            f"{what} must lie in the action space {space}; got {action!r}: "
            "choose one inside it (to give all pending actions, pass a callable that returns them)"
        )
