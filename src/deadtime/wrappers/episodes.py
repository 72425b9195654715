"""The starts of episodes in a vector environment, in each autoreset mode.

- NEXT_STEP: the step after the end is a reset; the action given to it is ignored;
- SAME_STEP: the step that ends an episode also starts the next; `final_obs` and `final_info` are of
  the old one;
- DISABLED: the caller resets all environments, or those of ``options["reset_mask"]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class Episodes:
    """A tracker of the environments that start an episode with the present reset or step."""

    def __init__(self, env: VectorEnv, name: str):
        """Check `env`; `name` is the name of the scalar wrapper, for error messages."""
        if not isinstance(env, VectorEnv):
            raise ValueError(
                f"Vector{name} wraps a gymnasium.vector.VectorEnv; got {env}: use {name}"
            )
        # metadata is the class's own dict, which another vector environment may have written since
        mode = getattr(env.unwrapped, "autoreset_mode", env.metadata.get("autoreset_mode"))
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"Vector{name} must know when episodes restart; metadata['autoreset_mode'] of "
                f"{env} is {mode!r}: set it to one of gymnasium.vector.AutoresetMode"
            )
        self.same_step = mode == AutoresetMode.SAME_STEP
        self._next_step = mode == AutoresetMode.NEXT_STEP
        self._ended = np.zeros(env.num_envs, bool)

    def at_reset(self, options: dict[str, Any] | None) -> np.ndarray:
        """Return which environments start an episode with a reset with these options."""
        mask = np.ones_like(self._ended)
        if options is not None and "reset_mask" in options:
            mask = np.array(options["reset_mask"])
        return mask

    def reset(self, started: np.ndarray, options: dict[str, Any] | None) -> None:
        """Record a reset; raise if the environment ignored the mask."""
        if options is not None and "reset_mask" in options:
            raise ValueError(
                "options['reset_mask'] says which environments to reset, but this environment "
                f"ignores it; got {options['reset_mask']}: reset all, or use SyncVectorEnv"
            )
        self._ended = self._ended & ~started

    def at_step(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        """Return which environments start an episode with this step."""
        before, self._ended = self._ended, np.logical_or(terminated, truncated)
        if self.same_step:
            return self._ended
        return before if self._next_step else np.zeros_like(before)


def own_seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """Return the seed of each environment, as Gymnasium's vector environments derive them."""
    if isinstance(seed, int):
        return [seed + i for i in range(count)]
    return list(seed) if seed else [None] * count
