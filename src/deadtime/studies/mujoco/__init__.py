"""Our own study of continuous control: SAC under every view, on MuJoCo's robots."""

from deadtime.studies.mujoco.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
