"""Through its own text: what a model wrote earlier passes its relevance on to where that came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from whence.errors import InputError
from whence.results.conservation import Conservation
from whence.results.explanation import Explanation

__all__ = ["Hops", "passed_on"]

Hops = int | Literal["all"]
LITTLE = 0.01
"""Share of what is explained that may lie at the model's own text when "all" hops are done."""
MOST = 1.0
"""The most that a written token is multiplied by. It was explained by its lead over the next best token; where that is
smaller than what it should pass on, so much as was explained is passed on and the rest stays."""


def passed_on(
    made: Explanation,
    places: Sequence[tuple[int, int]],
    scores: Sequence[float],
    go_back: Callable[[list[float]], Explanation],
    hops: Hops,
) -> Explanation:
    """`made`, with what lies at written tokens passed on.

    R⁰ is the relevance of the target. In each hop every row w of what was written, which holds R_w and whose own score
    is s_w, is explained with the weight R_w / s_w, all of them in one pass. What arrives at the prompt stays there;
    what arrives at the written text is passed on by the next hop. Prompt + what is left at the text + sinks = target.

    Arguments:
        places: of each row of what was written, the columns of its tokens: the first, and the one behind the last.
        scores: s_w of each row.
        go_back: weights of the rows to the explanation of their weighted sum.
        hops: how many at most; "all" goes on until little is left.
    """
    if hops != "all" and (not isinstance(hops, int) or isinstance(hops, bool) or hops < 0):
        raise InputError(f"hops={hops!r} is no number of hops: pass one, or 'all'")
    columns = [column for a, b in places for column in range(a, b)]
    if len(set(columns)) < len(columns):
        raise InputError(
            "several rows of this trace share a column, so nobody knows what each of them passes on: take units after "
            "the hops, trace.span(…, hops=…).by(…), or the same for rows and columns, trace.by('word', rows='word')"
        )
    shape, own = made.scores.shape, np.array(scores, dtype=np.float64)
    total = made.scores.reshape(-1).astype(np.float64)
    arrived, receipts, passed, done = total.copy(), [made.conservation], 0.0, 0
    enough = LITTLE * max(abs(made.target_score), 1e-12)
    most = len(columns) if hops == "all" else hops  # each goes back by a token, or stays in a sentence
    while done < most:
        held = np.array([arrived[a:b].sum() for a, b in places])
        weights = np.clip(np.divide(held, own, out=np.zeros_like(held), where=own != 0), -MOST, MOST)
        given = weights * own
        if np.abs(given).sum() <= (enough if hops == "all" else 0.0):
            break
        for (a, b), whole, part in zip(places, held, given, strict=True):
            if part:
                total[a:b] -= arrived[a:b] * (part / whole)
        step = go_back(weights.tolist())
        arrived = step.scores.reshape(-1).astype(np.float64)
        total += arrived
        receipts.append(step.conservation)
        passed += float(given.sum())
        done += 1
    return replace(
        made,
        scores=total.reshape(shape),
        conservation=_receipt(receipts, passed),
        options={**made.options, "hops": done},
    )


def _receipt(receipts: Sequence[Conservation | None], passed: float) -> Conservation | None:
    """One for the whole chain: what was passed on is counted where it ended."""
    known = [receipt for receipt in receipts if receipt is not None]
    if len(known) < len(receipts):
        return None
    chain = Conservation.added(known)
    return replace(chain, inputs=chain.inputs - passed, target=known[0].target)
