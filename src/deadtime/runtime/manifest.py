"""The manifest of a policy: what acting needs beyond the arrays, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import chain
from operator import index
from typing import Any

import numpy as np

from deadtime._support.files import from_json
from deadtime._support.names import nearest
from deadtime.delays.convention import check_delay
from deadtime.runtime.frame_layers import FRAMES, MOST_ACTIONS
from deadtime.runtime.views import SEES

ENCODERS = ("numbers", "frames")
"""What a network's observation is: one axis of numbers, or the last frames of a game."""
HEADS = ("values", "dueling", "logits", "bounded")
"""What the outputs of a network mean (see `Manifest`)."""
LOOK_AHEADS = ("fresh", "kept")
"""How an emulator looks ahead for a policy of frames (see `deadtime.envs.atari.AtariEnv`)."""
_WORDS = {"sees": SEES, "encoder": ENCODERS, "head": HEADS}
_COUNTS = ("states", "actions", "capacity", "members", "seed")
_Rule = tuple[bool, str, tuple[str, ...], str]
"""Whether a rule holds, the rule, the fields that it is about, and the remedy."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Manifest:
    """The part of a policy that its arrays do not tell.

    Observations are `states` numbered states for a `TablePolicy`, or arrays of `observation_shape`
    for a `NetworkPolicy`. Actions are `actions` numbered ones, or arrays between `low` and `high`.

    A network's head says how its outputs become an action. "values", "dueling" (advantages and,
    last, a value) and "logits" choose the largest. "bounded" squashes the outputs with tanh and
    scales them to the box from `low` to `high`. Outputs of "logits" and "bounded" beyond those
    of the action, such as a critic's value, are not used.
    """

    agent: str
    sees: str = "state"
    """One of `SEES`."""
    delay: int = 0
    env: str = ""
    """The environment of the training, where it is known."""
    observation_shape: tuple[int, ...] = ()
    states: int = 0
    actions: int = 0
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    encoder: str = "numbers"
    """One of `ENCODERS`."""
    head: str = "values"
    """One of `HEADS`."""
    memory: bool = False
    """Whether the network has an LSTM before its last layer."""
    capacity: int = 0
    """The number of pending actions that the network has inputs for."""
    one_hot_queue: bool = False
    """Whether a network of numbers is shown pending actions as one-hot vectors, as those of frames
    always are."""
    model: str = ""
    """The kind of forward model (see `FORWARD_MODELS`); for frames, the emulator's look-ahead."""
    members: int = 1
    """The number of forward models."""
    seed: int = 0
    """The seed that decides ties in a table."""

    def __post_init__(self) -> None:
        """Raise if no policy can have such a manifest; write lists as tuples."""
        for name in ("agent", "env", "model"):
            value = getattr(self, name)
            _check(name, "text", value, isinstance(value, str))
        for name in ("memory", "one_hot_queue"):
            value = getattr(self, name)
            _check(name, "true or false", value, isinstance(value, bool))
        for name, words in _WORDS.items():
            what = "a policy sees" if name == "sees" else f"the {name} of a policy is"
            if (value := getattr(self, name)) not in words:
                raise ValueError(f"{what} one of {', '.join(words)}; got {value!r}: train it again")
        object.__setattr__(self, "delay", check_delay(self.delay))
        if self.encoder == "frames" and not 1 <= _index(self.actions) <= MOST_ACTIONS:
            rule = f"a game has 1 to {MOST_ACTIONS} actions"
            raise ValueError(f"{rule}; this policy says {self.actions}: train it again")
        for name in _COUNTS:
            object.__setattr__(self, name, _whole(name, getattr(self, name), 0))
        shape = tuple(_whole("observation_shape", n, 1) for n in self._listed("observation_shape"))
        object.__setattr__(self, "observation_shape", shape)
        for name in ("low", "high"):
            numbers = tuple(_number(name, value) for value in self._listed(name))
            object.__setattr__(self, name, numbers)
        self._check_rules()

    @property
    def predicts(self) -> bool:
        """Whether the policy needs a forward model."""
        return self.sees in ("prediction", "law")

    @property
    def queue_width(self) -> int:
        """The number of a network's inputs for one pending action."""
        if self.encoder == "frames":
            return MOST_ACTIONS
        return self.actions if self.one_hot_queue else len(self.low) or 1

    def to_json(self) -> str:
        """Return the manifest as JSON with all its fields."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Return the manifest that `to_json` wrote; raise if the text says anything else."""
        try:
            found = from_json(text.encode() if isinstance(text, str) else text)
        except ValueError as error:
            raise ValueError(f"a manifest is JSON; {error}: export the policy again") from None
        if not isinstance(found, dict) or "agent" not in found:
            rule = "a manifest is a JSON object with an agent"
            raise ValueError(f"{rule}; got {found!r:.50}: export the policy again")
        known = [field.name for field in fields(cls)]
        for name in found:
            if name not in known:
                hint = nearest(name, known)
                fault = f"a manifest has no field {name!r:.50}{hint}"
                raise ValueError(f"{fault}: it has {', '.join(known)}")
        return cls(**found)

    def _check_rules(self) -> None:
        """Raise if the fields do not go together."""
        for holds, rule, names, remedy in chain(self._space_rules(), self._part_rules()):
            if not holds:
                got = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
                raise ValueError(f"{rule}; got {got}: {remedy}, or train it again")

    def _space_rules(self) -> Iterator[_Rule]:
        """Yield the rules for observations and actions."""
        frames = self.encoder == "frames"
        box = bool(self.low or self.high)
        yield (
            bool(self.states) != bool(self.observation_shape),
            "a policy observes numbered states or arrays, one of the two",
            ("states", "observation_shape"),
            "pass one of them",
        )
        yield (
            self.observation_shape == FRAMES if frames else len(self.observation_shape) <= 1,
            f"numbers are observed on one axis, and frames have the shape {FRAMES}",
            ("encoder", "observation_shape"),
            "flatten the observation",
        )
        yield (
            bool(self.actions) != box and box == (self.head == "bounded"),
            'a policy has numbered actions, or those of a box and the head "bounded"',
            ("actions", "low", "high", "head"),
            "pass one of the two",
        )
        ends = [np.array(side, np.float32) for side in (self.low, self.high)]
        yield (
            len(self.low) == len(self.high) and bool(np.less(*ends).all()),
            "a box has a low and a high for each number of an action, low below high",
            ("low", "high"),
            "pass the bounds of the action space",
        )
        yield (
            not box or not (self.states or frames or self.one_hot_queue),
            "the actions of a box are numbers, for networks that observe numbers",
            ("states", "encoder", "one_hot_queue"),
            "leave them out",
        )

    def _part_rules(self) -> Iterator[_Rule]:
        """Yield the rules for the queue, the forward model and the memory."""
        yield (
            self.sees != "queue" or self.capacity >= self.delay or self.states > 0,
            "a network that sees the queue has room for all pending actions",
            ("capacity", "delay"),
            "pass a smaller delay",
        )
        yield (
            self.encoder == "numbers" or not self.predicts or self.model in LOOK_AHEADS,
            f"a policy of frames is shown what the emulator sees ahead, {' or '.join(LOOK_AHEADS)}",
            ("model",),
            "pass one of them",
        )
        yield (
            not (self.memory and self.predicts) or self.members == 1,
            "a policy with a memory has one forward model, since it remembers one prediction",
            ("members",),
            "pass 1",
        )

    def _listed(self, name: str) -> list[Any]:
        value = getattr(self, name)
        _check(name, "a list of numbers", value, isinstance(value, list | tuple))
        return [*value]


def _check(name: str, kind: str, value: Any, good: bool) -> None:
    if not good:
        got = f"{value!r:.50}"
        raise ValueError(f"{name} of a policy is {kind}; got {got}: pass one, or train it again")


def _whole(name: str, value: Any, least: int) -> int:
    number = _index(value)
    _check(name, f"a whole number, {least} to 2^31 - 1", value, least <= number < 2**31)
    return number


def _index(value: Any) -> int:
    try:
        return -1 if isinstance(value, bool) else index(value)
    except TypeError:
        return -1


def _number(name: str, value: Any) -> float:
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    _check(name, "numbers that single precision holds", value, good and abs(value) <= _LARGEST)
    return float(value)
