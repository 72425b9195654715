"""Tables of settings, as `deadtime train` prints them."""

from deadtime.cli.output import settings_table
from deadtime.delays import Uniform


def test_a_delay_that_varies_is_shown_as_its_text():
    table = settings_table({"delay": Uniform(3, 5).to_json(), "batch_size": 64})
    assert [*table.columns[0].cells] == ["delay", "batch size"]
    assert [*table.columns[1].cells] == ["uniform:3-5", "64"]
