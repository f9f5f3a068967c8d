"""What comes out. With `requests`, these classes are the API's documentation: see /api/docs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AttentionAnswer",
    "CitedAnswer",
    "DrawnAnswer",
    "ErrorBody",
    "ExplainAnswer",
    "Health",
    "Info",
    "RemoveAnswer",
    "RowsAnswer",
    "RunEntry",
    "RunSummary",
    "TokensAnswer",
    "Wire",
]


class ErrorDetail(BaseModel):
    code: str = Field(examples=["too_long"])
    message: str = Field(description="What was wrong.", examples=["The text has 612 tokens; the limit is 256."])
    hint: str = Field(description="What to do.", examples=["Shorten the text."])


class ErrorBody(BaseModel):
    """Any answer that is not a success."""

    error: ErrorDetail


class ExampleInput(BaseModel):
    """What a request may hold; images and sounds by their address on this server."""

    text: str | None = None
    pair: str | None = None
    image: str | None = None
    sound: str | None = None
    pair_image: str | None = None
    labels: list[str] | None = None


class ChoosingInfo(BaseModel):
    """How a model is asked that chooses among texts: /api/explain with labels, and text, image or sound."""

    kind: Literal["text", "image", "sound"] = Field(description="What the labels are chosen for.")
    texts: Literal["labels", "choices"] = Field(description="What they are called in Python.")
    methods: list[str] = Field(description="Those that can explain it.")
    examples: list[ExampleInput]


class ModelInfo(BaseModel):
    name: str
    task: str
    kind: Literal["text", "image", "sound", "image_text", "generation", "pair"]
    writes: bool = Field(description="Whether it can be asked to write, and to cite.")
    chats: bool = Field(description="Whether it takes messages in place of a text.")
    sides: list[Literal["text", "image"]] = Field(description="Of kind pair: what either side may be.")
    measures: list[str] = Field(description="Of kind pair: how it can compare, its own measure first.")
    labels: list[str] = Field(description="The classes, by number; empty for language models.")
    chooses: ChoosingInfo | None = Field(description="null where it takes no labels.")
    max_tokens: int | None
    methods: list[str] = Field(description="Those that can explain it.")
    examples: list[ExampleInput]


class MethodInfo(BaseModel):
    name: str
    title: str = Field(description="Its plain name.")
    summary: str
    says: str = Field(description="What its scores mean, in one sentence.")
    caveat: str = Field(description="What to beware of.")
    cost: str = Field(description="Passes of the model.")
    slow: bool = Field(description="Takes many passes of the model.")
    class_specific: bool = Field(description="Whether another target gives another explanation.")


class LimitsInfo(BaseModel):
    """The most that one request may ask for."""

    characters: int
    tokens: int
    attention_tokens: int
    image_bytes: int
    image_pixels: int
    sound_bytes: int
    sound_seconds: float
    sound_rate: int
    sound_samples: int
    methods: int
    removed: int
    targets: int
    labels: int
    generate: int
    seconds: float
    queue: int
    together: int
    image_side: int
    connections: int
    head_seconds: float
    body_seconds: float


class Info(BaseModel):
    """All that can be asked for."""

    version: str
    models: list[ModelInfo]
    methods: list[MethodInfo]
    default_methods: list[str]
    limits: LimitsInfo
    runs: list[str]


class Health(BaseModel):
    """How busy the server is, and what became of its jobs since it started."""

    running: int
    waiting: int
    done: int
    cancelled: int = Field(description="Their clients left.")
    timed_out: int
    refused: int = Field(description="Answered with 429.")


class PredictionBody(BaseModel):
    """The likeliest classes or tokens, best first."""

    labels: list[str]
    scores: list[float | None]
    probabilities: list[float | None]


class WordBody(BaseModel):
    text: str
    score: float | None
    tokens: list[int] = Field(description="Numbers of its tokens.")


class PieceBody(BaseModel):
    text: str
    kind: Literal["", "said", "target", "for", "against"] = Field(description="What it is: the prediction, a reason, …")


class Wire(BaseModel):
    """An explanation: `Explanation.to_dict()` with its image, words and verdict. What is not finite is null."""

    model_config = ConfigDict(extra="allow")
    method: str
    target: str
    target_score: float | None
    tokens: list[str]
    scores: list[Any] = Field(
        description="One number per token or piece of time, or rows of numbers, one per patch of the image; those of "
        "several inputs follow each other, as `parts` says."
    )
    prediction: PredictionBody
    conservation: dict[str, Any] | None = Field(description="Where the explained score went.")
    words: list[WordBody] | None
    image: str | None = Field(description="The image as the model saw it, or a drawing of the sound: a data URL.")
    verdict: list[PieceBody] = Field(description="The explanation in a sentence, in pieces to be joined.")


class Failure(BaseModel):
    method: str
    message: str


class ExplainAnswer(BaseModel):
    """One explanation per method and target, by target first; methods that could not are in `failed`."""

    model: str
    prediction: PredictionBody
    explanations: list[Wire]
    failed: list[Failure]
    seconds: float


class TokensAnswer(BaseModel):
    """How long a text is for a model."""

    tokens: int | None = Field(description="null where the model has no tokenizer.")
    limit: int
    cut: int = Field(description="Characters of the text that fit, up to the end of a word.")


class DrawnAnswer(BaseModel):
    """A result as the page draws it: elements, escaped, and the numbers that go with them."""

    verdict: str = Field(description="What came out, in a sentence.")
    html: str
    data: dict[str, Any]


class CitedAnswer(DrawnAnswer):
    """Citations as the page draws them."""

    ids: list[int] = Field(description="The answer, token by token: for answer in /api/cite/figure.")


class RemovalBody(BaseModel):
    """What the model says."""

    score: float | None = Field(description="Of the target.")
    probability: float | None = Field(description="Of the target's class or token, where it is one.")
    label: str = Field(description="What the model predicts.")


class RemoveAnswer(BaseModel):
    """What the model says of an input without some of its features."""

    fill: str = Field(description="What stands in their place.")
    whole: RemovalBody = Field(description="With all features.")
    without: RemovalBody
    random: list[RemovalBody] = Field(description="Without as many drawn at random.")


class LayerMaps(BaseModel):
    """The maps of one layer."""

    layer: int
    heads: int
    query_tokens: list[str]
    key_tokens: list[str]
    maps: str = Field(description="base64 of bytes (head, query, key); 255 is that head's maximum.")
    maxima: list[float | None] = Field(description="The largest weight of each head.")


class AttentionAnswer(LayerMaps):
    """One layer's attention maps, and those of layers after it that were asked for and fit."""

    layers: int
    streams: list[str] = Field(description="Of each layer; encoder, decoder or cross in encoder-decoders.")
    others: list[LayerMaps]
    ranks: dict[str, list[list[float]]] | None = Field(description="relevance, entropy: by layer, then by head.")
    verdict: str | None = Field(description="What stands out, in a sentence; with ranks.")


