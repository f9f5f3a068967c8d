"""Sounds: pieces of time, and of frequency; what is said in them."""

from __future__ import annotations

import io
import wave
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

import whence
from tests import small
from tests.models import hearers
from whence.cli import app
from whence.errors import InputError, InputTooLongError, MissingExtraError, ModelError, OptionError
from whence.evaluation.cases import cases_of
from whence.models.listening import heard, opened


def tone(seconds: float = 0.2, rate: int = 16000, pitch: float = 440, seed: int = 0) -> np.ndarray:
    t = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(seed).normal(size=len(t))
    return (0.5 * np.sin(2 * np.pi * pitch * t) + 0.05 * noise).astype(np.float32)


def wav(samples: np.ndarray, rate: int = 16000, width: int = 2, channels: int = 1) -> bytes:
    held = io.BytesIO()
    scaled = np.round(samples * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    raw = (scaled + 128).astype(np.uint8).tobytes() if width == 1 else b"".join(
        int(s).to_bytes(width, "little", signed=True) for s in scaled
    )  # fmt: skip
    with wave.open(held, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw)
    return held.getvalue()


@pytest.fixture(scope="module")
def listener():
    return hearers.listener()


@pytest.fixture(scope="module")
def watcher():
    return hearers.watcher()


@pytest.fixture(scope="module")
def speller():
    return hearers.speller()


@pytest.fixture(scope="module")
def writer():
    return hearers.writer()


@pytest.mark.parametrize("method", ["lrp", "gi", "attn_lrp", "occlusion", "integrated_gradients"])
def test_a_wave_in_pieces_of_time(listener, method):
    module, extractor = listener
    propagates = method in ("lrp", "gi", "attn_lrp")
    exp = whence.explain(listener, tone(), method, target=1, **({"receipt": "full"} if propagates else {}))
    with torch.no_grad():
        by_hand = module(**extractor(tone(), sampling_rate=16000, return_tensors="pt")).logits[0, 1]
    assert exp.target_score == pytest.approx(float(by_hand), abs=1e-4)
    frames = int(module._get_feat_extract_output_lengths(torch.tensor(3200)))
    assert exp.scores.shape == (frames,)
    assert exp.times[-1] == pytest.approx(0.2)
    assert exp.tokens[0] == "0.0000–0.0013 s"
    assert exp.scores.any()
    if propagates:
        assert exp.conservation.error == pytest.approx(0, abs=1e-4)


def test_relevance_lands_where_the_sound_was(listener):
    """Samples beyond what a frame hears have none of its relevance: the sum over pieces is the sum over samples."""
    model = whence.load(listener)
    (example,), _ = model.encode(tone())
    relevance = torch.zeros(3200)
    relevance[1600:1620] = 1.0
    found = model.by_feature(example.parts[0], relevance)
    assert float(found.sum()) == pytest.approx(20)
    begin = int(np.flatnonzero(found.numpy())[0]) * example.parts[0].seconds
    assert begin == pytest.approx(0.1, abs=0.003)


@pytest.mark.parametrize("method", ["lrp", "gi", "occlusion"])
def test_a_spectrum_in_pieces_of_time_and_frequency(watcher, method):
    module, extractor = watcher
    exp = whence.explain(watcher, tone(0.5), method, target=2)
    encoded = extractor(tone(0.5), sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        assert exp.target_score == pytest.approx(float(module(**encoded).logits[0, 2]), abs=1e-4)
    assert exp.scores.shape == (8, 6)  # 60 columns of 10 ms
    assert exp.times.tolist() == pytest.approx(np.arange(7) * 0.1)
    assert exp.feature(0) == "0.00–0.10 s, band 8"
    told = whence.explain(module, dict(encoded), method, target=2)
    np.testing.assert_allclose(told.scores, exp.scores, atol=1e-5)


def test_frequencies_stand_from_high_to_low(watcher):
    """What the last columns of (time, frequency) hold is at the top."""
    model = whence.load(watcher)
    (example,), _ = model.encode(tone(0.5))
    value = torch.zeros(60, 32)
    value[:10, -4:] = 1.0  # early, high
    found = model.by_feature(example.parts[0], value).reshape(8, 6)
    assert float(found[0, 0]) == 40
    assert float(found.sum()) == 40
    keep = np.ones(48, dtype=bool)
    keep[0] = False
    silent = model.masked(example, keep).inputs["input_values"]
    changed = silent != example.inputs["input_values"]
    assert changed[:10, -4:].any()
    assert not changed[10:].any()
    assert not changed[:, :-4].any()


def test_what_is_spelled(speller):
    module, processor = speller
    sound = tone(0.3, seed=4)
    exp = whence.explain(speller, sound, receipt="full")
    encoded = processor(sound, sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        logits = module(**encoded).logits[0]
    best = logits.argmax(-1)
    margin = float(logits[best != 0].topk(2).values.diff(dim=-1).neg().sum())
    assert exp.target_score == pytest.approx(margin, rel=1e-4)
    says = processor.tokenizer.decode(best)
    for special in ("<unk>", "<s>", "</s>"):
        says = says.replace(special, "")
    assert exp.target.split() == says.split()
    assert len(says.split()) > 1
    assert exp.prediction.label == exp.target
    assert exp.conservation.error == pytest.approx(0, abs=1e-3)
    word = exp.target.split()[1]
    one = whence.explain(speller, sound, target=word)
    assert one.target == word
    assert 0 < one.target_score < exp.target_score
    with pytest.raises(InputError, match="does not hear 'zebra'"):
        whence.explain(speller, sound, target="zebra")


@pytest.mark.parametrize("how", [{"continuation": "good film"}, {"generate": 5}])
def test_what_is_written(writer, how):
    module, processor = writer
    exp = whence.explain(writer, tone(0.5), receipt="full", target=whence.span(), **how)
    encoded = processor.feature_extractor(tone(0.5), sampling_rate=16000, return_tensors="pt")
    before = processor.tokenizer.prefix_tokens
    assert len(before) == 2
    if "continuation" in how:
        ids = processor.tokenizer("good film", add_special_tokens=False)["input_ids"]
    else:
        ids = []
        for _ in range(5):
            with torch.no_grad():
                begun = torch.tensor([[*before, *ids]])
                ids.append(int(module(**encoded, decoder_input_ids=begun).logits[0, -1].argmax()))
    with torch.no_grad():
        rows = module(**encoded, decoder_input_ids=torch.tensor([[*before, *ids[:-1]]])).logits[0, len(before) - 1 :]
    score = sum(float(row[i] - torch.cat([row[:i], row[i + 1 :]]).max()) for row, i in zip(rows, ids, strict=True))
    assert exp.target_score == pytest.approx(score, abs=1e-3)
    assert [(p.source, p.kind) for p in exp.parts] == [("input_features", "frame"), ("decoder_input_ids", "token")]
    assert exp.part("input_features").shape == (8, 10)
    assert exp.part("input_features").any()
    assert exp.conservation.error == pytest.approx(0, abs=1e-3)
    assert whence.explain(writer, tone(0.5), "occlusion", target=whence.span(), **how).scores.any()


@pytest.fixture(scope="module")
def clap():
    return hearers.clap()


@pytest.mark.parametrize("method", ["lrp", "occlusion"])
def test_a_sound_is_matched_with_labels(clap, method):
    module, processor = clap
    sound = tone(1.0)
    exp = whence.explain(clap, {"audio": sound, "labels": ["good", "a bad film"]}, method, target="good")
    assert whence.load(clap).task == "zero-shot-audio-classification"
    texts = processor.tokenizer(["good", "a bad film"], padding=True, return_tensors="pt")
    heard = processor.feature_extractor(sound, sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        by_hand = module(input_ids=texts["input_ids"], attention_mask=texts["attention_mask"], **heard)
    assert exp.target_score == pytest.approx(float(by_hand.logits_per_audio[0, 0]), rel=1e-3)
    assert exp.part("input_features").any()
    assert exp.part("input_ids").any()


def test_a_list_is_its_members(listener, watcher, speller, writer):
    sounds = [tone(0.2), tone(0.25, seed=1), tone(0.2, seed=2)]
    for model, options in (
        (listener, {}),
        (watcher, {}),
        (speller, {}),
        (writer, {"continuation": "good", "target": whence.span()}),
    ):
        together = whence.explain(model, sounds, receipt="full", **options)
        for sound, found in zip(sounds, together, strict=True):
            alone = whence.explain(model, sound, **options)
            assert found.target == alone.target
            np.testing.assert_allclose(found.scores, alone.scores, atol=1e-4 * np.abs(alone.scores).max())
            assert found.conservation.error == pytest.approx(0, abs=1e-3)


def test_every_way_to_hold_a_sound(listener, tmp_path):
    sound = tone()
    path = tmp_path / "a.wav"
    path.write_bytes(wav(sound))
    wanted = whence.explain(listener, sound, target=0).scores
    held = [
        path, str(path), path.read_bytes(), (sound, 16000), (16000, sound), torch.from_numpy(sound), sound.tolist(),
        {"array": sound, "sampling_rate": 16000}, {"path": str(path)}, np.stack([sound, sound]),
        np.round(sound * 32767).astype(np.int16), np.round(sound * 32767).astype(int).tolist(),
    ]  # fmt: skip
    for item in held:
        found = whence.explain(listener, item, target=0).scores
        np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max(), err_msg=str(type(item)))
    assert len(whence.explain(listener, [str(path), str(path)], target=0)) == 2


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_of_every_width(width):
    sound = tone(0.01)
    found = heard(wav(sound, width=width), 16000)
    np.testing.assert_allclose(found, sound, atol=2.0 ** (2 - 8 * width) + 1e-6)


def test_another_rate_is_the_same_tone():
    """A second of 440 Hz stays 440 Hz, and as long."""
    slow = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000).astype(np.float32)
    fast = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000).astype(np.float32)
    np.testing.assert_allclose(heard((slow, 8000), 16000), fast, atol=1e-4)
    np.testing.assert_allclose(heard((fast, 16000), 8000), slow, atol=1e-4)


@pytest.mark.parametrize(
    ("own", "wanted"), [(44100, 16000), (22050, 16000), (44100, 48000), (11025, 8000), (655350, 16000)]
)
def test_a_tone_is_as_high_at_any_rate(own, wanted):
    for seconds in (0.3, 1.0):
        here, there = (np.arange(round(seconds * rate)) / rate for rate in (own, wanted))
        shape = lambda time: np.sin(np.pi * time / seconds) ** 2 * np.sin(2 * np.pi * 3000 * time)
        found = heard((shape(here).astype(np.float32), own), wanted)
        assert len(found) == len(there)
        np.testing.assert_allclose(found, shape(there), atol=1e-4)


@pytest.mark.parametrize("count", [7919, 7920])
def test_lengths_without_small_factors(count):
    """7919 is a prime: silence behind the sound takes its place, and the sound is where it was."""
    seconds = np.arange(count) / 8000
    wave_ = (np.sin(2 * np.pi * 440 * seconds) * np.sin(np.pi * np.arange(count) / count)).astype(np.float32)
    found = heard((wave_, 8000), 16000)
    assert len(found) == 2 * count
    np.testing.assert_allclose(found[::2], wave_, atol=1e-3)


def test_channels_are_those_that_the_file_says():
    """Also where there are more of them than samples."""
    held = wav(np.repeat(np.linspace(-0.5, 0.5, 4), 9), channels=9)
    found = heard(held, 16000)
    np.testing.assert_allclose(found, np.linspace(-0.5, 0.5, 4), atol=1e-3)


def test_other_files_are_read_by_soundfile(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(), 16000)
    np.testing.assert_allclose(heard(path, 16000), tone(), atol=1e-4)
    (tmp_path / "b.mp3").write_bytes(b"no sound at all")
    with pytest.raises(InputError, match="can't be read as a sound"):
        heard(tmp_path / "b.mp3", 16000)


def test_what_a_model_does_not_hear_is_not_left_out_in_silence(watcher, writer, clap):
    for model, options in ((watcher, {}), (writer, {"continuation": "good", "target": whence.span()})):
        with pytest.raises(InputTooLongError, match=r"2.0 s long, and the model hears .* truncate=True"):
            whence.explain(model, tone(2.0), **options)
        exp = whence.explain(model, tone(2.0), truncate=True, **options)
        assert exp.times[-1] <= 1.05
    long = {"audio": tone(3.0), "labels": ["good", "bad"]}
    with pytest.raises(InputTooLongError):
        whence.explain(clap, long)
    scores = {whence.explain(clap, long, truncate=True, target=0).target_score for _ in range(3)}
    assert len(scores) == 1


def test_the_axis_of_time_is_found_where_sizes_are_alike():
    """Two frames in one: 80 frames of 160 numbers, where 80 is a number of frequencies as well."""
    torch.manual_seed(0)
    config = transformers.Wav2Vec2BertConfig(
        **hearers.SIZE, feature_projection_input_dim=160, num_labels=2, classifier_proj_size=8,
        conv_depthwise_kernel_size=3, output_hidden_size=32, vocab_size=20,
    )  # fmt: skip
    module = small.randomised(transformers.Wav2Vec2BertForSequenceClassification(config))
    exp = whence.explain((module, transformers.SeamlessM4TFeatureExtractor()), tone(1.61), target=0)
    assert exp.scores.shape == (8, 16)
    assert exp.times[-1] == pytest.approx(1.6, abs=0.03)


@pytest.mark.parametrize("form", ["WAV", "FLAC"])
def test_a_file_is_measured_before_it_is_unpacked(form):
    held = io.BytesIO()
    pytest.importorskip("soundfile").write(held, np.zeros((16000, 2), np.int16), 8000, format=form)
    samples, rate = opened(held.getvalue(), seconds=2, samples=32000)
    assert (samples.shape, rate) == ((16000,), 8000)
    with pytest.raises(InputTooLongError, match=r"2\.0 s long, and the limit is 1\.9 s"):
        opened(held.getvalue(), seconds=1.9)
    with pytest.raises(InputTooLongError, match="32,000 samples, and the limit is 31,999"):
        opened(held.getvalue(), samples=31999)
    assert opened(held.getvalue(), fastest=8000)[1] == 8000
    with pytest.raises(InputTooLongError, match="8,000 samples a second, and the limit is 7,999"):
        opened(held.getvalue(), fastest=7999)


def test_an_empty_file_is_no_sound():
    for channels in (1, 2):
        with pytest.raises(InputError, match="no samples"):
            heard(wav(np.zeros(0), channels=channels), 16000)


def test_without_soundfile_it_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    (tmp_path / "b.mp3").write_bytes(b"no sound at all")
    with pytest.raises(MissingExtraError, match=r"pip install 'whence-xai\[sound\]'"):
        heard(tmp_path / "b.mp3", 16000)


def test_pipelines_and_folders(listener, speller, writer, tmp_path):
    module, extractor = listener
    pipe = transformers.pipeline("audio-classification", model=module, feature_extractor=extractor)
    assert whence.explain(pipe, tone()).target == pipe(tone())[0]["label"]
    for (module, companion), task in ((listener, "audio-classification"), (speller, "ctc")):
        module.save_pretrained(tmp_path / task)
        companion.save_pretrained(tmp_path / task)
        assert whence.load(tmp_path / task).task == task
    assert whence.load(writer).task == "automatic-speech-recognition"
    assert "16,000 samples a second" in repr(whence.load(listener))


def test_it_can_be_saved_and_seen(listener, watcher, writer, tmp_path):
    for n, (model, options) in enumerate(
        ((listener, {}), (watcher, {}), (writer, {"continuation": "good", "target": whence.span()}))
    ):
        exp = whence.explain(model, tone(0.4), **options)
        for suffix in ("json", "npz"):
            again = whence.Explanation.load(exp.save(tmp_path / f"{n}.{suffix}"))
            np.testing.assert_array_equal(again.scores, exp.scores)
            assert again.times.tolist() == exp.times.tolist()
        for suffix in ("html", "svg", "txt", "tex"):
            assert exp.save(tmp_path / f"{n}.{suffix}").stat().st_size > 100
        assert str(exp)


@pytest.mark.parametrize("rate", [8000, np.int64(8000), 8000.0])
def test_a_rate_is_no_label(listener, rate):
    """Wherever a rate may stand beside samples in the rows of a data set, it is heard with them."""
    model = whence.load(listener)
    sounds = [tone(0.2, 8000), tone(0.1, 8000, seed=1)]
    wanted = [model.encode((s, 8000))[0][0].inputs["input_values"] for s in sounds]
    alone = {"pairs": [(s, rate) for s in sounds], "rate first": [(8000, s) for s in sounds]}
    labelled = {
        "pairs": [((s, rate), 1) for s in sounds],
        "in a row": [(s, rate, 1) for s in sounds],
        "columns": [{"array": s, "sampling_rate": rate, "label": 1} for s in sounds],
        "a column": [{"audio": {"array": s, "sampling_rate": rate}, "label": 1} for s in sounds],
    }
    for label, forms in ((None, alone), (1, labelled)):
        for given in forms.values():
            cases = cases_of(model, given, limit=None, seed=0, truncate=False)
            assert {case.label for case in cases} == {label}
            for case, samples in zip(cases, wanted, strict=True):
                torch.testing.assert_close(case.example.inputs["input_values"], samples)
    (case,) = cases_of(model, [(tone(), 2)], limit=None, seed=0, truncate=False)
    assert case.label == 2
    table = whence.evaluate(model, alone["pairs"], ["gi"], ["auac"])
    assert np.isfinite(table.value("gi", "auac"))


def test_on_paper_the_strongest_pieces_are_enough(listener, watcher, tmp_path):
    """A sound has hundreds: twelve are named, with their seconds, and the rest is one number."""
    for held, seconds in ((listener, 0.4), (watcher, 0.3)):
        exp = whence.explain(held, tone(seconds))
        signs = np.resize([1, -1], len(exp)).reshape(exp.scores.shape)
        exp = replace(exp, scores=np.abs(exp.scores) * signs)
        pieces = [line.split("\t") for line in str(exp).splitlines() if "\t" in line]
        assert len(pieces) == 13
        assert pieces[-1][1] == f"({len(exp) - 12} other pieces)"
        assert sum(float(score) for score, _ in pieces) == pytest.approx(float(exp.scores.sum()), abs=1e-3)
        strongest = {exp.feature(int(i)) for i in np.argsort(-np.abs(exp.scores.reshape(-1)))[:12]}
        assert {name for _, name in pieces[:-1]} == strongest
        assert all(" s" in name for name in strongest)
    assert "other pieces" not in str(whence.explain(listener, np.ones(200, np.float32)))
    (tmp_path / "call.wav").write_bytes(wav(tone(1.0)))
    said = CliRunner().invoke(app, ["explain", str(tmp_path / "call.wav"), "--model", "tones"])
    assert len(said.stdout.splitlines()) == 15


def test_a_sound_by_its_name(listener):
    wanted = whence.explain(listener, tone()).scores
    for given in ({"audio": tone()}, {"audio": {"bytes": wav(tone()), "path": None}}):
        np.testing.assert_allclose(whence.explain(listener, given).scores, wanted, atol=1e-3)  # 16 bits
    with pytest.raises(InputError, match="'text' is of no use to an audio-classification model"):
        whence.explain(listener, {"audio": tone(), "text": "what is it"})
    with pytest.raises(InputError, match="a dict with 'sound' is no sound"):
        whence.explain(listener, {"sound": tone()})


def test_what_is_wrong_is_said(listener, writer, speller):
    with pytest.raises(InputError, match="no such sound: 'a bird', which is taken for a path"):
        whence.explain(listener, "a bird")
    with pytest.raises(InputError, match="one for ctc has none: leave labels= out"):
        whence.load(speller, labels=["a", "b"])
    with pytest.raises(InputError, match="no such sound"):
        whence.explain(listener, "nowhere.wav")
    with pytest.raises(InputError, match="is empty"):
        whence.explain(listener, np.zeros(0))
    with pytest.raises(InputError, match="pass a list of sounds"):
        whence.explain(listener, np.zeros((4, 1000)))
    with pytest.raises(InputError, match="can't read a sound"):
        whence.explain(listener, object())
    with pytest.raises(InputError, match="finite"):
        whence.explain(listener, np.full(3200, np.nan))
    with pytest.raises(InputError, match="without a feature extractor"):
        whence.explain(listener[0], tone())
    with pytest.raises(InputError, match="too short"):
        whence.explain(listener, np.ones(10))
    with pytest.raises(InputError, match="thousands of samples"):
        whence.explain(listener, (tone(), 1))
    with pytest.raises(InputError, match="cut short"):
        heard(wav(tone())[:-1001], 16000)
    with pytest.raises(OptionError, match="silence"):
        whence.explain(listener, tone(), "occlusion", fill="zzz")
    with pytest.raises(InputTooLongError, match="at most 38"):
        whence.explain(writer, tone(), continuation="good film " * 20)
    with pytest.raises(InputError, match="no pieces of time"):
        _ = whence.explain("sentiment", "a gem").times
    with pytest.raises(ModelError, match="other pieces"):
        whence.explain(writer, tone(), "gae", continuation="good")
    with pytest.raises(ModelError, match="among the tokens"):
        whence.models.sound.SpeechLM(small.llama())
