"""SHAP values by the partition explainer of the `shap` library."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from whence.errors import InputError
from whence.extras import need
from whence.methods.method import AbstractMethod, methods
from whence.methods.perturbation import Original, check_deletion, originals
from whence.models.adapter import AbstractAdapter
from whence.models.example import Example
from whence.models.scoring import Scorer
from whence.models.targets import AbstractTarget
from whence.options import Least
from whence.results import Conservation, Explanation

__all__ = ["Shap"]


@methods.register("shap")
@dataclass(frozen=True, kw_only=True)
class Shap(AbstractMethod):
    """Owen values on a tree of features, by the partition explainer of the `shap` library   [Lundberg & Lee 2017].

    A group of features earns v(S ∪ group) − v(S), the change of the score when it appears beside the features S; the
    tree splits groups into halves down to single features. Σ R_i = f(x) − v(∅), and the receipt has v(∅), the score
    with every feature replaced, as the sink `base`.

    Text has the tree of `shap.maskers.Text`: pieces of words first, then neighbours, clauses late. Images are halved
    along their longer side. For games without interaction, any tree gives Shapley's values.

    `shap.Explainer(f, tokenizer)` masks strings that `f` tokenizes again. Here ids are replaced, and the model gets
    full batches without padding to its maximum. Values are the same wherever text with masks in it comes back as the
    same ids: a piece of a word beside a mask does not, because the tokenizer then takes it for a word of its own.
    """

    cost: ClassVar[str] = "2 forwards per feature (features² without fixed_context), at most max_evals"

    max_evals: Annotated[int, Least(2)] = 500
    """The most masked inputs per example. Groups that are not split by then share their credit equally."""
    fixed_context: Literal[0, 1] | None = 1
    """What a group appears beside: everything else (1), nothing (0), or the mean of both at every split (None: Owen
    values proper, for about features² forwards, as `shap` does by default). With 0 and 1, what two halves only do
    together is shared equally over the features of both: of a text that says the same twice all words score alike,
    and None tells them apart."""
    fill: str = "mask"
    """What comes instead of a feature: the tokenizer's `mask`, `unk` or `pad` token, or nothing, `delete`; in images
    `black`, the `mean` colour or `zero`. A tokenizer without a mask token uses unk, pad or eos, in that order."""
    collapse: bool = False
    """One token for a run of replaced ones. (`shap` does this only for tokenizers without a mask token.)"""
    special: Literal["kept", "out", "masked"] = "kept"
    """Special tokens: `kept` are never replaced but are leaves of the tree, so they share in interactions (as in
    `shap`); `out` of the tree they score 0; `masked` they are replaced like all others."""

    def explain(
        self, model: AbstractAdapter, examples: Sequence[Example], targets: Sequence[AbstractTarget]
    ) -> list[Explanation]:
        shap = need("shap", "shap", "shap")
        model.check_fill(self.fill)
        if self.collapse and not examples[0].tokens:
            raise InputError("collapse=True is for text: patches of an image can't be taken out")
        scorer = Scorer(model, progress=None)
        found = originals(model, examples, targets, scorer)
        games = [Game(model, e, o, self, scorer) for e, o in zip(examples, found, strict=True)]
        trees = [game.tree() for game in games]
        self._foresee(games, trees, scorer)
        return [self._explained(shap, game, tree) for game, tree in zip(games, trees, strict=True)]

    def _foresee(self, games: Sequence[Game], trees: Sequence[np.ndarray], scorer: Scorer) -> None:
        """Score what the explainer will ask for, of all examples at once, in full batches."""
        wanted = [list(_coalitions(tree, self.fixed_context, self.max_evals)) for tree in trees]
        inputs = [game.input(mask) for game, masks in zip(games, wanted, strict=True) for mask in masks]
        goals = [game.original.goal for game, masks in zip(games, wanted, strict=True) for _ in masks]
        values = iter(scorer.scores(inputs, goals) if inputs else ())
        for game, masks in zip(games, wanted, strict=True):
            game.known.update({mask.tobytes(): float(next(values)) for mask in masks})

    def _explained(self, shap: Any, game: Game, tree: np.ndarray) -> Explanation:
        base, whole = game(np.array([[False], [True]]).repeat(game.players.size, 1))
        scores = np.zeros(game.example.count)
        if game.players.size == 1:
            scores[game.players] = whole - base
        elif game.players.size > 1:
            explainer = shap.explainers.PartitionExplainer(game, Masks(tree))
            with _numpy_seeded():
                row = explainer(
                    np.zeros((1, game.players.size)),
                    max_evals=self.max_evals,
                    fixed_context=self.fixed_context,
                    batch_size=5 if game.example.tokens else 10,  # the library's: decides which groups go first
                    silent=True,
                )
            scores[game.players] = row.values[0]
        return self.build(
            game.model,
            game.example,
            scores=scores,
            target=game.original.goal.name,
            target_score=float(whole),
            prediction=game.original.prediction,
            conservation=Conservation(inputs=float(scores.sum()), target=float(whole), sinks={"base": float(base)}),
        )


@dataclass(eq=False)
class Game:
    """The score of one input as a function of the set of features that it keeps."""

    model: AbstractAdapter
    example: Example
    original: Original
    options: Shap
    scorer: Scorer
    known: dict[bytes, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.options.fill == "delete" or self.options.collapse:
            check_deletion(self.example, self.original.goal)
        out = self.example.special if self.options.special == "out" else np.zeros(self.example.count, dtype=bool)
        self.players = np.flatnonzero(~out)
        """The features that play: leaves of the tree."""

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Scores of several sets, (set, player) bool."""
        new = {mask.tobytes(): mask for mask in masks if mask.tobytes() not in self.known}
        if new:
            values = self.scorer.scores([self.input(m) for m in new.values()], [self.original.goal] * len(new))
            self.known.update(zip(new, map(float, values), strict=True))
        return np.array([self.known[mask.tobytes()] for mask in masks])

    def input(self, mask: np.ndarray) -> Example:
        """The input that keeps the players in `mask`."""
        keep = np.ones(self.example.count, dtype=bool)
        keep[self.players] = mask
        if self.options.special != "masked":
            keep |= self.example.special
        masked = self.model.masked(self.example, keep, self.options.fill)
        if not self.options.collapse or self.options.fill == "delete":
            return masked
        first_of_run = ~keep & np.concatenate([[True], keep[:-1]])
        return self.model.masked(masked, keep | first_of_run, "delete")

    def tree(self) -> np.ndarray:
        """The hierarchy of players, as scipy writes linkages: left, right, height, size."""
        if self.players.size < 2:
            return np.zeros((0, 4))
        if self.model.kind != "text":
            shape = self.example.parts[0].shape
            return _halves(*(shape if len(self.example.parts) == 1 and len(shape) == 2 else (1, self.players.size)))
        pieces = _pieces(self.example)
        return _clauses([pieces[i] for i in self.players], self.model.separator)


