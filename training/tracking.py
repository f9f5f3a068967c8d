"""Long texts with needles and chains of variables, and questions whose evidence is known word by word.

After RULER [Hsieh et al. 2024], its tasks "needle in a haystack" and "variable tracking", in a small vocabulary. A text
is a heap of lines in any order:

    the code of anna is 57 .          a needle
    k3 = 21 ;  …  b7 = k3 ;           a chain of variables, in this order, with other lines between
    the river was calm today .        filler

and it is asked for the code of a name, or for the value of a variable: `directly`, or `step by step` with every line of
the chain written out before the answer. All of it is computed for a whole batch at once, where its generator is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
NAMES = tuple(
    "anna bela cora dora emma fred gina hugo iris jack karl lena mona nora otto paul quin rosa sven tina ugo vera "
    "walt xena yara zoe adam bert carl dean erik finn".split()
)
VARIABLES = tuple(f"{letter}{digit}" for letter in "abcdefgh" for digit in range(1, 9))
VALUES = tuple(str(n) for n in range(10, 100))
FILLER = tuple(
    "grass sky sun moon river hill road house garden tree bird dog cat horse boat wind rain snow light night day "
    "morning evening winter summer green blue red white dark bright warm cold calm long short old young quiet near far "
    "slow fast walks runs sings sleeps shines falls grows waits here there again today always never".split()
)
SYNTAX = ("the", "code", "of", "is", "what", "?", "=", ";", ".", "directly", "step", "by", "answer")
WORDS = SPECIAL + SYNTAX + NAMES + VARIABLES + VALUES + FILLER
NUMBER = {word: n for n, word in enumerate(WORDS)}

KINDS = ("needle", "direct", "steps")
"""What can be asked: the code of a name; a variable, directly or step by step."""
DEEP = 4
"""Lines of a chain. A question about its n-th variable takes n of them."""
CHAINS, NEEDLES, FILLERS = 5, 6, 40
"""The most of each in a text."""
WIDE = 8
"""Words of the longest line."""
NEEDLE, LINE = 7, 4
"""Words of a needle, and of a line of a chain."""


class Contexts(NamedTuple):
    """Texts, and what their lines are. Lines of chain c are numbered DEEP·c and on, then come needles, then fillers."""

    words: Tensor
    """(text, place): numbers among `WORDS`; begins with <s>, padded behind the end"""
    lines: Tensor
    """(text, place): the line of each word, −1 outside of all."""
    lengths: Tensor
    variables: Tensor
    """(text, chain, place in the chain)"""
    values: Tensor
    """(text, chain)"""
    names: Tensor
    """(text, needle)"""
    codes: Tensor
    """(text, needle)"""
    chains: Tensor
    """How many chains each text has."""
    needles: Tensor


class Asked(NamedTuple):
    """Questions about texts with their answers behind them."""

    words: Tensor
    """(text, question, place), padded behind the end"""
    answers: Tensor
    """(text, question, place): which of the words are to be written, </s> included"""
    first: Tensor
    """(text, question): the first line that decides …"""
    last: Tensor
    """… and the last: they are those of one chain up to the variable, or one needle."""


def room(size: float = 1.0) -> int:
    """Places that a text of this size takes at most, in eights, which is how attention on a GPU wants its masks."""
    longest = 1 + NEEDLE * NEEDLES + LINE * DEEP * _most_chains(size) + WIDE * _most_fillers(size)
    return 8 * -(-longest // 8)


def _most_chains(size: float) -> int:
    return 2 + round((CHAINS - 2) * size)


def _most_fillers(size: float) -> int:
    return 2 + round((FILLERS - 2) * size)


def make(count: int, generator: torch.Generator, device: torch.device | str = "cpu", size: float = 1.0) -> Contexts:
    """So many texts, drawn with `generator`, which is of the same device; `size` from 0 to 1 bounds how long."""

    def drawn(*shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=generator, device=device)

    def different(words: tuple[str, ...], many: int) -> Tensor:
        return drawn(len(words)).argsort(1)[:, :many] + NUMBER[words[0]]

    variables = different(VARIABLES, CHAINS * DEEP).view(count, CHAINS, DEEP)
    numbers = different(VALUES, CHAINS + NEEDLES)
    values, codes, names = numbers[:, :CHAINS], numbers[:, CHAINS:], different(NAMES, NEEDLES)
    chains = 2 + (drawn() * (_most_chains(size) - 1)).long()
    needles = 1 + (drawn() * NEEDLES).long()
    fillers = (drawn() * (_most_fillers(size) + 1)).long()
    told = torch.cat([_chain_lines(variables, values), _needle_lines(names, codes), _filler_lines(drawn)], 1)
    long = torch.cat([
        _held(chains, CHAINS, LINE).repeat_interleave(DEEP, 1), _held(needles, NEEDLES, NEEDLE),
        _held(fillers, FILLERS, 1) * (4 + (drawn(FILLERS) * (WIDE - 3)).long()),
    ], 1)  # fmt: skip
    told[:, -FILLERS:].scatter_(2, (long[:, -FILLERS:, None] - 1).clamp(min=0), NUMBER["."])
    key = torch.cat([drawn(CHAINS, DEEP).sort(2).values.flatten(1), drawn(NEEDLES + FILLERS)], 1)
    words, lines, lengths = _laid_out(told, long, key.argsort(1), room(size))
    return Contexts(words, lines, lengths, variables, values, names, codes, chains, needles)


def _held(many: Tensor, most: int, length: int) -> Tensor:
    """(text, line): `length` for the first so many, 0 for the others."""
    return (torch.arange(most, device=many.device) < many[:, None]).long() * length


def _lines(*words: str | Tensor) -> Tensor:
    """(…, word), padded to the longest line: words that are the same in all of them, or one for each."""
    each = next(word for word in words if isinstance(word, Tensor))
    made = torch.full((*each.shape, WIDE), NUMBER["<pad>"], device=each.device)
    for n, word in enumerate(words):
        made[..., n] = NUMBER[word] if isinstance(word, str) else word
    return made


def _right_sides(variables: Tensor, values: Tensor) -> Tensor:
    """(text, chain, place): the value, then the variable before."""
    return torch.cat([values[..., None], variables[..., :-1]], -1)


def _chain_lines(variables: Tensor, values: Tensor) -> Tensor:
    return _lines(variables, "=", _right_sides(variables, values), ";").flatten(1, 2)


def _needle_lines(names: Tensor, codes: Tensor) -> Tensor:
    return _lines("the", "code", "of", names, "is", codes, ".")


def _filler_lines(drawn) -> Tensor:
    """Words at random. Their full stop is set where the line ends."""
    return (drawn(FILLERS, WIDE) * len(FILLER)).long() + NUMBER[FILLER[0]]


def _laid_out(told: Tensor, long: Tensor, order: Tensor, places: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lines one behind the other in the given order, behind <s>: words, the line of each, and lengths."""
    count, device = len(told), told.device
    long = long.gather(1, order)
    told = told.gather(1, order[..., None].expand(-1, -1, WIDE))
    ends = 1 + long.cumsum(1)
    inside = torch.arange(WIDE, device=device)
    place = (ends - long)[..., None] + inside
    place = torch.where(inside < long[..., None], place, places).flatten(1)  # what a line has not goes to the last
    words = torch.full((count, places + 1), NUMBER["<pad>"], device=device).scatter_(1, place, told.flatten(1))
    lines = torch.full((count, places + 1), -1, device=device)
    lines.scatter_(1, place, order[..., None].expand(-1, -1, WIDE).flatten(1))
    words[:, 0] = NUMBER["<s>"]
    return words[:, :-1], lines[:, :-1], ends[:, -1]


