"""What goes in. With `answers`, these classes are the API's documentation: see /api/docs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

__all__ = [
    "AttentionRequest",
    "CiteFigureRequest",
    "CiteRequest",
    "CitedFormat",
    "ContrastBody",
    "ExplainRequest",
    "FigureRequest",
    "InputRequest",
    "MessageBody",
    "PairFigureRequest",
    "PairFormat",
    "RemoveRequest",
    "SimilarityRequest",
    "StreamRequest",
    "TokensRequest",
    "WriteFigureRequest",
    "WriteRequest",
    "WrittenBody",
    "WrittenFormat",
]


def _whole(text: Any) -> Any:
    """JSON can spell half a character, a lone surrogate, that no tokenizer reads and no answer could repeat."""
    try:
        if isinstance(text, str):
            text.encode()
    except UnicodeEncodeError:
        raise ValueError("there is half a character (a lone surrogate) in the text") from None
    return text


def _integer(number: Any) -> Any:
    """JSON has one kind of number: 3.0 is an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _or_why(kinds: str) -> WrapValidator:
    """In place of what each variant of a target says of what is none of them: what is wrong, and what may be sent."""

    def check(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(given)
        except ValidationError as error:
            raise ValueError(f"{_fault(given, error)}; send {kinds}") from None

    return WrapValidator(check)


def _fault(given: Any, error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False)
    if isinstance(given, str):
        return problems[0]["msg"].removeprefix("Value error, ")
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return f"a class number is a whole number from 0 to {MOST:,}"
    if isinstance(given, dict):
        kind = "WrittenBody" if "written" in given else "ContrastBody"
        lacking = [p["loc"][1] for p in problems if p["type"] == "missing" and p["loc"][0] == kind]
        return f'"{lacking[0]}" is missing' if lacking else "the object has other names, or values of another kind"
    return "this is no text, no number and no object"


def _all_or_some(given: Any) -> Any:
    if given is None or given == "all" or isinstance(given, list):
        return given
    raise ValueError(f'send null, "all", or a list of targets: {TARGETS}')


MOST = 10_000_000
TARGET = 'a label, a class number or {"this": …, "that": …}'
TARGETS = f'{TARGET}, of a continuation also {{"written": …}}'
Whole = BeforeValidator(_whole)
Integer = BeforeValidator(_integer)
Text = Annotated[str, Whole]
Name = Annotated[str, Field(min_length=1, max_length=200), Whole]
Short = Annotated[str, Field(max_length=10_000), Whole]
Format = Literal["svg", "png", "pdf", "tex", "txt", "html", "json", "csv", "npz"]
PairFormat = Literal["svg", "png", "pdf", "tex", "txt", "html", "json", "npz"]
WrittenFormat = Literal["svg", "png", "pdf", "tex", "txt", "html", "json", "npz"]
CitedFormat = Literal["svg", "png", "pdf", "tex", "txt", "html", "json"]
FORMATS = "svg, png, pdf and tex are for papers, html is a report, txt is plain, the others are exact."
MESSAGES = 32
"""Of a conversation."""
Label = Annotated[Name, Field(description="A label of the model, or a token.")]
ClassNumber = Annotated[int, Field(ge=0, le=MOST, description="Number of a class, or id of a token."), Integer]
Method = Annotated[Name, Field(description="A name from /api/info.", examples=["lrp"])]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class MessageBody(_Request):
    """What one side of a conversation says."""

    role: Literal["system", "user", "assistant"]
    content: Text


Messages = Annotated[list[MessageBody], Field(min_length=1, max_length=MESSAGES)]
TokenId = Annotated[int, Field(ge=0, le=10_000_000), Integer]
Ids = Annotated[list[TokenId], Field(min_length=1)]


class WrittenBody(_Request):
    """Why a token was written, rather than the next likeliest or other words in its place."""

    written: Annotated[int, Field(ge=0, le=10_000_000), Integer] = Field(description="Its number, from 0.")
    than: Name | None = Field(default=None, description="The other words; null: the next likeliest token.")


class ContrastBody(_Request):
    """Why this rather than that: the difference of two scores."""

    this: Label | ClassNumber = Field(examples=["positive"])
    that: Label | ClassNumber = Field(examples=["negative"])


Target = Annotated[Label | ClassNumber | ContrastBody, _or_why(TARGET)]
AnyTarget = Annotated[Label | ClassNumber | ContrastBody | WrittenBody, _or_why(TARGETS)]
Targets = Annotated[Literal["all"] | list[AnyTarget] | None, BeforeValidator(_all_or_some)]


class InputRequest(_Request):
    """A model and what it is given: a text, an image, an image with a text, or a sound; with labels where it chooses
    among them."""

    model: Name = Field(description="A name from /api/info.", examples=["sentiment"])
    text: Text | None = Field(
        default=None,
        description="For models that read text. Always taken as text, even where it looks like a path.",
        examples=["a gorgeous, witty, seductive movie"],
    )
    pair: Text | None = Field(default=None, description="A second text, for models that read pairs.")
    image: str | None = Field(
        default=None,
        description="For models that read images: PNG, JPEG, WebP, GIF or BMP as base64 or as a data URL.",
    )
    sound: str | None = Field(
        default=None,
        description="For models that hear: WAV, FLAC, OGG or MP3 as base64 or as a data URL.",
    )
    labels: list[Name] | None = Field(
        default=None,
        description="For models that choose among texts (chooses in /api/info): these texts, each once. They are the "
        "targets.",
        examples=[["travel", "cooking", "sport"]],
    )


class ExplainRequest(InputRequest):
    """What to explain, how, and for which targets."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model": "sentiment",
                "text": "a gorgeous, witty, seductive movie",
                "methods": ["lrp", "gi"],
                "targets": ["positive", {"this": "positive", "that": "negative"}],
            }
        }
    )
    methods: list[Method] = Field(
        default=["lrp"], min_length=1, description="Names from /api/info.", examples=[["lrp", "gi"]]
    )
    targets: Targets = Field(
        default=None,
        description='null: what the model predicts; "all": its likeliest classes; or a list of labels, class numbers '
        "and contrasts {this, that}; of a continuation also {written, than}: one of its tokens.",
        examples=[None, "all", ["negative"]],
    )
    special_tokens: bool = Field(default=True, description="Keep [CLS], [SEP], … in the answer.")
    messages: Messages | None = Field(
        default=None,
        description="In place of text, where chats in /api/info says so: a conversation, [{role, content}, …].",
    )
    continuation: Short | Ids | None = Field(
        default=None,
        description="Language models: the text whose tokens are explained, or these by their ids as /api/write tells "
        "them.",
    )
    generate: Annotated[int, Field(ge=1), Integer] | None = Field(
        default=None, description="Language models: generate this many tokens and explain them."
    )


class StreamRequest(ExplainRequest):
    """As for /api/explain; the answer comes in lines, each as soon as it is known."""

    faithfulness: bool = Field(
        default=False, description="Then also judge the methods: the model is asked again without what they name."
    )


class WriteRequest(_Request):
    """What a language model is to go on with."""

    model_config = ConfigDict(json_schema_extra={"example": {"model": "", "text": "The capital of France is"}})

    model: Name = Field(description="A name from /api/info; one that writes.")
    text: Text | None = Field(default=None, examples=["The capital of France is"])
    messages: Messages | None = Field(
        default=None,
        description="In place of text, where chats in /api/info says so: a conversation, [{role, content}, …], that "
        "the model answers.",
    )
    generate: Annotated[int, Field(ge=1), Integer] = Field(default=12, description="Tokens to write, at most.")
    method: Method = "lrp"


class WriteFigureRequest(_Request):
    """A prompt, what was written behind it, and the format of the file. The model does not write again."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"model": "", "text": "The capital of France is", "continuation": " Paris."}}
    )

    model: Name = Field(description="A name from /api/info; one that writes.")
    text: Text | None = Field(default=None, examples=["The capital of France is"])
    messages: Messages | None = Field(default=None, description="In place of text, as for /api/write.")
    continuation: Short | Ids = Field(description="What was written: a text, or ids as /api/write tells them.")
    method: Method = "lrp"
    format: WrittenFormat = Field(description=FORMATS)


