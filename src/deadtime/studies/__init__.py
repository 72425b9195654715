"""Studies: experiments as data, with their figures and tables."""

from typing import TYPE_CHECKING

from deadtime._support.lazy import lazy_names

if TYPE_CHECKING:
    from deadtime.studies.registry import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
__getattr__ = lazy_names(__name__, {"EXPERIMENTS": "deadtime.studies.registry"})
"""The experiments are hundreds of specs, which are made on first use."""
