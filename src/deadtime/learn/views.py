"""What an agent is: a view of the delayed environment. One learner serves them all.

A view says what Q is shown at a decision, and which transition it learns from:

| sees         | Q is shown                                              |
|--------------|---------------------------------------------------------|
| "state"      | s_t                                                     |
| "queue"      | s_t and the pending actions                             |
| "prediction" | the forward model's most likely s_{t+m}                 |
| "law"        | the forward model's law of s_{t+m}; Q is averaged over it |

| credits      | the transition learned at step t                        |
|--------------|---------------------------------------------------------|
| "chosen"     | (what was seen, a_t, r_t, what is seen next)            |
| "executed"   | (s_t, a_{t-m}, r_t, s_{t+1}) for t ≥ m: the undelayed one |
| "shifted"    | (s_{t-m}, a_{t-m}, r_t, s_{t-m+1}) for t ≥ m            |

What is learned from the first m steps, which execute the warm-up, is the learner's choice. The tabular forward model learns
from every step: Q is asked only about states that are reached after m steps, but a prediction passes through the earlier ones.
The deep learner stores an episode's steps from `skipped_delays` × m on, for Q and model alike (see `settings.DoubleQ`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SEES = ("state", "queue", "prediction", "law")
CREDITS = ("chosen", "executed", "shifted")


@dataclass(frozen=True)
class View:
    """What Q sees, which transition it learns from, and whether it is solved for offline after a phase of random actions."""

    sees: Literal["state", "queue", "prediction", "law"]
    credits: Literal["chosen", "executed", "shifted"]
    solves_offline: bool = False

    @property
    def predicts(self) -> bool:
        """Whether a forward model is needed."""
        return self.sees in ("prediction", "law")

    @property
    def name(self) -> str:
        """The name of the agent that has this view."""
        return next((name for name, view in VIEWS.items() if view == self), "custom")


VIEWS = {
    "delayed": View("prediction", "executed"),
    "augmented": View("queue", "chosen"),
    "oblivious": View("state", "chosen"),
    "shifted": View("state", "shifted"),
    "distribution": View("law", "executed"),
    "mbs": View("prediction", "executed", solves_offline=True),
}
