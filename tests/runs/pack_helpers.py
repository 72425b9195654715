"""Helpers of the tests of packs: their content, and archives of any members."""

import io

from deadtime.runs import pack_archive, records
from deadtime.runs.record_format import to_bytes
from deadtime.runs.units import KEPT_POLICY_BYTES, Keep


def small_only(*seeds):
    """Return the rule of studies: keep small policies, of these seeds only."""
    return Keep(seeds, KEPT_POLICY_BYTES)


def content_of(record):
    """Return a record as bytes, to compare two."""
    return to_bytes([record])


def same(root, originals):
    """Check that a folder holds the original records and no others."""
    for name, record in originals.items():
        assert records.exists(root / name)
        assert content_of(records.read(root / name, policies=True)) == content_of(record)
    assert records.names(root) == sorted(originals)


def tree(root):
    """Return the content of all files in a folder, except the drivers' lock."""
    found = {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    return {name: path.read_bytes() for name, path in found.items() if name != ".driver"}


def archive(members):
    """Return a pack of any members, as `pack_archive.write` writes it."""
    file = io.BytesIO()
    pack_archive.write(file, members)
    return file.getvalue()


GOOD = [("a", "run.json", b"{}"), ("b", "run.json", b"{}")]
