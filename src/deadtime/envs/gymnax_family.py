"""The family `gymnax:NAME`: the environments of gymnax, which the extra `gymnax` installs."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deadtime._support.names import nearest
from deadtime.envs.family import Family

if TYPE_CHECKING:
    import gymnasium as gym

PREFIX = "gymnax:"
_FORM = r"[\w.-]+"
"""The form of a name after the prefix, as records may have it."""


class GymnaxFamily(Family):
    """Environments of gymnax, which run inside the compiled program."""

    name = "gymnax"
    loop = "compiled"
    prefix = PREFIX
    word = "NAME"

    def setting_names(self, name: str) -> list[str] | None:
        """Return None: gymnax checks the settings itself."""
        return None

    def make(self, name: str, settings: dict[str, Any]) -> Any:
        """Make an environment; equal settings give the same object, which compiled programs compare by identity."""
        short = name.removeprefix(PREFIX)
        for setting in {"noise", "perturb"} & set(settings):
            raise ValueError(
                f"{setting}={settings[setting]!r} was asked of {name}, which has no masses to perturb here: "
                "leave it out, or use noisy-cartpole or noisy-acrobot"
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
        """Raise if a record has a name of the wrong form."""
        if not re.fullmatch(_FORM, name.removeprefix(PREFIX)):
            raise ValueError(
                f"an environment's name is a word such as gymnax:CartPole-v1; got {name!r:.100}: train it again"
            )

    def gymnasium_form(
        self, environment: Any, delay: int, policy: Any = None, **making: Any
    ) -> gym.Env:
        """Raise: gymnax's environments have no Gymnasium form here."""
        raise ValueError(
            "gymnax:NAME has no Gymnasium form here; these have: mazes, walk, cartpole, acrobot, gym:ID and atari:NAME: "
            "choose one of them, or in Python pass an environment of gym.make"
        )


@cache
def _made(name: str, settings: str) -> Any:
    return import_module("gymnax").make(name, **json.loads(settings))[0]
