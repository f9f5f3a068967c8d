"""Recipes: named tables of choices, one for each kind of function that is not linear.

A transformer is linear but for five kinds of functions. A recipe says what the backward pass does at each:

| field        | choices                                                             | the function                |
|--------------|---------------------------------------------------------------------|-----------------------------|
| `softmax`    | `"detach"`, `"gradient"`, a temperature                             | P = softmax(q k)            |
| `scores`     | a factor on the gradient of q and k                                 | the path through P          |
| `values`     | a factor on the gradient of v                                       | P v                         |
| `activation` | `"gradient"`, `"slope"` f(x)/x, `"gate"` (slope of x·Φ(x) alone)    | GELU, SiLU, tanh, …         |
| `product`    | `"gradient"`, `"half"`, `"detach"` (the gate)                       | act(g) · u, q·k, …          |
| `norm`       | `"gradient"`, `"detach"`, `"detach_mean"`, `"identity"`             | LayerNorm, RMSNorm, …       |
| `linear`     | `Plain()`, `Epsilon(ε)`, `Gamma(γ)`, `ZPlus()`                      | x W + b                     |
| `conv`       | the same                                                            | convolutions                |

`rules` takes functions of the user's own; they win over everything else:

>>> def passed_through(call):                 # treat torch.sin as the identity in the backward pass
...     x = call.args[0]
...     return x + (call.run() - x).detach()
>>> mine = Recipe("mine", softmax="detach", norm="detach", rules={torch.sin: passed_through})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch  # noqa: F401  (the example above)

from whence.registry import Registry

__all__ = ["Epsilon", "Gamma", "LinearRule", "Plain", "Recipe", "ZPlus", "recipes"]


@dataclass(frozen=True)
class Plain:
    """R_i = Σ_j x_i w_ij / z_j · R_j: the gradient itself."""


@dataclass(frozen=True)
class Epsilon:
    """R_i = Σ_j x_i w_ij / (z_j + ε sign z_j) · R_j [Bach 2015]. Weak outputs lose relevance to ε."""

    epsilon: float = 1e-6


@dataclass(frozen=True)
class Gamma:
    """Contributions of the output's own sign count 1 + γ times [Montavon 2019; signed form of Andéol 2021]."""

    gamma: float = 0.25


@dataclass(frozen=True)
class ZPlus:
    """Only contributions of the output's own sign count: γ → ∞."""


LinearRule = Plain | Epsilon | Gamma | ZPlus


@dataclass(frozen=True)
class Recipe:
    """What the backward pass does at each kind of function. Frozen; `recipe.but(norm="identity")` makes another."""

    name: str
    softmax: Literal["detach", "gradient"] | float = "gradient"
    scores: float = 1.0
    values: float = 1.0
    activation: Literal["gradient", "slope", "gate"] = "gradient"
    product: Literal["gradient", "half", "detach"] = "gradient"
    norm: Literal["gradient", "detach", "detach_mean", "identity"] = "gradient"
    linear: LinearRule = Plain()
    conv: LinearRule = Plain()
    rules: Mapping[Callable | str, Callable[..., Any]] = field(default_factory=dict)
    source: str = ""
    """Where the recipe was published."""

    def __post_init__(self) -> None:
        choices = {
            "activation": ("gradient", "slope", "gate"),
            "product": ("gradient", "half", "detach"),
            "norm": ("gradient", "detach", "detach_mean", "identity"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"recipe {self.name!r}: {name}={getattr(self, name)!r} is not one of {allowed}")
        if isinstance(self.softmax, str) and self.softmax not in ("detach", "gradient"):
            raise ValueError(f"recipe {self.name!r}: softmax={self.softmax!r} is not 'detach', 'gradient' or a number")
        for name in ("linear", "conv"):
            if not isinstance(getattr(self, name), LinearRule):
                raise ValueError(f"recipe {self.name!r}: {name} must be Plain(), Epsilon(ε), Gamma(γ) or ZPlus()")

    def but(self, **changes: Any) -> Recipe:
        """The same recipe with some choices changed."""
        return replace(self, **{"name": f"{self.name}*", **changes})

    def save(self, path: str | Path) -> Path:
        """Write the choices as .json; `method="that.json"` then explains with them."""
        from whence.core import recipe_files  # a recipe knows its file format and the format knows it

        return recipe_files.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Recipe:
        """Read what `save` wrote."""
        from whence.core import recipe_files

        return recipe_files.load(path)

    @property
    def conserves(self) -> bool:
        """Whether every unit of relevance ends at an input, a bias or another constant."""
        return (
            self.softmax == "detach"
            and self.activation == "slope"
            and self.product != "gradient"
            and self.norm in ("detach", "identity")
            and not self.rules
        )


recipes: Registry[Recipe] = Registry("recipe")

ALI = "Ali et al. 2022, XAI for Transformers: Better Explanations through Conservative Propagation"
_HALVES: Any = {"scores": 0.25, "values": 0.5, "product": "half"}
for _recipe in (
    Recipe("gi", source="Shrikumar et al. 2016, Gradient×Input"),
    Recipe("ah", softmax="detach", source=ALI),
    Recipe("ln", norm="detach", source=ALI),
    Recipe("ah_ln", softmax="detach", norm="detach", source=ALI),
    Recipe(
        "exact",
        softmax="detach",
        activation="slope",
        product="half",
        norm="detach",
        source="Ali et al. 2022 carried to every nonlinearity: inputs + biases = target",
    ),
    Recipe(
        "cp_lrp",
        softmax="detach",
        product="detach",
        norm="detach",
        source="Ali et al. 2022 with the gate detached, as in LXT (Achtibat et al. 2024)",
    ),
    Recipe("attn_lrp", activation="slope", norm="detach", **_HALVES, source="Achtibat et al. 2024, AttnLRP"),
    Recipe(
        "libragrad",
        softmax="detach",
        activation="gate",
        product="half",
        norm="detach",
        source="Mehri et al. 2025, LibraGrad",
    ),
    Recipe("gim", softmax=2.0, norm="detach", **_HALVES, source="Edin et al. 2025, Gradient Interaction Modifications"),
):
    recipes.add(_recipe.name, _recipe)
