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

`recipes.add("mine", mine)` makes it a method: `whence.explain(model, text, method="mine")`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch  # noqa: F401  (the example above)

from whence.errors import InputError
from whence.files import write
from whence.options import Above, Least, Options
from whence.registry import Registry

__all__ = ["Epsilon", "Gamma", "LinearRule", "Plain", "Recipe", "ZPlus", "recipes"]

FORMAT = 1
Factor = Annotated[float, Least(0)]


@dataclass(frozen=True)
class Plain(Options):
    """R_i = Σ_j x_i w_ij / z_j · R_j: the gradient itself."""


@dataclass(frozen=True)
class Epsilon(Options):
    """R_i = Σ_j x_i w_ij / (z_j + ε sign z_j) · R_j [Bach 2015]. Weak outputs lose relevance to ε."""

    epsilon: Factor = 1e-6


@dataclass(frozen=True)
class Gamma(Options):
    """Contributions of the output's own sign count 1 + γ times [Montavon 2019; signed form of Andéol 2021]."""

    gamma: Factor = 0.25


@dataclass(frozen=True)
class ZPlus(Options):
    """Only contributions of the output's own sign count: γ → ∞."""


LinearRule = Plain | Epsilon | Gamma | ZPlus
LINEAR: dict[str, type] = {"plain": Plain, "epsilon": Epsilon, "gamma": Gamma, "zplus": ZPlus}


@dataclass(frozen=True)
class Recipe(Options):
    """What the backward pass does at each kind of function. Frozen; `recipe.but(norm="identity")` makes another."""

    name: str
    softmax: Literal["detach", "gradient"] | Annotated[float, Above(0)] = "gradient"
    scores: Factor = 1.0
    values: Factor = 1.0
    activation: Literal["gradient", "slope", "gate"] = "gradient"
    product: Literal["gradient", "half", "detach"] = "gradient"
    norm: Literal["gradient", "detach", "detach_mean", "identity"] = "gradient"
    linear: LinearRule = Plain()
    conv: LinearRule = Plain()
    rules: Mapping[Any, Any] = field(default_factory=dict)
    """Torch function, or its name, to a function from a `Call` to a value."""
    source: str = ""
    """Where the recipe was published."""

    def but(self, **changes: Any) -> Recipe:
        """The same recipe with some choices changed."""
        return replace(self, **{"name": f"{self.name}*", **changes})

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

    # -- as a file -------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The table of choices. Rules of the user's own are code, which a file does not hold."""
        if self.rules:
            raise InputError(
                f"recipe {self.name!r} has rules of its own ({len(self.rules)}): functions can't be saved. "
                "Save recipe.but(rules={}) and add the rules again after loading"
            )
        choices = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("linear", "conv", "rules")}
        return {"format": FORMAT, **choices, "linear": _spelled(self.linear), "conv": _spelled(self.conv)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Recipe:
        if not isinstance(data, dict) or data.get("format") != FORMAT or "name" not in data:
            raise InputError(f"this is no recipe of format {FORMAT}; write one with recipe.save('mine.json')")
        known = [f.name for f in fields(cls) if f.name != "rules"]
        unknown = sorted(set(data) - {*known, "format"})
        if unknown:
            raise InputError(f"a recipe has no {', '.join(map(repr, unknown))}; its choices: {', '.join(known[1:])}")
        chosen: dict[str, Any] = {name: data[name] for name in known if name in data}
        chosen |= {name: _read(chosen[name]) for name in ("linear", "conv") if name in chosen}
        return cls(**chosen)

    def save(self, path: str | Path) -> Path:
        """Write the choices as .json; `method="that.json"` then explains with them."""
        path = Path(path)
        if path.suffix.lower() != ".json":
            raise InputError(f"recipes are saved as .json, not {path.name!r}")
        return write(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Recipe:
        """Read what `save` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(f"no such recipe: {str(path)!r}") from None
        except json.JSONDecodeError as error:
            raise InputError(f"{str(path)!r} is not JSON: {error}") from None


def _spelled(rule: LinearRule) -> dict[str, Any]:
    return {"rule": next(name for name, kind in LINEAR.items() if isinstance(rule, kind)), **asdict(rule)}


def _read(data: Any) -> LinearRule:
    options = dict(data) if isinstance(data, dict) else {}
    kind = LINEAR.get(options.pop("rule", ""))
    if kind is None:
        raise InputError(f"a linear rule is {{'rule': NAME}}, NAME one of {', '.join(LINEAR)}; got {data!r}")
    try:
        made: LinearRule = kind(**options)
        return made
    except TypeError as error:
        raise InputError(f"linear rule {data!r}: {error}") from None


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
    Recipe(
        "attn_lrp",
        activation="slope",
        norm="detach",
        **_HALVES,
        source="Achtibat et al. 2024, AttnLRP; Dual Path Attribution (arXiv 2603.19742) is the same to 9e-8",
    ),
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