def ask(kind: str, contexts: Contexts, many: int, generator: torch.Generator) -> Asked:
    """So many questions of a kind about each text; questions about variables are of all depths alike."""
    count, device = len(contexts.words), contexts.words.device

    def below(most: Tensor) -> Tensor:
        return (torch.rand(count, many, generator=generator, device=device) * most).long()

    if kind == "needle":
        which = below(contexts.needles[:, None])
        names, codes = contexts.names.gather(1, which), contexts.codes.gather(1, which)
        return _asked("what is the code of {} ?".split(), names, [codes], which + CHAINS * DEEP)
    chain, depth = below(contexts.chains[:, None]), below(torch.tensor(DEEP, device=device))
    variables = contexts.variables.gather(1, chain[..., None].expand(-1, -1, DEEP))
    values = contexts.values.gather(1, chain)
    wanted, first = variables.gather(2, depth[..., None])[..., 0], chain * DEEP
    if kind == "direct":
        return _asked("what is {} ? directly".split(), wanted, [values], first, depth)
    steps = _steps(variables, values, depth)
    return _asked("what is {} ? step by step".split(), wanted, list(steps.unbind(-1)), first, depth)


def _steps(variables: Tensor, values: Tensor, depth: Tensor) -> Tensor:
    """(text, question, place): "d = c ; c = b ; b = a ; a = 7 ; answer 7", up to </s>, padded behind it."""
    right = _right_sides(variables, values)
    made = torch.full((*depth.shape, LINE * DEEP + 3), NUMBER["<pad>"], device=depth.device)
    for n in range(DEEP):
        at, there = (depth - n).clamp(min=0)[..., None], depth >= n
        words = (variables.gather(2, at)[..., 0], NUMBER["="], right.gather(2, at)[..., 0], NUMBER[";"])
        for k, word in enumerate(words):
            made[..., LINE * n + k] = torch.where(there, word, NUMBER["<pad>"])
    end = LINE * (depth + 1)[..., None]
    made.scatter_(2, end, NUMBER["answer"])
    made.scatter_(2, end + 1, values[..., None])
    return made.scatter_(2, end + 2, NUMBER["</s>"])


