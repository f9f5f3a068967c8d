"""What a model does, by the name of its class and by the lists of transformers, and which adapter is for it."""

from __future__ import annotations

import inspect
from typing import Any

from whence.errors import UnknownNameError
from whence.models import (
    audio_text,
    choosing,
    documents,
    embedding,
    films,
    image,
    seeing,
    sound,
    telling,
    text,
    together,
    writing,
)
from whence.models.adapter import AbstractAdapter
from whence.models.plain import PlainModule
from whence.models.text import IDS

__all__ = ["ADAPTERS", "HEADS", "REGISTERED", "TASKS", "kind_of", "registered_for"]

# Endings of class names in transformers say what a head does. First match wins.
HEADS: tuple[tuple[str, str, type[AbstractAdapter]], ...] = (
    ("ForSequenceClassification", "AutoModelForSequenceClassification", text.TextClassifier),
    ("ForTokenClassification", "AutoModelForTokenClassification", text.TokenClassifier),
    ("ForMultipleChoice", "AutoModelForMultipleChoice", choosing.MultipleChoice),
    ("ForQuestionAnswering", "AutoModelForQuestionAnswering", text.QuestionAnswering),
    ("ForMaskedLM", "AutoModelForMaskedLM", writing.MaskedLM),
    ("ForImageClassification", "AutoModelForImageClassification", image.ImageClassifier),
    ("ForObjectDetection", "AutoModelForObjectDetection", seeing.Detector),
    ("ForSemanticSegmentation", "AutoModelForSemanticSegmentation", seeing.Segmenter),
    ("ForInstanceSegmentation", "AutoModelForInstanceSegmentation", seeing.Segmenter),
    ("ForUniversalSegmentation", "AutoModelForUniversalSegmentation", seeing.Segmenter),
    ("ForSegmentation", "AutoModelForUniversalSegmentation", seeing.Segmenter),
    ("ForDepthEstimation", "AutoModelForDepthEstimation", seeing.DepthEstimator),
    ("ForVideoClassification", "AutoModelForVideoClassification", films.VideoClassifier),
    ("VisionModel", "AutoModel", seeing.ImageFeatures),
    ("ForImageTextToText", "AutoModelForImageTextToText", together.ImageTextLM),
    ("ForConditionalGeneration", "AutoModelForSeq2SeqLM", telling.Seq2SeqLM),
    ("ForSeq2SeqLM", "AutoModelForSeq2SeqLM", telling.Seq2SeqLM),
    ("ForCausalLM", "AutoModelForCausalLM", writing.CausalLM),
    ("LMHeadModel", "AutoModelForCausalLM", writing.CausalLM),
)
OTHERS: tuple[tuple[str, type[AbstractAdapter]], ...] = (
    ("AutoModelForSequenceClassification", choosing.TextMatcher),
    ("AutoModelForZeroShotImageClassification", choosing.ImageMatcher),
    ("AutoModelForAudioClassification", sound.AudioClassifier),
    ("AutoModelForCTC", sound.SpeechRecogniser),
    ("AutoModelForSpeechSeq2Seq", sound.SpeechLM),
    ("AutoModel", sound.AudioMatcher),
    ("AutoModelForMultimodalLM", audio_text.AudioTextLM),
    ("AutoModelForImageTextToText", seeing.ImageTeller),
    ("AutoModelForImageTextToText", together.ImageTextTeller),
    ("AutoModelForVisualQuestionAnswering", together.ImageTextClassifier),
    ("AutoModelForDocumentQuestionAnswering", documents.DocumentQuestionAnswering),
)
"""What class names do not say."""
TASKS = {
    adapter.task: (auto, adapter) for auto, adapter in (*OTHERS, *((a, b) for _, a, b in reversed(HEADS)))
}  # fmt: skip
REGISTERED = {
    "text-classification": "SEQUENCE_CLASSIFICATION",
    "token-classification": "TOKEN_CLASSIFICATION",
    "multiple-choice": "MULTIPLE_CHOICE",
    "question-answering": "QUESTION_ANSWERING",
    "fill-mask": "MASKED_LM",
    "image-classification": "IMAGE_CLASSIFICATION",
    "text2text-generation": "SEQ_TO_SEQ_CAUSAL_LM",
    "text-generation": "CAUSAL_LM",
    "image-text-to-text": "IMAGE_TEXT_TO_TEXT",
    "document-question-answering": "DOCUMENT_QUESTION_ANSWERING",
    "visual-question-answering": "VISUAL_QUESTION_ANSWERING",
    "audio-classification": "AUDIO_CLASSIFICATION",
    "ctc": "CTC",
    "automatic-speech-recognition": "SPEECH_SEQ_2_SEQ",
    "zero-shot-image-classification": "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "object-detection": "OBJECT_DETECTION",
    "image-segmentation": "SEMANTIC_SEGMENTATION INSTANCE_SEGMENTATION UNIVERSAL_SEGMENTATION",
    "depth-estimation": "DEPTH_ESTIMATION",
    "video-classification": "VIDEO_CLASSIFICATION",
    "image-feature-extraction": "IMAGE",
}
"""Task to the list in transformers (or several) of classes that do it, whatever they are called (MarianMTModel, …)."""
ADAPTERS: tuple[type[AbstractAdapter], ...] = (*(adapter for _, adapter in TASKS.values()), PlainModule)
"""Every kind of model."""


