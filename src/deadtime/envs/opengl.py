"""The remedy for the errors of MuJoCo when it finds no OpenGL to draw with."""

from __future__ import annotations

from traceback import walk_tb

_REMEDY = (
    "MuJoCo draws with OpenGL; without a display, set MUJOCO_GL=egl (apt install libegl1) or "
    "MUJOCO_GL=osmesa (apt install libosmesa6), and leave it out to train"
)


def opengl_remedy(problem: BaseException) -> str | None:
    """Return what to install or set if an error comes from MuJoCo's code, else None.

    Without OpenGL, MuJoCo raises errors of many types. If MUJOCO_GL is set, importing it raises.
    """
    frames = (frame for frame, _ in walk_tb(problem.__traceback__))
    names = (str(frame.f_globals.get("__name__", "")) for frame in frames)
    return _REMEDY if any("mujoco" in name.split(".") for name in names) else None
