"""Objects and files of other libraries: explained as the models that they hold."""

from __future__ import annotations

import copy
import json
import sys

import numpy as np
import pytest
import torch
import transformers

import whence
from tests import small
from whence.errors import InputError, MissingExtraError, ModelError, ModelNotFoundError
from whence.models import doors

TEXT = "a good movie"

# -- peft ------------------------------------------------------------------------------------------------------------

PEFTS = {
    "SEQ_CLS": (small.classifier, small.wordpiece, ["query", "value"]),
    "TOKEN_CLS": (small.tagger, small.wordpiece, ["query", "key"]),
    "CAUSAL_LM": (small.llama, small.bytelevel, ["q_proj", "down_proj"]),
    "SEQ_2_SEQ_LM": (small.t5, small.bytelevel, ["q", "v"]),
    None: (small.classifier, small.wordpiece, ["query", "dense"]),
}


def adapted(task, **options):
    """A model with an adapter that does something: peft begins with zeros."""
    peft = pytest.importorskip("peft")
    build, reader, targets = PEFTS[task]
    config = peft.LoraConfig(r=4, lora_alpha=8, task_type=task, target_modules=targets, **options)
    torch.manual_seed(0)
    model = peft.get_peft_model(copy.deepcopy(build()), config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                p.normal_(0, 0.2)
    return model.eval(), reader()


@pytest.mark.parametrize("task", PEFTS)
@pytest.mark.parametrize("method", ["exact", "gi", "gae"])
def test_an_adapter_is_explained_as_if_it_were_merged(task, method):
    model, reader = adapted(task)
    found = whence.explain((model, reader), TEXT, method)
    merged = copy.deepcopy(model).merge_and_unload().eval()
    wanted = whence.explain((merged, reader), TEXT, method)
    plain = whence.explain((PEFTS[task][0](), reader), TEXT, method)
    scale = np.abs(wanted.scores).max()
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4 * scale)
    assert np.abs(found.scores - plain.scores).max() > 1e-3 * scale
    if method == "exact":
        assert abs(found.conservation.error) <= found.conservation.tolerance
        assert not found.conservation.unruled


def test_its_score_is_that_of_the_model_called_by_hand():
    model, reader = adapted("SEQ_CLS", modules_to_save=["classifier"])
    exp = whence.explain((model, reader), TEXT, target=1)
    with torch.no_grad():
        wanted = model(**reader(TEXT, return_tensors="pt")).logits[0, 1]
    assert exp.target_score == pytest.approx(float(wanted), abs=1e-5)


@pytest.fixture
def base(tmp_path):
    """A model without a head, as most begin with."""
    folder = tmp_path / "base"
    small.classifier().bert.save_pretrained(folder)
    small.wordpiece().save_pretrained(folder)
    return folder


def saved(tmp_path, base, task="SEQ_CLS", labels=4, **options):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels)
    config = peft.LoraConfig(r=4, task_type=task, target_modules=["query", "value"], **options)
    model = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                p.normal_(0, 0.2)
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", model.eval()


def test_a_folder_of_an_adapter_brings_its_model_and_its_head(tmp_path, base):
    folder, model = saved(tmp_path, base)
    assert not (folder / "config.json").exists()
    loaded = whence.load(folder)
    assert (loaded.task, loaded.name, len(loaded.labels)) == ("text-classification", str(folder), 4)
    with torch.no_grad():
        wanted = model(**small.wordpiece()(TEXT, return_tensors="pt")).logits[0]
    for label in range(4):
        assert whence.explain(loaded, TEXT, target=label).target_score == pytest.approx(float(wanted[label]), abs=1e-5)
    assert whence.load(folder, labels=("a", "b", "c", "d")).labels == ("a", "b", "c", "d")


def test_a_revision_is_one_of_the_hub(tmp_path, base, monkeypatch):
    """Of what lies here there is but one; of an adapter on the hub, config, weights and tokenizer are of the same."""
    folder, _ = saved(tmp_path, base)
    for here in (folder, base, "sentiment"):
        with pytest.raises(InputError, match="revision='v2' is one of a repository of the hub"):
            whence.load(here, revision="v2")
    asked = []
    peft = pytest.importorskip("peft")
    held = peft.PeftModel.from_pretrained

    def loaded(model, source, revision=None, **options):
        asked.append((source, revision))
        return held(model, folder, **options)

    monkeypatch.setattr(doors, "_found", lambda source, name, revision: folder / name)
    monkeypatch.setattr(peft.PeftModel, "from_pretrained", loaded)
    files = doors.adapter_files("org/adapter", "v2")
    doors.with_adapter(transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=4), files)
    assert asked == [("org/adapter", "v2")]
    assert files.base_revision is None


def test_its_own_tokenizer_goes_before_that_of_its_model(tmp_path, base):
    folder, _ = saved(tmp_path, base)
    own = copy.deepcopy(small.wordpiece())
    own.model_max_length = 7
    own.save_pretrained(folder)
    assert whence.load(folder).limit == 7


def test_a_path_from_the_adapters_own_folder(tmp_path, base):
    folder, _ = saved(tmp_path, base)
    said = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(said | {"base_model_name_or_path": "../base"}))
    assert whence.load(folder).task == "text-classification"