class RunEntry(BaseModel):
    """A run that was opened at start."""

    name: str
    rows: int
    failed: int
    complete: bool
    damaged: bool = Field(description="Whether some of it is not as it was written: only single rows can be read.")
    labelled: bool = Field(description="Whether its targets are the data's own, so that predictions can be wrong.")
    method: str
    model: str


class PlacedWord(BaseModel):
    gap: str = Field(description="What stands before it.")
    text: str
    score: float | None


class RowBody(BaseModel):
    row: int = Field(description="Its number in the data: for /api/runs/{name}/rows/{index}.")
    id: str
    text: str | None = Field(description="The beginning of it.")
    prediction: str | None
    probability: float | None = Field(description="Of the prediction.")
    target: str | None
    error: str | None = Field(description="Why it could not be explained.")
    pieces: list[PlacedWord] = Field(description="The beginning of the text, word by word.")


class RowsAnswer(BaseModel):
    """A page of rows."""

    total: int = Field(description="Rows that match.")
    rows: list[RowBody]


class InfluenceBody(BaseModel):
    word: str
    times: int
    mean: float | None


class SlowRow(BaseModel):
    row: int
    seconds: float
    tokens: int


class FailedRow(BaseModel):
    row: int
    id: str
    error: str


class RunSummary(BaseModel):
    """The global picture of a run."""

    name: str
    complete: bool
    rows: int
    failed: int
    tokens: int
    seconds: float
    predictions: dict[str, int]
    words: list[InfluenceBody] = Field(description="Strongest by mean size of score.")
    by_class: dict[str, list[InfluenceBody]] = Field(description="Strongest for each target.")
    conserved: dict[str, float | None]
    slowest: list[SlowRow]
    errors: dict[str, int]
    failures: list[FailedRow]
    min_count: int
