"""The paper's numbers, claims, experiments and report."""

from typing import TYPE_CHECKING

from deadtime._support.lazy import lazy_names

if TYPE_CHECKING:
    from deadtime.studies.paper.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
__getattr__ = lazy_names(__name__, {"EXPERIMENTS": "deadtime.studies.paper.experiments"})
"""The experiments are hundreds of specs, which are made on first use."""
