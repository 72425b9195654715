"""The family `gymnax:NAME`: the environments of the library gymnax (extra `gymnax`)."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deadtime._support.names import nearest
from deadtime.delays import Delay
from deadtime.envs.family import Family

if TYPE_CHECKING:
    import gymnasium as gym

PREFIX = "gymnax:"
_FORM = r"[\w.-]+"
"""The form of a name in a record, after the prefix."""


class GymnaxFamily(Family):
    """Environments of gymnax, which run inside a compiled program."""

    name = "gymnax"
    loop = "compiled"
    prefix = PREFIX
    word = "NAME"

    def setting_names(self, name: str) -> list[str] | None:
        """Return None for any name: gymnax checks the settings itself."""
        return None

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make an environment; equal settings give the same object, so programs compile once."""
        short = name.removeprefix(PREFIX)
        for setting in {"noise", "perturb"} & set(settings):
            raise ValueError(
                f"an environment of gymnax has no masses to perturb here; got "
                f"{setting}={settings[setting]!r} for {name}: leave it out, or use noisy-cartpole "
                "or noisy-acrobot"
            )
        try:
            gymnax = import_module("gymnax")
        except ImportError as error:
            raise ImportError(f"{name} needs gymnax ({error}): pip install gymnax six") from error
        if short not in gymnax.registered_envs:
            hint = nearest(short, gymnax.registered_envs)
            raise ValueError(
                f"gymnax has no environment {short!r}{hint}: see gymnax.registered_envs"
            )
        try:
            return _made(short, json.dumps(settings, sort_keys=True))
        except TypeError as error:
            raise ValueError(
                f"{name} can't be made with {settings} ({error}): give it settings that it takes"
            ) from None

    def check_name(self, name: str) -> None:
        """Raise if a name from a record has the wrong form."""
        if not re.fullmatch(_FORM, name.removeprefix(PREFIX)):
            raise ValueError(
                "an environment's name is a word such as gymnax:CartPole-v1; got "
                f"{name!r:.100}: train it again"
            )

    def gymnasium_form(
        self,
        environment: object,
        delay: Delay,
        policy: object = None,
        render_mode: str | None = None,
    ) -> gym.Env:
        """Raise, because environments of gymnax have no Gymnasium form."""
        raise ValueError(
            "environments of gymnax have no Gymnasium form; maze, walk, cartpole, acrobot, gym:ID "
            "and atari:NAME have one: choose one of them, or pass an environment of gymnasium.make"
        )


@cache
def _made(name: str, settings: str) -> Any:
    return import_module("gymnax").make(name, **json.loads(settings))[0]
