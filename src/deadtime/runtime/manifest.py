"""The manifest of a policy: the plain data that it needs beside its arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from deadtime._support.files import from_json
from deadtime._support.names import nearest
from deadtime.delays import DelayProcess
from deadtime.delays import from_json as process_from_json
from deadtime.delays.convention import check_delay
from deadtime.delays.waits import OBSERVED, Observed
from deadtime.runtime.frame_layers import FRAMES, MOST_ACTIONS
from deadtime.runtime.views import SEES

ENCODERS = ("numbers", "frames")
"""The kinds of observations of a network: numbers on one axis, or the last frames of a game."""
HEADS = ("values", "dueling", "logits", "bounded")
"""The meanings of a network's outputs (see `Manifest`)."""
LOOK_AHEADS = ("fresh", "kept")
"""The kinds of look-ahead for a policy on frames (see `deadtime.envs.atari.AtariEnv`)."""
_WORDS = {"sees": SEES, "encoder": ENCODERS, "head": HEADS, "observed": OBSERVED}
_COUNTS = ("states", "actions", "capacity", "age_inputs", "members", "seed")
_Rule = tuple[bool, str, tuple[str, ...], str]
"""Whether a rule holds, the rule, the names of its fields, and the remedy."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Manifest:
    """The plain data of a policy: its agent, delay, spaces and the kind of its network.

    A `TablePolicy` observes `states` numbered states, a `NetworkPolicy` arrays of shape
    `observation_shape`. There are `actions` numbered actions, or actions are arrays between `low`
    and `high`.

    The head defines how the outputs of a network become an action. "values", "dueling" (advantages
    and, last, a value) and "logits" choose the largest output. "bounded" squashes the outputs with
    tanh and scales them to the box from `low` to `high`. With "logits" and "bounded", further
    outputs, such as a critic's value, are not used.
    """

    agent: str
    sees: str = "state"
    """One of `SEES`."""
    delay: int = 0
    env: str = ""
    """The environment of the training, if known."""
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
    """The number of pending actions for which the network has inputs."""
    age_inputs: int = 0
    """The number of inputs for the age that the agent knows, as a one-hot vector: none, 0, …, the
    delay. 0 if the network sees no ages."""
    one_hot_queue: bool = False
    """Whether a network on numbers sees pending actions as one-hot vectors; on frames it always
    does."""
    model: str = ""
    """The kind of forward model (see `FORWARD_MODELS`), or of look-ahead for frames."""
    members: int = 1
    """The number of forward models."""
    seed: int = 0
    """The seed for drawing among equally good actions of a table."""
    process: DelayProcess | None = None
    """The process of the ages, of which `delay` is the longest; None for a constant delay."""
    observed: Observed = "now"
    """When a policy that uses ages learns the age of a step."""

    def __post_init__(self) -> None:
        """Raise if a field is not valid; convert lists to tuples."""
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
        if isinstance(self.process, Mapping):
            object.__setattr__(self, "process", process_from_json(self.process))
        good = self.process is None or isinstance(self.process, DelayProcess)
        _check("process", "a delay process", self.process, good)
        if self.encoder == "frames" and not 1 <= _index(self.actions) <= MOST_ACTIONS:
            rule = f"a game has 1 to {MOST_ACTIONS} actions"
            raise ValueError(f"{rule}; got {self.actions}: train it again")
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
        process = self.process and self.process.to_json()
        return json.dumps(asdict(replace(self, process=None)) | {"process": process})

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Return a manifest from the text that `to_json` wrote; raise if it is not valid."""
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
        """Raise if the fields contradict each other."""
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
            "a policy observes either numbered states or arrays",
            ("states", "observation_shape"),
            "pass one of them",
        )
        yield (
            self.observation_shape == FRAMES if frames else len(self.observation_shape) <= 1,
            f"observed numbers have one axis, and frames have the shape {FRAMES}",
            ("encoder", "observation_shape"),
            "flatten the observation",
        )
        yield (
            bool(self.actions) != box and box == (self.head == "bounded"),
            'a policy has either numbered actions, or a box of actions and the head "bounded"',
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
            "a box of actions needs a network that observes numbers",
            ("states", "encoder", "one_hot_queue"),
            "leave them out",
        )

    def _part_rules(self) -> Iterator[_Rule]:
        """Yield the rules for the queue, the forward model and the memory."""
        yield (
            self.sees != "queue" or self.capacity >= self.delay or self.states > 0,
            "a network that sees the queue has inputs for all pending actions",
            ("capacity", "delay"),
            "pass a smaller delay",
        )
        sees_numbers = self.encoder == "numbers" and not self.states
        yield (
            not self.age_inputs or (sees_numbers and self.sees == "queue"),
            "a network on numbers that sees the queue may have inputs for ages",
            ("age_inputs", "sees", "encoder"),
            "leave age_inputs out",
        )
        yield (
            not self.age_inputs or (self.age_inputs == self.delay + 2 and self.observed != "never"),
            "a network that sees ages has an input for no age and for each age from 0 to the delay",
            ("age_inputs", "delay", "observed"),
            "pass the delay of the training",
        )
        yield (
            self.encoder == "numbers" or not self.predicts or self.model in LOOK_AHEADS,
            f"a policy on frames predicts with the look-ahead {' or '.join(LOOK_AHEADS)}",
            ("model",),
            "pass one of them",
        )
        yield (
            not (self.memory and self.predicts) or self.members == 1,
            "a policy with a memory has one forward model, because it remembers one prediction",
            ("members",),
            "pass 1",
        )

    def _listed(self, name: str) -> list[Any]:
        """Return a field as a list, or raise if it is not a list."""
        value = getattr(self, name)
        _check(name, "a list of numbers", value, isinstance(value, list | tuple))
        return [*value]


def _check(name: str, kind: str, value: object, good: bool) -> None:
    """Raise unless a field is `good`."""
    if not good:
        got = f"{value!r:.50}"
        raise ValueError(f"{name} of a policy is {kind}; got {got}: pass one, or train it again")


def _whole(name: str, value: SupportsIndex, least: int) -> int:
    number = _index(value)
    _check(name, f"a whole number, {least} to 2^31 - 1", value, least <= number < 2**31)
    return number


def _index(value: SupportsIndex) -> int:
    try:
        return -1 if isinstance(value, bool) else index(value)
    except TypeError:
        return -1


def _number(name: str, value: float) -> float:
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    _check(name, "numbers that single precision holds", value, good and abs(value) <= _LARGEST)
    return float(value)
