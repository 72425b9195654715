"""Files of arrays that are larger than they state, or in another format."""

import io
import zlib

import numpy as np

from deadtime._support import files
from deadtime.cli.planned import load as load_mdp
from tests.forgery import (
    BIG,
    CONTENTS,
    bounded,
    claims,
    refused,
    zeros,
    zipped,
)


def test_a_member_that_inflates_to_more_than_it_says_takes_no_more():
    part = claims("(8,)")
    content = zipped(part, deflated=zlib_of(part) + zeros(BIG))
    assert bounded(lambda: files.arrays(content))["a"].tolist() == [0.0] * 8


def zlib_of(part):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def test_an_mdp_that_would_not_fit_is_not_inflated(tmp_path, monkeypatch):
    monkeypatch.setattr("deadtime.cli.planned.free_memory", lambda: 2.0**28)
    (tmp_path / "mdp.npz").write_bytes(CONTENTS["a bomb"](None))
    refused(
        lambda: load_mdp(tmp_path / "mdp.npz"),
        "its arrays would take 268,435,584 bytes, and at most 134,217,728 are read",
    )


def test_another_format_of_arrays():
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros(8), (2, 0))
    refused(
        lambda: files.arrays(zipped(file.getvalue())),
        "its arrays are not in the format of numpy.savez",
    )
