"""Loading from folders, names and memory."""

from __future__ import annotations

import copy
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto import modeling_auto

import whence
from tests import small
from whence.errors import InputError, ModelError, ModelNotFoundError, UnknownNameError
from whence.models import doors, tasks


@pytest.fixture
def folder(tmp_path):
    small.classifier().save_pretrained(tmp_path)
    small.wordpiece().save_pretrained(tmp_path)
    return tmp_path


def test_a_local_folder(folder):
    model = whence.load(folder)
    assert model.task == "text-classification"
    exp = whence.explain(model, "a good movie")
    memory = whence.explain((small.classifier(), small.wordpiece()), "a good movie")
    assert exp.scores.tolist() == pytest.approx(memory.scores.tolist(), abs=1e-6)
    assert exp.stamp["model"] == str(folder)


def test_dtype_and_task(folder):
    model = whence.load(str(folder), dtype="bfloat16", device="cpu")
    assert next(model.module.parameters()).dtype == torch.bfloat16
    with pytest.raises(UnknownNameError, match="float32"):
        whence.load(folder, dtype="float31")
    with pytest.raises(UnknownNameError, match="text-classification"):
        whence.load(folder, task="text-classifcation")


def test_pickled_weights_are_refused(folder):
    (folder / "model.safetensors").unlink()
    torch.save(small.classifier().state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        whence.load(folder)


def test_missing_things_are_named(folder, tmp_path, monkeypatch):
    with pytest.raises(ModelNotFoundError, match="no such folder"):
        whence.load("./nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelNotFoundError, match=r"config\.json"):
        whence.load(empty)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        whence.load(folder)
    with pytest.raises(InputError, match="tokenizer"):
        whence.load((1, 2))


def test_offline_is_said(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match="sentiment, digits"):
        whence.load("nobody/no-such-model")


def test_remote_code_runs_only_when_asked(folder):
    config = folder / "config.json"
    config.write_text(
        config.read_text().replace(
            '"model_type": "bert"', '"model_type": "mine", "auto_map": {"AutoConfig": "evil.Config"}'
        )
    )
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ModelError):
        whence.load(folder)


def test_head_that_can_not_be_told():
    class Mystery(torch.nn.Module):
        def forward(self, input_ids):
            return input_ids

    with pytest.raises(ModelError, match="task="):
        whence.load((Mystery().eval(), small.wordpiece()))


def test_bundled_models(sentiment, digits):
    assert sentiment.labels == ("negative", "positive")
    exp = whence.explain(sentiment, "a gorgeous, witty, seductive movie")
    assert exp.prediction.label == "positive"
    assert {name for name, _ in exp.top(2)} == {"gorgeous", "witty"}
    assert whence.explain(sentiment, "a dull, boring, lifeless movie").prediction.label == "negative"
    assert digits.labels[:2] == ("0", "1")


def test_a_bundled_encoder_asks_nobody_how_it_pools(monkeypatch):
    asked, saved_beside = [], doors.saved_beside
    monkeypatch.setattr(
        doors, "saved_beside", lambda source, *rest: asked.append(source) or saved_beside(source, *rest)
    )
    assert whence.load("sentiment", task="sentence-embedding").saved.pooling == "mean"
    assert [Path(source).is_dir() for source in asked] == [True]  # a name is one of the hub


def test_every_class_that_transformers_lists_for_a_task_is_taken_for_it():
    """MarianMTModel, FlaubertWithLMHeadModel, XLNetForQuestionAnsweringSimple: names alone don't say what they do."""
    assert set(tasks.TASKS) - set(tasks.REGISTERED) == {
        "zero-shot-classification",  # a classifier, used otherwise
        "zero-shot-audio-classification",  # in no list
        "audio-text-to-text",  # in a list with all that reads more than text
        "image-to-text",  # in the list of models that read pictures and text, as is the next
        "image-text-to-text2text",
    }
    wrong = []
    for name in sorted({c for task in tasks.REGISTERED for c in _listed(task)}):
        found = tasks.kind_of(name, None, None)
        if found is None or found[1].task not in tasks.registered_for(name):
            wrong.append(name)
    assert wrong == ["LiltForQuestionAnswering"]  # its words have boxes, which the list does not say


def _listed(task: str) -> set[str]:
    lists = [getattr(modeling_auto, f"MODEL_FOR_{one}_MAPPING_NAMES") for one in tasks.REGISTERED[task].split()]
    listed = [names for own in lists for names in own.values()]
    return {name for names in listed for name in ((names,) if isinstance(names, str) else names)}


def test_weights_that_the_files_lack_are_an_error(tmp_path):
    """A random head would explain nothing, and another one each time."""
    small.classifier().bert.save_pretrained(tmp_path)
    small.wordpiece().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"no weights for classifier.bias, classifier.weight.*allow_missing=True"):
        whence.load(tmp_path, task="text-classification")
    assert whence.load(tmp_path, task="text-classification", allow_missing=True).task == "text-classification"