def kind_of(class_name: str, config: Any, task: str | None) -> tuple[str, type[AbstractAdapter]] | None:
    """The auto class and the adapter of a model; None where its name does not say what it does."""
    if task == embedding.TASK:
        return "AutoModel", embedding.TextEncoder
    if task is not None:
        if task not in TASKS:
            raise UnknownNameError("task", task, [*TASKS, embedding.TASK])
        own = ((auto, adapter) for ending, auto, adapter in HEADS if class_name.endswith(ending))
        usual = kind_of(class_name, config, None)
        return next((row for row in (*own, usual) if row is not None and row[1].task == task), TASKS[task])
    found = next(((auto, adapter) for ending, auto, adapter in HEADS if class_name.endswith(ending)), None)
    registered = registered_for(class_name)
    if found is None and not registered and _matches_sounds(class_name):
        return TASKS[sound.AudioMatcher.task]
    if "image-text-to-text" in registered:
        if not getattr(config, "is_encoder_decoder", False):
            return TASKS["image-text-to-text"]
        return TASKS[(together.ImageTextTeller if _takes(class_name, IDS.name, True) else seeing.ImageTeller).task]
    if registered and (found is None or found[1].task not in registered):
        found = TASKS[registered[0]]
    if found is not None and found[1] is text.QuestionAnswering and _takes(class_name, documents.BOXES, False):
        return found[0], documents.DocumentQuestionAnswering
    if found is not None and found[1] is seeing.ImageFeatures and _films(config):
        return None  # transformers lists models without a head together, whether they read pictures or films
    if found is not None and found[1] is sound.SpeechLM and not getattr(config, "is_encoder_decoder", True):
        return found[0], audio_text.AudioTextLM
    if found is not None and found[1] is telling.Seq2SeqLM and not getattr(config, "is_encoder_decoder", True):
        if any(_takes(class_name, name, False) for name in sound.INPUTS):
            return TASKS[audio_text.AudioTextLM.task]
        return "AutoModelForImageTextToText", writing.CausalLM  # …ForConditionalGeneration is also said of decoders
    return found


def _matches_sounds(class_name: str) -> bool:
    """Whether a class of transformers has a side for sounds and one for texts: it is in no list."""
    import transformers

    kind = getattr(transformers, class_name, None) if class_name.endswith("Model") else None
    return hasattr(kind, "get_audio_features") and hasattr(kind, "get_text_features")


def _films(config: Any) -> bool:
    return any(hasattr(config, name) for name in ("num_frames", "frames_per_clip"))


def _takes(class_name: str, argument: str, unknown: bool) -> bool:
    """Whether a class of transformers has an argument of that name; `unknown` where it is no class of transformers."""
    import transformers

    kind = getattr(transformers, class_name, None)
    return unknown if kind is None else argument in inspect.signature(kind.forward).parameters


def registered_for(class_name: str) -> list[str]:
    """The tasks that transformers lists a class of its own for."""
    from transformers.models.auto import modeling_auto

    def classes(names: str | tuple[str, ...]) -> tuple[str, ...]:
        return (names,) if isinstance(names, str) else names

    def listed(name: str) -> bool:
        own = getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES", {})
        return any(class_name in classes(names) for names in own.values())

    return [task for task, lists in REGISTERED.items() if any(map(listed, lists.split()))]
