"""Requests to a store of objects at a URL, through fsspec: find it, retry, write completely."""

from __future__ import annotations

from collections.abc import Callable
from errno import EROFS
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


BEAT_SECONDS = 5.0
"""The time between two writes of a status or of checkpoints."""
_WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "memory"}
"""Protocols of stores that write an object completely or not at all."""
_TRIES = 8
"""The number of attempts at a request. Pauses double, from half a second to 32 seconds."""


def file_system(url: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415

        return url_to_fs(url)
    except ImportError as error:
        raise ImportError(
            f"a URL needs fsspec and its package for such URLs; got {url} ({error}): "
            "pip install fsspec s3fs (for s3://)"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"a URL is one that fsspec knows; got {url!r} ({error}): pass, for example, s3://BUCKET/FOLDER"
        ) from None


def patiently(action: Callable[..., Any], *arguments: object) -> Any:
    """Call `action`, and retry with growing pauses if it fails."""
    for left in range(_TRIES - 1, -1, -1):
        try:
            return action(*arguments)
        except FileNotFoundError:
            raise
        except Exception as error:
            if (
                not left
                or isinstance(error, PermissionError)
                or getattr(error, "errno", None) == EROFS
            ):
                raise OSError(
                    f"the store can't be reached ({type(error).__name__}: {error})"
                ) from error
            sleep(2.0 ** (_TRIES - left - 2))


def write(fs: AbstractFileSystem, path: str, content: bytes | Path) -> None:
    """Write an object completely or not at all; file systems need a temporary name for that."""
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}
    part = path if protocols & _WHOLE else f"{path}.part-{uuid4().hex[:8]}"
    patiently(fs.makedirs, path.rpartition("/")[0], True)
    if isinstance(content, Path):
        patiently(fs.put_file, str(content), part)
    else:
        patiently(fs.pipe_file, part, content)
    if part != path:
        patiently(fs.mv, part, path)
