"""Extras: the optional packages, and the error that names the command to install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_EXTRAS = {
    "plan": ("numba", "scipy"),
    "learn": ("equinox", "jax", "jaxlib", "jaxtyping", "matplotlib", "optax", "PIL"),
    "atari": ("ale_py",),
    "mujoco": ("mujoco",),
    "gymnax": ("gymnax",),
    "onnx": ("onnx", "onnxruntime"),
    "ray": ("fsspec", "ray"),
    "sb3": ("stable_baselines3", "torch"),
    "torchrl": ("tensordict", "torch", "torchrl"),
}
"""The packages of each extra, as they are imported."""


@contextmanager
def extras_needed(usual: str = "") -> Iterator[None]:
    """Turn the error of a missing optional package into one that says what to install.

    `usual` is the extra that the caller needs as a whole; `learn` contains `plan`, and several
    extras contain `torch`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = next((name for name, packages in _EXTRAS.items() if package in packages), None)
        if extra is None:
            raise
        wider = extra == "plan" and usual
        extra = usual if wider or package in _EXTRAS.get(usual, ()) else extra
        raise ModuleNotFoundError(
            f"this needs the extra `{extra}`; {package} is not installed: "
            f"pip install 'deadtime[{extra}]', or in a clone pip install '.[{extra}]'",
            name=package,
        ) from error
