"""The report is whole, needs no other file, and says what its numbers mean."""

import base64
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
import soundfile
from eval.app_speech import voice
from eval.test_app_results import ATTACK, COUNTS, EER, WER

from voiceanon.eval.app.curves import ScoreCurves, score_curves
from voiceanon.eval.app.report.figures import draw_error_curves
from voiceanon.eval.app.report.page import make_report, write_report
from voiceanon.eval.app.report.scatter import measured_points
from voiceanon.eval.app.results import Part, Results, measurement_row, write_results
from voiceanon.eval.protocol.condition import Attack, Utility
from voiceanon.eval.protocol.measurement import SpeechCounts

VOID = {"meta", "img", "br", "hr", "link", "input"}
EVIL = "<script>alert('x')</script> & \"quoted\""


class Page(HTMLParser):
    """Checks that elements are closed in their order, and collects what the tests look at."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.addresses, self.words = [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def curves(condition, shift, sex="both"):
    draws = np.random.default_rng(0)
    scores = draws.normal(0, 1, 400).astype(np.float32)
    is_target = np.arange(400) % 8 == 0
    scores[is_target] += shift
    return score_curves(
        scores, is_target, condition=condition, attacker=ATTACK.attacker, sex=sex
    ).to_json()


def emotions(condition, value):
    utility = Utility(name=condition, model="m", training_data="t")
    unchanged = {"system": "none", "level": "none"} if condition == "O" else {}
    uar = replace(
        WER,
        metric="UAR",
        value=value,
        higher_is="more useful",
        condition=utility,
        counts=SpeechCounts(utterances=9, speakers=3),
        **unchanged,
    )
    return uar, replace(uar, metric="recall of sad")


def results(folder, system="vpc2024-b2"):
    original = Attack(name="OO", attacker=ATTACK.attacker, training_data="nothing")
    oo = replace(EER, condition=original, value=0.01, system="none", level="none", interval=None)
    female, male = (replace(EER, sex=sex) for sex in "fm")
    mean = replace(EER, variant="nearest, mean of f and m", value=0.25)
    pairs = []
    for side in ("original", "anonymized"):
        (folder / "clips").mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / "clips" / f"{side}.flac", voice("ann", 0), 16000)
    pairs.append({
        "utterance": EVIL,
        "speaker": "ann",
        "original": "clips/original.flac",
        "anonymized": "clips/anonymized.flac",
    })  # fmt: skip
    privacy = Part(
        measurements=(oo, EER, female, male, mean),
        notes=(EVIL,),
        extras={"curves": [curves("OO", 5), curves("AA-lazy", 1, "f")], "pairs": pairs},
    )
    transcripts = [{"utterance": EVIL, "reference": "ONE", "O": "WON", "A-lazy": "<b>"}]
    content = Part(measurements=(WER,), extras={"transcripts": transcripts})
    confusion = {"condition": "O", "emotions": ["sad", "glad"], "counts": [[2, 1], [0, 3]]}
    emotion = Part(
        measurements=(*emotions("O", 0.7), *emotions("A-lazy", 0.4)),
        extras={"confusions": [confusion]},
    )
    made = Results(system=system, level="utterance").with_part("privacy", privacy)
    return made.with_part("content", content).with_part("emotion", emotion)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def source(folder):
    return make_report([(folder, results(folder))])


def test_it_is_well_formed_and_escaped(source):
    page = Page(source)
    assert "script" not in page.tags
    assert page.text.count("alert('x')") >= 2
    assert source.startswith("<!DOCTYPE html>")
    assert 'lang="en"' in source


def test_it_needs_no_other_file(source):
    assert "http" not in source
    assert "url(" not in source
    page = Page(source)
    assert len(page.addresses) == 6
    assert all(address.startswith("data:") for address in page.addresses)


def test_figures_are_images(source):
    images = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", source)
    assert len(images) == 4
    for image in images:
        root = ElementTree.fromstring(base64.b64decode(image))
        assert root.tag.endswith("svg")
        assert not [e for e in root.iter() if e.tag.endswith("}image") or e.tag.endswith("}script")]
    assert source.count("<img alt=") == 4


def test_recordings_are_inside(source, folder):
    found = re.findall(r"data:audio/flac;base64,([^\"]+)", source)
    assert [base64.b64decode(one) for one in found] == [
        (folder / "clips" / f"{side}.flac").read_bytes() for side in ("original", "anonymized")
    ]
    assert "Keep the file as private as the recordings" in source


def test_no_recordings_no_players(tmp_path):
    made = results(tmp_path)
    shutil.rmtree(tmp_path / "clips")
    source = make_report([(tmp_path, made)])
    Page(source)
    assert "<audio" not in source
    assert "as private as the recordings" not in source


def test_every_number_has_every_fact(source, folder):
    text = Page(source).text
    for each in results(folder).measurements:
        for name, fact in measurement_row(each).items():
            assert name in text
            assert " ".join(fact.split()) in text, (each.metric, name)
    assert "25.5 %" in text
    assert "20.0 to 30.0 %" in text
    assert "AA-lazy" in text
    assert COUNTS.describe() in text


def test_it_says_what_a_light_attacker_means(source):
    text = Page(source).text
    assert "every EER here is an upper bound on the privacy" in text
    assert "not the challenge's" in text
    assert "Table 9" in text
    assert "cannot be ranked against each other" in text


def test_parts_that_are_missing_are_left_out(tmp_path):
    made = results(tmp_path)
    for name in ("privacy", "content", "emotion"):
        alone = replace(made, parts={name: made.parts[name]})
        text = Page(make_report([(tmp_path, alone)])).text
        assert ("upper bound" in text) == (name == "privacy")
        assert ("Confusions" in text) == (name == "emotion")
    Page(make_report([(tmp_path, replace(made, parts={}))]))


def test_several_systems(tmp_path):
    many = [(tmp_path / name, results(tmp_path / name, name)) for name in ("vpc2024-b2", "other")]
    page = Page(make_report(many))
    assert "Evaluation of vpc2024-b2, other" in page.text
    assert len([a for a in page.addresses if a.startswith("data:audio")]) == 4


def test_figures_are_the_same_in_every_run_and_change_no_setting():
    before = dict(matplotlib.rcParams)
    made = [ScoreCurves.from_json(curves("OO", 5))]
    assert draw_error_curves(made) == draw_error_curves(made)
    assert dict(matplotlib.rcParams) == before


def test_points_of_the_scatter(tmp_path):
    points = {point.condition: point for point in measured_points(results(tmp_path))}
    assert points["AA-lazy"].eer.value == 0.25
    assert points["AA-lazy"].uar.value == 0.4
    assert points["AA-lazy"].wer is not None
    assert points["OO"].eer.value == 0.01
    assert points["OO"].uar.value == 0.7
    assert points["OO"].wer is None


def test_curves_of_separated_scores_are_drawn():
    scores = np.array([0, 0.1, 0.9, 1], np.float32)
    made = score_curves(scores, scores > 0.5, condition="OO", attacker="a", sex="both")
    assert "<svg" in draw_error_curves([made])


@pytest.mark.slow
def test_a_browser_shows_it(tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs chromium")
    made = results(tmp_path)
    write_results(tmp_path, made)
    write_report(tmp_path / "report.html", [(tmp_path, made)])
    picture = tmp_path / "report.png"
    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--screenshot={picture}",
            "--window-size=1200,6000",
            str(tmp_path / "report.html"),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[:2] == (6000, 1200)
    # Coloured curves: images were drawn, not only text.
    assert (np.ptp(pixels[..., :3], axis=2) > 0.3).sum() > 5000
