"""Late observations as late actions: one delay of actions that is equivalent to both delays.

Let observations be w steps late and actions m steps. At step t the agent sees s_{t-w}, and its
action is executed at step t + m. Counted from the state that it sees, the action is m + w steps
late. So both delays together are a delay of actions by m + w steps. This holds from the first
decision with a late observation; the actions before that decision count as warm-up. The same holds
for ages that are drawn once per episode and observed. For other delays it fails: a late action may
be held or overtaken, and an observation is not executed.
"""

from __future__ import annotations

import numpy as np

from deadtime.delays.ages import PerEpisode
from deadtime.delays.messages import Categorical
from deadtime.delays.parse import Delay, DelayLike, as_process


def bridged(delay: DelayLike, observation_delay: DelayLike) -> Delay:
    """Return the delay of actions that is equivalent to both delays; raise if there is none."""
    actions, observations = as_process(delay), as_process(observation_delay)
    if observations.constant == 0:
        return actions if actions.constant is None else actions.constant
    for process in (actions, observations):
        if process.constant is None and not isinstance(process, PerEpisode):
            raise ValueError(
                "late observations are trained as late actions where the two are equivalent: if "
                f"both delays are constant or drawn once per episode; got {process}, which varies "
                f"within an episode: pass a constant such as {process.longest}, or "
                "PerEpisode(process)"
            )
    if actions.constant is not None and observations.constant is not None:
        return actions.constant + observations.constant
    law = np.convolve(actions.age_law, observations.age_law)
    return PerEpisode(Categorical(tuple((law / law.sum()).tolist()), in_order=False))