def test_training_mode_is_looked_for_everywhere_and_each_time():
    module = copy.deepcopy(small.classifier())
    model = whence.load((module, small.wordpiece()))
    module.train()
    with pytest.raises(ModelError, match=r"the model is in training mode.*model.eval\(\)"):
        whence.explain(model, "good")
    module.eval()
    module.bert.encoder.layer[1].train()
    for subject in (model, (module, small.wordpiece())):
        with pytest.raises(ModelError, match=r"'bert.encoder.layer.1.*in training mode"):
            whence.explain(subject, "good")


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, lambda m: torch.compile(m, backend="eager")])
def test_wrappers_that_say_how_a_model_is_run(wrap):
    found = whence.explain((wrap(small.classifier()), small.wordpiece()), "good")
    assert found.scores.tolist() == whence.explain((small.classifier(), small.wordpiece()), "good").scores.tolist()


class Wrapped(torch.nn.Module):
    """As adapters for fine-tuning wrap a model: arguments go through by name."""

    def __init__(self, model):
        super().__init__()
        self.base, self.config = model, model.config

    def forward(self, *args, **kwargs):
        return self.base(*args, **kwargs)


def test_a_wrapper_gets_what_its_model_takes():
    """token_type_ids, which tell the second text from the first."""
    torch.manual_seed(0)
    module = small.randomised(transformers.BertForSequenceClassification(small._config("BertConfig", num_labels=3)))
    tokenizer = copy.deepcopy(small.wordpiece())
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    pair = ("a good movie", "it is bad")
    with torch.no_grad():
        wanted = module(**tokenizer(*pair, return_tensors="pt")).logits[0, 1]
    model = whence.load((Wrapped(module).eval(), tokenizer), task="text-classification")
    assert whence.explain(model, pair, target=1).target_score == pytest.approx(float(wanted), abs=1e-5)


def test_decoders_are_not_taken_for_encoder_decoders():
    """…ForConditionalGeneration is also what models for pictures and text are called."""
    decoder, both = types.SimpleNamespace(is_encoder_decoder=False), types.SimpleNamespace(is_encoder_decoder=True)
    assert tasks.kind_of("SomeForConditionalGeneration", decoder, None)[1].task == "text-generation"
    assert tasks.kind_of("SomeForConditionalGeneration", both, None)[1].task == "text2text-generation"


@pytest.mark.parametrize("options", [{"dtype": "float64"}, {"device": "cpu"}, {"dtype": "flaot64"}])
def test_a_model_in_memory_stays_as_it_is(options):
    for given in (small.classifier(), (small.classifier(), small.wordpiece())):
        with pytest.raises(InputError, match="stays as it is"):
            whence.load(given, **options)


def test_positions_that_begin_behind_the_padding():
    """RoBERTa counts them from the padding's id on, so that its table holds two less than it has rows."""
    config = transformers.RobertaConfig(
        vocab_size=120, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=12, pad_token_id=1,
    )  # fmt: skip
    model = whence.load((transformers.RobertaForSequenceClassification(config).eval(), small.wordpiece()))
    assert model.limit == 10
    assert len(whence.explain(model, "good " * 20, truncate=True).tokens) == 10


def test_a_pipeline_is_its_model_and_what_reads_for_it():
    folder = Path(whence.__file__).parent / "bundled"
    pipe = transformers.pipeline("text-classification", model=str(folder / "sentiment"))
    text = "a gorgeous, witty, seductive movie"
    exp = whence.explain(pipe, text)
    said = pipe(text)[0]
    assert exp.target == said["label"]
    assert exp.prediction.probabilities[0] == pytest.approx(said["score"], abs=1e-6)
    np.testing.assert_array_equal(exp.scores, whence.explain("sentiment", text).scores)
    digits = transformers.pipeline("image-classification", model=str(folder / "digits"))
    assert whence.explain(digits, np.zeros((28, 28), np.uint8)).scores.shape == (7, 7)


