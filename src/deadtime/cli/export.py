"""`deadtime export`: write a recorded policy to one file, to run it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from deadtime.cli.option_types import Integer

if TYPE_CHECKING:
    from deadtime.runtime import Policy

SUFFIXES = (".safetensors", ".onnx")


@dataclass(frozen=True)
class Export:
    """Write a recorded policy to one file, to run it elsewhere.

    NAME.safetensors is for `deadtime.runtime.load`, which needs NumPy and no JAX. NAME.onnx is a
    graph for ONNX Runtime, and needs the extra `onnx`. Its inputs are the observation, the
    pending actions and, if the policy uses it, the age of the action that is executed now. Scaling,
    forward model and action bounds are inside the graph.
    """

    record: tyro.conf.Positional[Path]
    """Folder of the record: `deadtime train` prints it."""
    file: tyro.conf.Positional[Path]
    """File to write: its name ends in .safetensors or .onnx."""
    seed: Annotated[
        int | None,
        tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the first with a policy)"),
    ] = None
    """Seed of the run whose policy is written."""
    delay: Integer = None
    """Delay in steps (that of training)."""

    def run(self) -> int:
        """Write the file, and print what it holds."""
        from deadtime.runs import records  # noqa: PLC0415  (help needs none of these)
        from deadtime.runs.result import Result  # noqa: PLC0415

        if self.file.suffix not in SUFFIXES:
            rule = f"a policy is exported to a file {' or '.join(SUFFIXES)}"
            raise ValueError(f"{rule}; got {self.file}: end the name in one of them")
        policy = Result(records.read(self.record, policies=True)).policy(self.seed)
        if self.delay is not None:
            policy = policy.at_delay(self.delay)
        _write(policy, self.file)
        print(f"{self.file}: {policy!r}")
        return 0


def _write(policy: Policy, path: Path) -> None:
    """Write a policy in the format that the file's name asks for."""
    from deadtime._support.files import whole  # noqa: PLC0415
    from deadtime.runtime import save, to_onnx  # noqa: PLC0415

    if path.suffix == ".safetensors":
        save(policy, path)
        return
    content = to_onnx(policy)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        part.write_bytes(content)
