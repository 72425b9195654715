"""Older formats of records."""

import hashlib
import io
import json

import numpy as np

from deadtime.runs import records
from deadtime.runs.record_format import from_bytes, to_bytes
from tests.runs.pack_helpers import content_of


def test_records_of_format_1(originals, tmp_path):
    """Format 1 called the provenance `made`; such records are the same records."""
    record = next(iter(originals.values()))
    folder = records.write(tmp_path / "a", record)
    content = json.loads((folder / "run.json").read_text()) | {"schema": 1}
    content["made"] = content.pop("provenance")
    del content["digest"]
    text = json.dumps(content, indent=1, sort_keys=True)
    content["digest"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "run.json").write_text(json.dumps(content))
    assert content_of(records.read(folder, policies=True)) == content_of(record)

    arrays = dict(np.load(io.BytesIO(to_bytes([record]))))
    sent = json.loads(arrays.pop("json").tobytes()) | {"schema": 1}
    sent["records"][0]["made"] = sent["records"][0].pop("provenance")
    file = io.BytesIO()
    np.savez(file, said=np.frombuffer(json.dumps(sent).encode(), np.uint8), **arrays)
    assert content_of(from_bytes(file.getvalue())[0]) == content_of(record)
