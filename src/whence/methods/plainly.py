"""Methods for people who do not know them: a name, one sentence, what to beware of."""

from __future__ import annotations

from typing import NamedTuple

from whence.methods.method import class_of

__all__ = ["InWords", "plain"]


class InWords(NamedTuple):
    """What a page says of a method."""

    title: str
    says: str
    """What its scores mean, in one sentence."""
    caveat: str


_OWN_UNIT = "Its scores have no unit: only their order and their proportions mean something."
_NOT_A_CLASS = "It does not look at the class: the same picture for every target, and nothing speaks against."
_GRADIENT = "Saturated parts of the model have no gradient: what matters most can get nothing, or the wrong sign."
_SHARES = "What two words do together is divided between them by convention."

_KNOWN = {
    "lrp": InWords(
        "Relevance propagation",
        "The score, passed back through the model layer by layer, with nothing lost: it ends at words and constants.",
        _SHARES,
    ),
    "exact": InWords(
        "Relevance propagation, exact",
        "The score, passed back through the model layer by layer, with nothing lost: it ends at words and constants.",
        _SHARES,
    ),
    "gi": InWords("Gradient × Input", "How the score would change if a word's vector grew a little.", _GRADIENT),
    "ah": InWords(
        "Propagation, attention held",
        "Gradient × Input with attention held constant.",
        "Norms are passed as plain gradients, so scores do not add up to the target.",
    ),
    "ln": InWords(
        "Propagation, norms held",
        "Gradient × Input with the norms' deviations held constant.",
        "Attention is passed as a plain gradient, so scores do not add up to the target.",
    ),
    "ah_ln": InWords(
        "Propagation, attention and norms held",
        "Gradient × Input with attention and the norms' deviations held constant.",
        "Activations are passed as plain gradients, so scores need not add up to the target.",
    ),
    "cp_lrp": InWords(
        "Conservative propagation",
        "Relevance passed back with attention, norms and gates held constant.",
        "A word that only opens a gate gets nothing for it.",
    ),
    "attn_lrp": InWords(
        "Propagation through attention",
        "Relevance passed back through values and through what attention looks at.",
        _SHARES,
    ),
    "libragrad": InWords(
        "Balanced gradients",
        "Gradient × Input with the gradient's leaks closed.",
        "Made for vision transformers first.",
    ),
    "gim": InWords(
        "Gradient interaction",
        "Gradient × Input with a softer attention, so that what competes for it is seen.",
        "Scores do not add up to the target.",
    ),
    "attcat": InWords(
        "Attention × gradient × state",
        "The words' states in every layer times their gradients, weighted by attention.",
        _OWN_UNIT,
    ),
    "rollout": InWords(
        "Attention rollout", "Where attention leads when its maps are multiplied through all layers.", _NOT_A_CLASS
    ),
    "transformer_attribution": InWords(
        "Transformer attribution",
        "Attention weighted by relevance and gradient, multiplied through the layers.",
        "Nothing speaks against: negative parts are cut off in every layer.",
    ),
    "partial_lrp": InWords(
        "Relevance of the last attention",
        "Relevance of the attention of the last layer alone.",
        "All other layers are left out of account.",
    ),
    "attention_flow": InWords(
        "Attention flow", "How much could flow from each word to the output if attention were pipes.", _NOT_A_CLASS
    ),
    "gae": InWords(
        "Gradient-weighted attention",
        "Attention, where more of it would raise the score, added up through the layers.",
        "Nothing speaks against; most of it often lies at a special token.",
    ),
    "attention_grad_cam": InWords(
        "Attention Grad-CAM",
        "The attention of the last layer, heads weighted by their gradients.",
        "All other layers are left out of account, and nothing speaks against.",
    ),
    "grad_sam": InWords(
        "Gradient self-attention maps",
        "Attention of all layers where more of it would raise the score.",
        "Nothing speaks against: negative gradients are cut off.",
    ),
    "attention_last": InWords("Attention of the last layer", "What the last layer looks at.", _NOT_A_CLASS),
    "integrated_gradients": InWords(
        "Integrated gradients",
        "The gradient, averaged on the way from an empty input to this one.",
        "What counts as empty is a choice, and the scores depend on it.",
    ),
    "occlusion": InWords(
        "Leave one out",
        "How much the score falls when a word is masked.",
        "Words that stand for each other both get nothing: one is still there when the other is gone.",
    ),
    "random": InWords("Random scores", "Numbers drawn at random, as a control.", "They mean nothing, on purpose."),
    "saliency": InWords(
        "Sensitivity",
        "How strongly the score reacts to a small change of a word's vector.",
        "It says how much, not which way: nothing speaks against.",
    ),
    "shap": InWords(
        "SHAP values",
        "How much a word adds on average, over many ways to leave others out.",
        "It asks the model hundreds of times about texts that nobody would write.",
    ),
    "smooth_grad": InWords(
        "Smoothed sensitivity",
        "Sensitivity, averaged over noisy copies of the input.",
        "It says how much, not which way: nothing speaks against.",
    ),
}


def plain(name: str) -> InWords:
    """What is known of a method; of one that somebody added, its own name and its docstring's first line.

    >>> plain("gi").title
    'Gradient × Input'
    """
    if name in _KNOWN:
        return _KNOWN[name]
    told = (class_of(name).__doc__ or "").strip().splitlines()
    return InWords(name, told[0] if told else "", "Nothing is known to beware of.")