class _Documents(_Request):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model": "",
                "question": "Where does Anna live?",
                "documents": ["Anna keeps bees in Graz.", "Tom sells honey in Vienna."],
                "answer": "Anna lives in Graz.",
            }
        }
    )

    model: Name = Field(description="A name from /api/info; one that writes.")
    question: Text = Field(min_length=1)
    documents: list[Text] = Field(min_length=1, max_length=32)
    method: Method = "lrp"


class CiteRequest(_Documents):
    """A question, documents, and an answer; without one the model writes it."""

    answer: Text | Ids | None = Field(default=None, description="A text, or ids as /api/cite tells them.")
    generate: Annotated[int, Field(ge=1), Integer] = Field(default=48, description="Tokens to write, at most.")


class CiteFigureRequest(_Documents):
    """A question, documents, the answer that cites them, and the format of the file. The model does not write again."""

    answer: Text | Ids = Field(description="A text, or ids as /api/cite tells them.")
    format: CitedFormat = Field(description=FORMATS)


class SimilarityRequest(_Request):
    """Two inputs that a model embeds: text or image, and pair or pair_image."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"model": "", "text": "A cat sleeps.", "pair": "The kitten naps."}}
    )

    model: Name = Field(description="A name from /api/info; one of kind pair.")
    text: Text | None = Field(default=None, description="The first, as text. Always taken as text.")
    image: str | None = Field(
        default=None,
        description="Or as an image, where sides in /api/info says so: PNG, JPEG, WebP, GIF or BMP as base64 or as a "
        "data URL.",
    )
    pair: Text | None = Field(default=None, description="The second, as text.")
    pair_image: str | None = Field(default=None, description="Or as an image.")
    method: Method = "lrp"
    measure: Literal["cosine", "dot", "maxsim"] | None = Field(
        default=None,
        description="How they are compared: one of measures in /api/info; null for the model's own. maxsim is late "
        "interaction: the first is the query, and each of its tokens counts with its best partner.",
    )


class PairFigureRequest(SimilarityRequest):
    """As for /api/similarity, and the format of the file."""

    format: PairFormat = Field(description=FORMATS)


class TokensRequest(_Request):
    """A text, to be counted in the tokens of a model."""

    model: Name = Field(description="A name from /api/info.", examples=["sentiment"])
    text: Text = Field(examples=["a gorgeous, witty, seductive movie"])
    pair: Text | None = None


class RemoveRequest(InputRequest):
    """An input, and which of its features are taken away."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model": "sentiment",
                "text": "a gorgeous, witty, seductive movie",
                "removed": [2],
                "draws": 5,
            }
        }
    )

    target: Target | None = Field(
        default=None, description="What is explained; null: what the model predicts of the whole input."
    )
    removed: list[Annotated[int, Field(ge=0, le=10_000_000), Integer]] = Field(
        description="Numbers of features, as in the scores of an explanation.", examples=[[2]]
    )
    draws: Annotated[int, Field(ge=0, le=64), Integer] = Field(
        default=0, description="Also take away as many words (patches, moments) at random, this many times."
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1), Integer] = 0


class FigureRequest(ExplainRequest):
    """As for /api/explain, and the format of the file. npz takes one method and one target."""

    format: Format = Field(description=FORMATS)


class AttentionRequest(InputRequest):
    """Whose attention, and of which layer."""

    layer: Annotated[int, Field(ge=0, le=1000), Integer] = Field(
        default=0, description="From 0; the answer says how many there are."
    )
    layers: Annotated[int, Field(ge=1, le=1000), Integer] = Field(
        default=1, description="How many from that one on; as many as fit are in the answer."
    )
    ranks: bool = Field(default=False, description="Also say how relevant and how scattered every head is.")