def test_a_pipeline_for_features_is_an_embedder():
    pipe = transformers.pipeline("feature-extraction", model=small.encoder(), tokenizer=small.wordpiece())
    exp = whence.explain(pipe, "a good movie", target=whence.similar_to("a film"))
    alone = whence.load((small.encoder(), small.wordpiece()), task="sentence-embedding")
    wanted = whence.explain(alone, "a good movie", target=whence.similar_to("a film"))
    np.testing.assert_array_equal(exp.scores, wanted.scores)


def test_what_reads_for_a_model_by_name(folder):
    model = whence.load((small.classifier(), str(folder)))
    assert whence.explain(model, "a good movie").tokens[1:-1] == ("a", "good", "movie")


def test_what_reads_for_another_kind_of_model():
    reader = transformers.ViTImageProcessorPil(size={"height": 16, "width": 16})
    with pytest.raises(InputError, match=r"text-classification goes with its tokenizer, and ViT.* is none"):
        whence.load((small.classifier(), reader))
    with pytest.raises(InputError, match=r"image-classification goes with its image processor, and .* is none"):
        whence.load((small.vit(), small.wordpiece()))


def test_a_bundled_name_that_is_nearly_right():
    with pytest.raises(ModelNotFoundError, match="Did you mean 'sentiment'"):
        whence.load("sentimnt")


def test_options_that_do_not_fit():
    with pytest.raises(InputError, match="device='gpu' is none that torch knows"):
        whence.load("sentiment", device="gpu")
    with pytest.raises(InputError, match="is one text: pass a list"):
        whence.load("sentiment", labels="bad")
    with pytest.raises(InputError, match="names 3 classes, and the model has 2"):
        whence.load("sentiment", labels=["bad", "fair", "good"])
    with pytest.raises(ModelError, match=r"'sentiment' holds BertForSequenceClassification, .* task='image-class"):
        whence.load("sentiment", task="image-classification")


def test_a_pipeline_for_what_nobody_can_explain_yet():
    class Speaks(torch.nn.Module):
        def forward(self, x):
            return x

    class Pipeline:
        task, model = "text-to-speech", Speaks()

        def preprocess(self, x):
            return x

    with pytest.raises(ModelError, match=r"'text-to-speech' with a Speaks can't be explained .* task="):
        whence.load(Pipeline())


def test_a_reranker_is_its_model_and_tokenizer():
    """As sentence-transformers holds it: a module of its own with the model inside."""

    class CrossEncoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.tokenizer = small.classifier(), small.wordpiece()

    pair = ("is it good", "a gorgeous film")
    exp = whence.explain(CrossEncoder().eval(), pair)
    np.testing.assert_array_equal(exp.scores, whence.explain((small.classifier(), small.wordpiece()), pair).scores)
    assert set(exp.sides) == {"", "first", "second"}


def test_it_says_what_it_understood():
    said = repr(whence.load("sentiment"))
    assert said.startswith(
        "<BertForSequenceClassification 'sentiment' for text-classification: 2 labels (negative, positive)"
    )
    assert "reads text" in said
    assert said.endswith("float32 on cpu>")
    assert "without a tokenizer" in repr(whence.load(small.classifier()))
    assert "reads images" in repr(whence.load("digits"))
    assert "for module" in repr(whence.load(torch.nn.Linear(2, 2).eval()))


def test_labels_for_a_model_that_has_none():
    model = whence.load(torch.nn.Linear(2, 2).eval(), labels=("no", "yes"))
    assert whence.explain(model, torch.tensor([[3.0, 4.0]]), target="yes").target == "yes"
    with pytest.raises(InputError, match="labels="):
        whence.load(model, labels=("a", "b"))


@pytest.mark.parametrize("made", [small.llama, small.masked, small.t5, small.answerer], ids=lambda made: made.__name__)
def test_labels_for_a_model_without_classes(made):
    with pytest.raises(InputError, match=r"one for .* has none: leave labels= out"):
        whence.load(made(), labels=("no", "yes"))


@pytest.mark.parametrize("index", ['{"weight_map": {"x": "pytorch_model.bin"}}', "{", "[]", '{"weight_map": 3}'])
def test_an_index_that_names_pickled_weights_is_refused(index, folder):
    """Transformers reads whatever the index names."""
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(index)
    torch.save(small.classifier().state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(whence.WhenceError, match=r"names pytorch_model\.bin, and weights|index of .* can't be read"):
        whence.load(str(folder))