class Masks:
    """What the explainer needs of a masker: it hands masks on as they are, to the game."""

    immutable_outputs = True

    def __init__(self, tree: np.ndarray):
        self.clustering = tree
        self.shape = (1, len(tree) + 1)

    def __call__(self, mask: np.ndarray, _: np.ndarray) -> tuple[np.ndarray]:
        return (mask.reshape(1, -1).copy(),)


_numpy_generator = threading.RLock()
"""Threads share numpy's global generator."""


@contextmanager
def _numpy_seeded() -> Iterator[None]:
    """The explainer breaks ties with numpy's global generator: give it the same numbers each time, then put it back."""
    with _numpy_generator:
        state = np.random.get_state()
        np.random.seed(0)
        try:
            yield
        finally:
            np.random.set_state(state)


def _coalitions(tree: np.ndarray, fixed_context: int | None, limit: int) -> Iterator[np.ndarray]:
    """Every set of players that the explainer will score, or none where it would have to choose among them."""
    if not len(tree):
        return
    count = len(tree) + 1
    members = np.eye(2 * count - 1, count, dtype=bool)
    for n, (left, right) in enumerate(tree[:, :2].astype(int)):
        members[count + n] = members[left] | members[right]
    found = {row.tobytes(): row for row in (np.zeros(count, dtype=bool), np.ones(count, dtype=bool))}
    todo, asked = [(2 * count - 2, np.zeros(count, dtype=bool))], 2
    while todo:
        node, beside = todo.pop()
        if node < count:
            continue
        left, right = tree[node - count, :2].astype(int)
        for one, other in ((left, right), (right, left)):
            with_other = beside | members[other]
            found[with_other.tobytes()] = with_other
            todo += [(one, beside)] if fixed_context != 1 else []
            todo += [(one, with_other)] if fixed_context != 0 else []
        asked += 2
        if asked > limit:
            return
    yield from found.values()


def _pieces(example: Example) -> list[str]:
    """Tokens with the white space behind them, as `shap.maskers.Text` cuts a text; special tokens are empty."""
    offsets = example.parts[0].offsets
    if offsets and example.text is not None and len(example.parts) == 1 and not example.parts[0].sides:
        starts = [start for start, _ in offsets[1:]] + [0]
        return [example.text[a : max(b, c)] for (a, b), c in zip(offsets, starts, strict=True)]
    return ["" if s else token for token, s in zip(example.tokens, example.special, strict=True)]


def _clauses(pieces: list[str], separator: str | None) -> np.ndarray:
    """The tree of `shap.maskers.Text.clustering` over pieces of text."""
    from shap.maskers._text import partition_tree

    marked: list[str] = []
    for i, piece in enumerate(pieces):
        goes_on = i > 0 and re.match(r"^.*\W$", pieces[i - 1]) is None and re.match(r"^[A-Za-z]", piece) is not None
        marked.append(f"##{piece.strip()}" if goes_on and marked[-1] != "" else piece.strip())
    tree: np.ndarray = partition_tree(marked, [separator] if separator else [])
    tree[:, 2] = tree[:, 3] / tree[:, 3].max()  # heights: only their sign matters, and negative ones are never split
    return tree


def _halves(rows: int, columns: int) -> np.ndarray:
    """A grid halved along its longer side, again and again."""
    tree: list[tuple[float, float, float, float]] = []
    places = np.arange(rows * columns).reshape(rows, columns)

    def grow(part: np.ndarray) -> int:
        if part.size == 1:
            return int(part.item())
        axis = int(part.shape[1] >= part.shape[0])
        first, second = (grow(half) for half in np.array_split(part, 2, axis))
        tree.append((first, second, part.size / places.size, part.size))
        return places.size + len(tree) - 1

    grow(places)
    return np.array(tree)