def _asked(question: list[str], about: Tensor, answer: list[Tensor], first: Tensor, more: Tensor | int = 0) -> Asked:
    """Words of a question, {} being what it is about, with the answer behind them."""
    shown = [about if word == "{}" else torch.full_like(about, NUMBER[word]) for word in question]
    if len(answer) == 1:
        answer = [*answer, torch.full_like(about, NUMBER["</s>"])]
    words = torch.stack([*shown, *answer], -1)
    written = (torch.arange(words.shape[-1], device=words.device) >= len(question)) & (words != NUMBER["<pad>"])
    return Asked(words, written, first, first + more)


class Case(NamedTuple):
    """One question about one text, in words."""

    context: list[str]
    question: list[str]
    answer: list[str]
    """What is to be written, without </s>; the answer itself is the last word."""
    lines: list[int]
    """The line of each word of the context."""
    evidence: list[int]
    """The lines that decide."""

    @property
    def prompt(self) -> str:
        return " ".join(self.context + self.question)

    def holds(self) -> list[bool]:
        """Which words of the context are in lines that decide."""
        return [line in self.evidence for line in self.lines]

    def decides(self) -> list[bool]:
        """Which of them tell such a line from others: names, variables and values."""
        return [held and word in TELLING for held, word in zip(self.holds(), self.context, strict=True)]


TELLING = frozenset(NAMES + VARIABLES + VALUES)


def case(contexts: Contexts, asked: Asked, n: int, question: int = 0) -> Case:
    """A question about text `n`, in words."""
    length = int(contexts.lengths[n])
    words, written = asked.words[n, question].tolist(), asked.answers[n, question].tolist()
    lines = range(int(asked.first[n, question]), int(asked.last[n, question]) + 1)
    shown = [WORDS[word] for word, own in zip(words, written, strict=True) if not own and word != NUMBER["<pad>"]]
    return Case(
        [WORDS[word] for word in contexts.words[n, 1:length].tolist()], shown,
        [WORDS[word] for word, own in zip(words, written, strict=True) if own][:-1],
        contexts.lines[n, 1:length].tolist(), list(lines),
    )  # fmt: skip
