"""Policies for Stable-Baselines3 that decide from (s, queue) and value states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BaseModel, ContinuousCritic
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from stable_baselines3.sac.policies import Actor as SACActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import Actor as TD3Actor
from stable_baselines3.td3.policies import TD3Policy

from deadtime.integrations.sb3.replay import Seen

if TYPE_CHECKING:
    from stable_baselines3.common.type_aliases import PyTorchObs


class _DecidesFromSeen(BaseModel):
    """A network that reads the (s, queue) of a batch of rows."""

    def extract_features(
        self, obs: PyTorchObs | Seen, features_extractor: BaseFeaturesExtractor
    ) -> torch.Tensor:
        shown = obs.seen if isinstance(obs, Seen) else obs
        return super().extract_features(shown, features_extractor)


class _ValuesStates(BaseModel):
    """A network that reads the states of a batch of rows."""

    def extract_features(
        self, obs: PyTorchObs | Seen, features_extractor: BaseFeaturesExtractor
    ) -> torch.Tensor:
        shown = obs.state if isinstance(obs, Seen) else obs
        return super().extract_features(shown, features_extractor)


class _StateCritic(_ValuesStates, ContinuousCritic):
    """A critic over states and actions."""


class _SACActor(_DecidesFromSeen, SACActor):
    """SAC's actor; where a row's action is given, it returns that one, and learns nothing.

    A given next action has no entropy term in the target.
    """

    def action_log_prob(self, obs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        action, log_prob = super().action_log_prob(obs)
        if not isinstance(obs, Seen) or obs.fixed is None:
            return action, log_prob
        given = torch.zeros_like(log_prob) if obs.is_next else log_prob.detach()
        return (
            torch.where(obs.fixed, obs.action, action),
            torch.where(obs.fixed.reshape(log_prob.shape), given, log_prob),
        )


class _TD3Actor(_DecidesFromSeen, TD3Actor):
    """TD3's actor; where a row's action is given, it returns that one."""

    def forward(self, obs: Any) -> torch.Tensor:
        action = super().forward(obs)
        if not isinstance(obs, Seen) or obs.fixed is None:
            return action
        return torch.where(obs.fixed, obs.action, action)


class _WithStates:
    """Mixin of policies that know how many of an observation's first numbers are the state."""

    def __init__(self, observation_space: spaces.Box, *args: Any, state_size: int, **kwargs: Any):
        self.state_size = state_size
        self.state_space = spaces.Box(
            observation_space.low[:state_size],
            observation_space.high[:state_size],
            dtype=observation_space.dtype,  # type: ignore[arg-type]
        )
        super().__init__(observation_space, *args, **kwargs)  # type: ignore[call-arg]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        parameters = super()._get_constructor_parameters()  # type: ignore[misc]
        return {**parameters, "state_size": self.state_size}

    def _on_states(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a network's arguments with states as its observations."""
        extractor = self.features_extractor_class(  # type: ignore[attr-defined]
            self.state_space,
            **self.features_extractor_kwargs,  # type: ignore[attr-defined]
        )
        return {
            **arguments,
            "observation_space": self.state_space,
            "features_extractor": extractor,
            "features_dim": extractor.features_dim,
        }


def _check_not_shared(features_extractor: BaseFeaturesExtractor | None) -> None:
    if features_extractor is not None:
        raise ValueError(
            "the actor reads (s, queue) and the critic reads states, so they share no features; "
            "got share_features_extractor=True: pass False"
        )


class ProjectedSACPolicy(_WithStates, SACPolicy):
    """SAC's policy, with an actor of (s, queue) and a critic of states."""

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> SACActor:
        """Return the actor."""
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return _SACActor(**arguments).to(self.device)

    def make_critic(
        self, features_extractor: BaseFeaturesExtractor | None = None
    ) -> ContinuousCritic:
        """Return a critic."""
        _check_not_shared(features_extractor)
        return _StateCritic(**self._on_states(self.critic_kwargs)).to(self.device)


class ProjectedTD3Policy(_WithStates, TD3Policy):
    """TD3's policy, with an actor of (s, queue) and a critic of states."""

    def make_actor(self, features_extractor: BaseFeaturesExtractor | None = None) -> TD3Actor:
        """Return the actor."""
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return _TD3Actor(**arguments).to(self.device)

    def make_critic(
        self, features_extractor: BaseFeaturesExtractor | None = None
    ) -> ContinuousCritic:
        """Return a critic."""
        _check_not_shared(features_extractor)
        return _StateCritic(**self._on_states(self.critic_kwargs)).to(self.device)


class ProjectedQNetwork(_ValuesStates, QNetwork):
    """Q over states, and F over (s, queue), which is fitted to Q in hindsight.

    Actions are chosen by F. At delay 0 both see the same, and F is Q.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        """Start without F, which is Q then."""
        super().__init__(*args, **kwargs)
        self.projection: QNetwork | None = None

    def projected(self, seen: torch.Tensor) -> torch.Tensor:
        """Return F: the expected values of the actions when they are executed."""
        values: torch.Tensor = self(seen) if self.projection is None else self.projection(seen)
        return values

    def _predict(self, observation: torch.Tensor, deterministic: bool = True) -> torch.Tensor:
        return self.projected(observation).argmax(dim=1).reshape(-1)


class ProjectedDQNPolicy(_WithStates, DQNPolicy):
    """DQN's policy, with values of states and a projection of them to (s, queue)."""

    def make_q_net(self) -> ProjectedQNetwork:
        """Return Q, and F as a part of it."""
        network = ProjectedQNetwork(**self._on_states(self.net_args))
        if self.state_size < self.observation_space.shape[0]:
            arguments = self._update_features_extractor(self.net_args, features_extractor=None)
            network.projection = QNetwork(**arguments)
        return network.to(self.device)