def test_adapters_that_lack_something_say_what(tmp_path, base, monkeypatch):
    folder, _ = saved(tmp_path, base)
    config = folder / "adapter_config.json"
    said = json.loads(config.read_text())
    config.write_text(json.dumps(said | {"base_model_name_or_path": None}))
    with pytest.raises(ModelError, match="does not say which model"):
        whence.load(folder)
    config.write_text(json.dumps(said | {"base_model_name_or_path": str(tmp_path / "nowhere")}))
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        whence.load(folder)
    config.write_text(json.dumps(said))
    weights = folder / "adapter_model.safetensors"
    torch.save({}, folder / "adapter_model.bin")
    weights.rename(folder / "elsewhere")
    with pytest.raises(ModelError, match="pickled weights can run code"):
        whence.load(folder)
    (folder / "elsewhere").rename(weights)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"pip install peft$"):
        whence.load(folder)


def test_a_head_that_nobody_saved_is_an_error(tmp_path, base):
    """The adapter has no head, and neither has its model."""
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(
        transformers.AutoModel.from_pretrained(base), peft.LoraConfig(r=2, target_modules=["query"])
    )
    model.save_pretrained(tmp_path / "adapter")
    with pytest.raises(ModelError, match="no weights for classifier"):
        whence.load(tmp_path / "adapter", task="text-classification")
    with pytest.raises(ModelError, match=r"does not say what it predicts.*task="):
        whence.load(tmp_path / "adapter")


def test_a_head_of_another_size_takes_the_place_of_the_models_own(tmp_path, base):
    small.classifier().save_pretrained(base)  # of 3 classes
    peft = pytest.importorskip("peft")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=5, ignore_mismatched_sizes=True
    )
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, task_type="SEQ_CLS", target_modules=["query"]))
    model.save_pretrained(tmp_path / "adapter")
    with torch.no_grad():
        wanted = model.eval()(**small.wordpiece()(TEXT, return_tensors="pt")).logits[0, 4]
    exp = whence.explain(whence.load(tmp_path / "adapter"), TEXT, target=4)
    assert exp.target_score == pytest.approx(float(wanted), abs=1e-5)


def test_an_adapter_for_another_model_says_so(tmp_path, base):
    folder, _ = saved(tmp_path, base)
    config = transformers.BertConfig(
        vocab_size=300, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    other = tmp_path / "other"
    transformers.BertForSequenceClassification(config).eval().save_pretrained(other)
    said = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(said | {"base_model_name_or_path": str(other)}))
    with pytest.raises(ModelError, match="does not fit"):
        whence.load(folder)


# -- GGUF ------------------------------------------------------------------------------------------------------------


def test_gguf_needs_its_package(tmp_path, monkeypatch):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    for name in (tmp_path / "m.gguf", tmp_path):
        with pytest.raises(MissingExtraError, match=r"pip install gguf$"):
            whence.load(name)


def test_which_gguf(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"2 \.gguf files: say which one.*a\.gguf"):
        whence.load(tmp_path)
    with pytest.raises(ModelNotFoundError, match="no such file"):
        whence.load(tmp_path / "c.gguf")
    with pytest.raises(ModelNotFoundError, match="no such file"):
        whence.load("c.gguf")
    assert doors.gguf_in("org/model") is None
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert doors.gguf_in(str(tmp_path)) is None


def written(path):
    """A small Qwen2 as llama.cpp keeps it, and the model itself."""
    gguf = pytest.importorskip("gguf")
    reader = small.bytelevel()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = transformers.Qwen2Config(
        vocab_size=len(reader) + 1, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=1, **sizes,
    )  # fmt: skip
    torch.manual_seed(0)
    model = small.randomised(transformers.Qwen2ForCausalLM(config))
    file = gguf.GGUFWriter(path, "qwen2")
    file.add_name("small")
    file.add_context_length(64)
    file.add_embedding_length(32)
    file.add_block_count(2)
    file.add_feed_forward_length(64)
    file.add_head_count(4)
    file.add_head_count_kv(2)
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    file.add_rope_freq_base(config.rope_parameters["rope_theta"])
    file.add_vocab_size(len(reader) + 1)
    file.add_tokenizer_model("gpt2")
    file.add_token_list([*reader.convert_ids_to_tokens(range(len(reader))), "zq"])
    file.add_token_merges(["z q"])
    file.add_token_types([3, 3] + [1] * (len(reader) - 1))
    file.add_bos_token_id(1)
    file.add_eos_token_id(1)
    file.add_pad_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, 2)
    for name, value in model.state_dict().items():
        module, _, kind = name.rpartition(".")
        numbers = value.numpy()
        if numbers.ndim == 2 and "embed" not in name:
            packed = gguf.quantize(numbers, gguf.GGMLQuantizationType.Q8_0)
            value.copy_(torch.from_numpy(gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0).copy()))
            file.add_tensor(f"{names.get_name(module)}.{kind}", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            file.add_tensor(f"{names.get_name(module)}.{kind}", numbers)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return model


def test_a_gguf_file_is_a_model_and_a_tokenizer(tmp_path):
    model = written(tmp_path / "small.gguf")
    ids = small.bytelevel()(TEXT, return_tensors="pt")
    with torch.no_grad():
        top = model(**ids).logits[0, -1].topk(2).values
    for name in (tmp_path / "small.gguf", tmp_path):
        loaded = whence.load(name)
        exp = whence.explain(loaded, TEXT, "exact")
        assert (loaded.task, loaded.name) == ("text-generation", str(name))
        assert exp.target_score == pytest.approx(float(top[0] - top[1]), abs=1e-5)
        assert len(exp.tokens) == ids["input_ids"].shape[1]
        assert abs(exp.conservation.error) <= exp.conservation.tolerance
