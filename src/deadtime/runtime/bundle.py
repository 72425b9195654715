"""A policy as one file: its arrays as safetensors, and its manifest as JSON in the header.

Reading a file runs no code of it, and needs neither JAX nor an environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deadtime._support.files import from_json, plain, whole
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.policy import Policy
from deadtime.runtime.table_policy import TablePolicy

_MOST_BYTES = 2**30
_KEY = "deadtime-policy"
"""The name of the manifest among the metadata of the header."""
_SIZE_BYTES = 8
"""The bytes of the number at the start of a file, which is the size of the header."""


def save(policy: Policy, path: str | Path) -> Path:
    """Write a policy to a file, completely or not at all."""
    from safetensors.numpy import save as to_bytes  # noqa: PLC0415  (acting needs none)

    path = Path(path)
    arrays = {name: np.asarray(array, order="C") for name, array in policy.arrays.items()}
    content = to_bytes(arrays, {_KEY: policy.manifest.to_json()})
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        part.write_bytes(content)
    return path


def load(path: str | Path) -> Policy:
    """Return the policy of a file that `save` wrote; raise if it is damaged or no such file."""
    path = Path(path)
    content = plain(path, _MOST_BYTES)
    try:
        manifest = _manifest_of(content)
        policy = policy_of(manifest, _arrays_of(content))
    except ValueError as error:
        raise ValueError(f"{path.name} holds no policy that can be read: {error}") from None
    return policy


def policy_of(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> Policy:
    """Return the policy with this manifest and these arrays, or raise if they do not fit."""
    process = manifest.process
    if process is not None and process.longest != manifest.delay:
        rule = "the delay of a policy is the longest age of its process"
        got = f"{manifest.delay} and {process}, whose longest age is {process.longest}"
        raise ValueError(f"{rule}; got {got}: export the policy again")
    kind = TablePolicy if manifest.states else NetworkPolicy
    return kind(manifest, arrays)


def _manifest_of(content: bytes) -> Manifest:
    """Return the manifest in the header of a file."""
    size = int.from_bytes(content[:_SIZE_BYTES], "little")
    try:
        header = from_json(content[_SIZE_BYTES : _SIZE_BYTES + size])
    except ValueError as error:
        raise ValueError(
            f"a policy's file begins with a header of JSON; {error}: write it with "
            "`deadtime export RUN policy.safetensors`"
        ) from None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ValueError(
            f"the header of a policy's file has the metadata {_KEY!r}; got none: "
            "write it with `deadtime export RUN policy.safetensors`"
        )
    return Manifest.from_json(text)


def _arrays_of(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a file."""
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.numpy import load as from_bytes  # noqa: PLC0415

    try:
        return from_bytes(content)
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"it is not a safetensors file ({error}): export it again") from None
