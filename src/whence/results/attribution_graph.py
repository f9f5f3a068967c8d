"""An attribution graph: how relevance came from tokens, through the heads and MLPs of every layer, to the target."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whence.errors import InputError
from whence.results.showing import Drawn, Writers
from whence.results.stored import opened, spelled

__all__ = ["AttributionGraph", "Edge"]

FORMAT = 1


class Edge(NamedTuple):
    """Relevance that a node has by way of another one."""

    layer: int
    """The block it goes through: from row `layer` to row `layer + 1`."""
    source: int
    """Token that it comes from."""
    target: int
    """Token that it goes to. Only heads go from one token to another."""
    by: str
    """"head 3", "mlp", or "skip": what is left of a token by itself."""
    weight: float


@dataclass(frozen=True, eq=False)
class AttributionGraph(Drawn):
    """Nodes are tokens in rows of the residual stream; row 0 is what the first block reads, row n what block n gives.

    All edges out of a node sum to its relevance; all edges into a node, and what constants of the block (biases) add to
    it, do so too. Edges that carry little are left out: `kept` says how much is there.

    >>> graph = AttributionGraph(np.array([[1.0, 2.0], [0.0, 3.0]]), (Edge(0, 1, 1, "skip", 2.0),
    ...                          Edge(0, 0, 1, "head 0", 1.0)), ("a", "b"), np.zeros((1, 2)), layers=("block",))
    >>> graph.into(1, 1)[0].by, graph.out_of(0, 0)[0].weight
    ('skip', 1.0)
    """

    relevance: np.ndarray
    """(row, token)."""
    edges: tuple[Edge, ...]
    """The strongest first."""
    tokens: tuple[str, ...]
    constants: np.ndarray
    """(layer, token): what biases and other constants of a block add to each of its tokens."""
    layers: tuple[str, ...] = ()
    """Names of the blocks."""
    heads: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """(layer, head): all that goes through a head, edges that are left out included."""
    kept: tuple[float, ...] = ()
    """For each layer, the share of all its edges' |weight| that is in `edges`."""
    target: str = ""
    target_score: float = float("nan")
    probability: float | None = None
    """Of the target, where that is one of the model's likeliest answers."""
    method: str = ""
    text: str | None = None
    stamp: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows, tokens = self.relevance.shape
        if tokens != len(self.tokens) or self.constants.shape != (rows - 1, tokens):
            raise ValueError(f"{rows} rows of {tokens} tokens do not fit {len(self.tokens)} names")

    def __len__(self) -> int:
        return len(self.edges)

    # -- reading ---------------------------------------------------------------------------------------------

    def into(self, row: int, token: int) -> list[Edge]:
        """Edges that end in a node, the strongest first."""
        return [e for e in self.edges if e.layer + 1 == row and e.target == token]

    def out_of(self, row: int, token: int) -> list[Edge]:
        """Edges that begin in a node, the strongest first."""
        return [e for e in self.edges if e.layer == row and e.source == token]

    def top(self, count: int = 10, *, between: bool = True) -> list[Edge]:
        """The strongest edges: `between` tokens, or those of a token with itself as well."""
        return [e for e in self.edges if not between or e.source != e.target][:count]

    def named(self, row: int, token: int) -> str:
        """What a node is called."""
        return f"{self.tokens[token]!r} {'at the input' if row == 0 else f'after layer {row - 1}'}"

    # -- files -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Nodes and links as viewers of attribution graphs read them, and under "whence" what they do not."""
        used = sorted({(e.layer, e.source) for e in self.edges} | {(e.layer + 1, e.target) for e in self.edges})
        top = len(self.layers)
        ends = [(row, token) for row, token in used if row == top]
        last = max((token for _, token in ends), default=len(self.tokens) - 1)
        goal = f"{top + 1}_0_{last}"
        likely = "?" if self.probability is None else f"{self.probability:.3f}"
        nodes = [self._node(node, before) for node, before in _ranked(used, self.relevance).items()]
        label = f'Output "{self.target}" (p={likely})'  # viewers read the probability from there, and fail without one
        nodes.append(_node(goal, str(top + 1), last, "logit", label, self.target_score))
        nodes[-1] |= {"is_target_logit": True, "token_prob": self.probability or 0.0}
        return {
            "metadata": {
                "slug": "whence", "scan": str(self.stamp.get("model", "")), "transcoder_list": [],
                "prompt": self.text or "".join(self.tokens), "prompt_tokens": list(self.tokens), "node_threshold": 1.0,
                "info": {"generator": {"name": "whence", "version": str(self.stamp.get("whence", ""))}},
            },
            "qParams": {"linkType": "both", "pinnedIds": [], "clickedId": goal, "supernodes": [], "sg_pos": ""},
            "nodes": nodes,
            "links": self._links() + [_link(_id(*end), goal, [("output", float(self.relevance[end]))]) for end in ends],
            "whence": {
                "format": FORMAT, "relevance": self.relevance.tolist(), "constants": self.constants.tolist(),
                "heads": self.heads.tolist(), "layers": list(self.layers), "kept": list(self.kept),
                "edges": [list(e) for e in self.edges], "target": self.target, "target_score": self.target_score,
                "probability": self.probability, "method": self.method, "text": self.text, "stamp": self.stamp,
            },
        }  # fmt: skip

    def _links(self) -> list[dict[str, Any]]:
        """One for each two nodes: viewers know no second way between them."""
        ways: dict[tuple[str, str], list[tuple[str, float]]] = {}
        for e in self.edges:
            ways.setdefault((_id(e.layer, e.source), _id(e.layer + 1, e.target)), []).append((e.by, e.weight))
        return [_link(source, target, by) for (source, target), by in ways.items()]

    def _node(self, node: tuple[int, int], influence: float) -> dict[str, Any]:
        row, token = node
        kind = "embedding" if row == 0 else "cross layer transcoder"  # a kind that viewers draw
        layer = "E" if row == 0 else str(row - 1)
        made = _node(_id(row, token), layer, token, kind, self.named(row, token), float(self.relevance[row, token]))
        return made | {"influence": influence}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AttributionGraph:
        own = data.get("whence") if isinstance(data, dict) else None
        if not isinstance(own, dict) or own.get("format") != FORMAT:
            raise InputError("this is no graph that whence wrote; make one with whence.graph(…).save('graph.json')")
        return cls(
            relevance=np.array(own["relevance"]),
            edges=tuple(Edge(int(a), int(b), int(c), str(by), float(w)) for a, b, c, by, w in own["edges"]),
            tokens=tuple(data["metadata"]["prompt_tokens"]),
            constants=np.array(own["constants"]),
            layers=tuple(own["layers"]),
            heads=np.array(own["heads"]),
            kept=tuple(own["kept"]),
            target=own["target"],
            target_score=own["target_score"],
            probability=own.get("probability"),
            method=own["method"],
            text=own["text"],
            stamp=own["stamp"],
        )

    def _writers(self) -> Writers:
        """The .json is what `load` and viewers of attribution graphs read."""
        return {".json": lambda: spelled(self.to_dict())}

    @classmethod
    def load(cls, path: str | Path) -> AttributionGraph:
        """Read what `save` wrote as .json."""
        with opened(path, "whence.AttributionGraph", ".json") as (data, _):
            return cls.from_dict(data)

    def __repr__(self) -> str:
        rows, tokens = self.relevance.shape
        return f"AttributionGraph({self.target!r}, {rows} × {tokens} nodes, {len(self.edges)} edges)"


