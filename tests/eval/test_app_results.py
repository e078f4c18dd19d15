"""What is written is complete, is read back, and says whose it is."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from voiceanon.errors import ConfigError
from voiceanon.eval.app.published import published_name, read_table9
from voiceanon.eval.app.results import (
    Part,
    Results,
    measurement_row,
    open_results,
    read_results,
    write_results,
)
from voiceanon.eval.protocol.condition import Attack, Utility
from voiceanon.eval.protocol.measurement import (
    Interval,
    Measurement,
    SpeechCounts,
    TrialCounts,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "eval"

COUNTS = TrialCounts(
    targets=20,
    nontargets=180,
    enrolment_speakers=10,
    enrolment_utterances=10,
    trial_speakers=10,
    trial_utterances=20,
)
ATTACK = Attack(name="AA-lazy", attacker="a <b>; not the challenge's", training_data="nothing")
EER = Measurement(
    metric="EER",
    variant="nearest",
    value=0.255,
    unit="fraction",
    higher_is="more private",
    condition=ATTACK,
    system="vpc2024-b2",
    level="utterance",
    data="data",
    sex="both",
    counts=COUNTS,
    interval=Interval(low=0.2, high=0.3, method="95 %, bootstrap over speakers, percentiles"),
)
WER = replace(
    EER,
    metric="WER",
    higher_is="less useful",
    condition=Utility(name="A-lazy", model="m", training_data="nothing"),
    counts=SpeechCounts(utterances=30, speakers=10, words=50),
    interval=None,
)


def two_parts():
    results = Results(system="vpc2024-b2", level="utterance")
    results = results.with_part("content", Part(measurements=(WER,), extras={"transcripts": []}))
    return results.with_part("privacy", Part(measurements=(EER,), notes=("weak",)))


def test_what_is_written_is_read_back(tmp_path):
    written = two_parts()
    write_results(tmp_path, written)
    assert read_results(tmp_path) == written
    assert list(written.parts) == ["privacy", "content"]
    assert written.measurements == (EER, WER)
    assert all(part.date.endswith("+00:00") for part in written.parts.values())


def test_the_json_says_everything(tmp_path):
    write_results(tmp_path, two_parts())
    values = json.loads((tmp_path / "results.json").read_text())
    assert (values["format"], values["system"], values["level"]) == (1, "vpc2024-b2", "utterance")
    (eer,) = values["parts"]["privacy"]["measurements"]
    assert eer["condition"] == {
        "kind": "attack",
        "name": "AA-lazy",
        "attacker": "a <b>; not the challenge's",
        "training_data": "nothing",
        "trained_on": "original",
    }
    assert eer["counts"]["nontargets"] == 180
    assert eer["interval"]["low"] == 0.2
    assert values["parts"]["privacy"]["notes"] == ["weak"]


def test_no_cell_of_the_table_is_empty(tmp_path):
    write_results(tmp_path, two_parts())
    with (tmp_path / "measurements.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2
    assert all(cell for row in rows for cell in row.values())
    assert rows[0] == measurement_row(EER)
    assert rows[0]["interval low"] == "0.2"
    assert rows[0]["targets"] == "20"
    assert rows[0]["words"] == "none"
    assert rows[1]["words"] == "50"
    assert rows[1]["interval method"] == "not computed"


def test_a_part_takes_the_place_of_an_earlier_one():
    other = replace(EER, value=0.5)
    again = two_parts().with_part("privacy", Part(measurements=(other,)))
    assert again.measurements == (other, WER)


def test_results_of_another_system_stay(tmp_path):
    write_results(tmp_path, two_parts())
    assert open_results(tmp_path, "vpc2024-b2", "utterance").measurements == (EER, WER)
    with pytest.raises(ConfigError, match=r"holds results of vpc2024-b2, level utterance, not of"):
        open_results(tmp_path, "vpc2024-b5", "utterance")
    with pytest.raises(ConfigError, match="level speaker; take another folder"):
        open_results(tmp_path, "vpc2024-b2", "speaker")
    assert open_results(tmp_path / "new", "x", "speaker").parts == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "not written by voiceanon-eval"),
        ('{"format": 2}', "format 2, this version reads 1"),
        ('{"format": 1, "system": "a"}', "not written by voiceanon-eval"),
    ],
)
def test_files_that_are_not_ours(tmp_path, content, message):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_results(tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        read_results(tmp_path / "nowhere")


def test_the_published_table():
    table = {each.system: each for each in read_table9()}
    assert len(table) == 44
    b2 = table[published_name("vpc2024-b2")]
    assert (b2.kind, b2.eer, b2.wer, b2.uar) == pytest.approx(("baseline", 0.0452, 0.0995, 0.535))
    assert published_name("B2") == published_name("b2") == "B2"
    package = Path(__file__).parents[2] / "src" / "voiceanon" / "eval" / "app" / "table9.csv"
    assert package.read_bytes() == (GOLDEN / "table9.csv").read_bytes()
