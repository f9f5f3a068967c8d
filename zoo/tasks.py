"""What the models of each auto mapping are asked: a task's mapping, and which of the outputs are explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.models.auto import modeling_auto

from zoo.configs import SEQUENCE_LENGTH

__all__ = ["TASKS", "Task"]

Scores = Callable[[Any, int], Tensor]
"""Outputs, and the number of padding tokens behind the text, to (example, score): one of the scores is explained."""


@dataclass(frozen=True)
class Task:
    """One auto mapping of transformers."""

    title: str
    mapping: str
    explains: str
    """What is explained, in words."""
    scores: Scores

    @property
    def classes(self) -> dict[str, str | tuple[str, ...]]:
        """Model type to the names of the classes that do the task."""
        names: dict[str, str | tuple[str, ...]] = getattr(modeling_auto, f"MODEL_FOR_{self.mapping}_MAPPING_NAMES")
        return names


def field_of(outputs: Any, *names: str) -> Tensor:
    """The first of the fields that the outputs have; of several tensors in it, the first."""
    value = next(outputs[n] for n in names if n in outputs)
    while isinstance(value, (tuple, list)):
        value = value[0]
    assert isinstance(value, Tensor)
    return value


def every(*names: str) -> Scores:
    """Every number of an output."""
    return lambda outputs, padding: field_of(outputs, *names).flatten(1)


def mean(*names: str) -> Scores:
    """The mean of an output."""
    return lambda outputs, padding: field_of(outputs, *names).flatten(1).mean(1, keepdim=True)


def at(place: int) -> Scores:
    """The logits at one token, or frame."""
    return lambda outputs, padding: field_of(outputs, "logits")[:, place].flatten(1)


def last(outputs: Any, padding: int) -> Tensor:
    """The logits at the last token; of models that give one answer, its own."""
    logits = field_of(outputs, "logits")
    return logits[:, logits.shape[1] - 1 - padding].flatten(1) if logits.dim() > 2 else logits


def answer(outputs: Any, padding: int) -> Tensor:
    if "question_answering_score" in outputs:
        return field_of(outputs, "question_answering_score")  # LXMERT chooses among answers
    return (outputs["start_logits"][:, 2] + outputs["end_logits"][:, 4])[:, None]


def pair(outputs: Any, padding: int) -> Tensor:
    """The score of each example's picture and its own text, of all pictures and all texts."""
    if "logits_per_video" in outputs:  # shares of each film among those of the batch: of one alone, always 1
        return (outputs["video_embeds"] * outputs["text_embeds"]).sum(1, keepdim=True)
    found = field_of(outputs, "logits_per_image", "itm_score")
    return found if "itm_score" in outputs else found.diagonal()[:, None]


def region(*names: str) -> Scores:
    """The mean of each map over its upper left quarter."""

    def scores(outputs: Any, padding: int) -> Tensor:
        maps = field_of(outputs, *names)
        return maps[..., : maps.shape[-2] // 2, : maps.shape[-1] // 2].mean((-2, -1)).flatten(1)

    return scores


def words(outputs: Any, padding: int) -> Tensor:
    """The logits of the words of the text; behind it there is nothing to find, and logits are minus infinity."""
    return field_of(outputs, "logits")[..., :SEQUENCE_LENGTH].flatten(1)


LOGITS, QUERIES = every("logits"), every("logits", "class_queries_logits")

TASKS: dict[str, Task] = {
    "sequence-classification": Task("Sequence classification", "SEQUENCE_CLASSIFICATION", "a class", LOGITS),
    "token-classification": Task("Token classification", "TOKEN_CLASSIFICATION", "a label of the fourth token", at(3)),
    "question-answering": Task(
        "Question answering", "QUESTION_ANSWERING", "an answer: start logit + end logit", answer
    ),
    "multiple-choice": Task("Multiple choice", "MULTIPLE_CHOICE", "a choice", LOGITS),
    "next-sentence-prediction": Task("Next-sentence prediction", "NEXT_SENTENCE_PREDICTION", "follows or not", LOGITS),
    "masked-lm": Task("Masked language models", "MASKED_LM", "a word for the fourth token", at(3)),
    "causal-lm": Task("Causal language models", "CAUSAL_LM", "what comes", last),
    "seq2seq-lm": Task("Encoder-decoder language models", "SEQ_TO_SEQ_CAUSAL_LM", "what comes", last),
    "image-classification": Task("Image classification", "IMAGE_CLASSIFICATION", "a class", LOGITS),
    "object-detection": Task(
        "Object detection", "OBJECT_DETECTION", "a class of a box", every("logits", "last_hidden_state")
    ),
    "semantic-segmentation": Task(
        "Semantic segmentation", "SEMANTIC_SEGMENTATION", "a class over a quarter of the picture", region("logits")
    ),
    "instance-segmentation": Task("Instance segmentation", "INSTANCE_SEGMENTATION", "a class of a mask", QUERIES),
    "universal-segmentation": Task("Universal segmentation", "UNIVERSAL_SEGMENTATION", "a class of a mask", QUERIES),
    "depth-estimation": Task("Depth estimation", "DEPTH_ESTIMATION", "the mean depth", mean("predicted_depth")),
    "image-to-image": Task("Image to image", "IMAGE_TO_IMAGE", "a quarter of a channel", region("reconstruction")),
    "video-classification": Task("Video classification", "VIDEO_CLASSIFICATION", "a class", LOGITS),
    "zero-shot-image-classification": Task(
        "Zero-shot image classification", "ZERO_SHOT_IMAGE_CLASSIFICATION", "how a picture and its text fit", pair
    ),
    "zero-shot-object-detection": Task(
        "Zero-shot object detection", "ZERO_SHOT_OBJECT_DETECTION", "a word for a box", words
    ),
    "visual-question-answering": Task(
        "Visual question answering", "VISUAL_QUESTION_ANSWERING", "an answer, or what comes", last
    ),
    "document-question-answering": Task(
        "Document question answering", "DOCUMENT_QUESTION_ANSWERING", "an answer: start logit + end logit", answer
    ),
    "image-text-to-text": Task("Pictures with text to text", "IMAGE_TEXT_TO_TEXT", "what comes", last),
    "audio-classification": Task("Audio classification", "AUDIO_CLASSIFICATION", "a class", LOGITS),
    "audio-frame-classification": Task(
        "Audio frame classification", "AUDIO_FRAME_CLASSIFICATION", "a class of the second frame", at(1)
    ),
    "ctc": Task("Speech recognition (CTC)", "CTC", "a letter at the second frame", at(1)),
    "speech-seq2seq": Task("Speech to text", "SPEECH_SEQ_2_SEQ", "what comes", last),
    "time-series-classification": Task(
        "Time-series classification",
        "TIME_SERIES_CLASSIFICATION",
        "a class",
        every("prediction_logits", "prediction_outputs"),
    ),
    "time-series-regression": Task(
        "Time-series regression", "TIME_SERIES_REGRESSION", "the value", every("regression_outputs")
    ),
    "time-series-prediction": Task(
        "Time-series prediction", "TIME_SERIES_PREDICTION", "a value to come", every("mean_predictions")
    ),
}
"""Every task, in the order of the page."""