def _id(row: int, token: int) -> str:
    """Layer, feature (there is one), place: as viewers take names apart."""
    return f"{'E' if row == 0 else row - 1}_0_{token}"


def _ranked(nodes: list[tuple[int, int]], relevance: np.ndarray) -> dict[tuple[int, int], float]:
    """Each node with the share of all |relevance| that it and the stronger ones have: viewers hide by it."""
    sizes = np.array([abs(relevance[node]) for node in nodes])
    order = np.argsort(-sizes, kind="stable")
    shares = np.minimum(np.cumsum(sizes[order]) / (sizes.sum() or 1.0), 1.0)
    return {nodes[n]: float(share) for n, share in sorted(zip(order.tolist(), shares, strict=True))}


def _link(source: str, target: str, by: list[tuple[str, float]]) -> dict[str, Any]:
    return {"source": source, "target": target, "weight": sum(weight for _, weight in by), "by": dict(by)}


def _node(name: str, layer: str, token: int, kind: str, label: str, relevance: float) -> dict[str, Any]:
    return {
        "node_id": name, "jsNodeId": f"{name}-0", "feature": 0, "layer": layer, "ctx_idx": token, "feature_type": kind,
        "clerp": label, "token_prob": 0.0, "is_target_logit": False, "run_idx": 0, "reverse_ctx_idx": 0,
        "influence": 0.0, "activation": relevance,
    }  # fmt: skip
