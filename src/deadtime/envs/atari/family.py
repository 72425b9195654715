"""The family `atari:NAME`: Atari games (extra `atari`)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from deadtime.delays import Delay, DelayProcess
from deadtime.envs.atari.games import Atari
from deadtime.envs.family import Arrows, Draw, Family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import gymnasium as gym

    from deadtime.envs.atari.gym_env import AtariEnv
    from deadtime.envs.atari.pool import AtariPool
    from deadtime.envs.pools import Lane

PREFIX = "atari:"


class AtariFamily(Family[Atari]):
    """Atari games in a pool of processes, with emulators that look ahead through the queue."""

    name = "atari"
    loop = "host"
    looks_ahead = True
    in_processes = True
    seed_stream = 0xA7A
    prefix = PREFIX
    word = "NAME"
    observation_kinds = ("frames",)
    one_policy_each = True
    frame_milliseconds = 70
    most_drawn = 1000
    usual_steps = 1_000_000

    def setting_names(self, name: str) -> list[str] | None:
        """Return the names of a game's settings."""
        return [one.name for one in fields(Atari)][1:]

    def describe(self, name: str, settings: dict[str, Any]) -> Atari:
        """Return the checked description of a game, without starting an emulator."""
        self.check_settings(name, settings)
        return Atari(name.removeprefix(PREFIX), **settings)

    def make(self, name: str, settings: dict[str, Any]) -> Atari:
        """Return the checked description of a game, which a pool plays."""
        return self.describe(name, settings)

    def longest_episode(self, environment: Atari) -> int:
        """Return the step limit of an episode."""
        return environment.max_episode_steps

    def paper_settings(self, environment: Atari, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the paper's setting: no sticky actions."""
        return {"sticky": environment.sticky if "sticky" in given else 0.0}

    def gymnasium_form(
        self,
        environment: Atari,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Return the game under a delay, with a look-ahead if `policy` needs one."""
        from deadtime.envs.atari.gym_env import AtariEnv  # noqa: PLC0415  (numba)

        if isinstance(delay, DelayProcess):
            raise ValueError(
                f"Atari games take a constant delay; got {delay}: pass a whole number such as "
                f"{delay.longest}"
            )
        return AtariEnv(environment, delay, getattr(policy, "looks_ahead", ""))

    def pool(self, lanes: Sequence[Lane], name: str) -> AtariPool:
        """Start worker processes that play one game per lane."""
        from deadtime.envs.atari.pool import AtariPool  # noqa: PLC0415  (processes)

        return AtariPool([lane.environment.played(*lane[1:]) for lane in lanes])

    def can_draw(self, environment: Atari) -> bool:
        """Return True: `watch` can draw a game."""
        return True

    def scene(self, environment: Atari, env: AtariEnv) -> tuple[Draw, Arrows]:  # type: ignore[override]
        """Return a function that draws the screen and the expected one."""
        from deadtime.envs import scenes  # noqa: PLC0415  (Pillow)

        return scenes.screens(env.lane)
