"""The result of `whence.audit`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field

from whence.results.conservation import Conservation
from whence.results.showing import Drawn, Writers
from whence.results.stored import spelled

__all__ = ["Audit", "AuditRow"]

NAME = 40
"""Characters that a name has in the table; more where one is longer."""


@dataclass(frozen=True)
class AuditRow:
    """One function in one layer."""

    layer: str
    function: str
    sinks: dict[str, float] = field(default_factory=dict)
    """What its rule says it absorbed, by kind."""
    leak: float = 0.0
    """What the scales say it absorbed beyond that."""

    @property
    def absorbed(self) -> float:
        return sum(self.sinks.values())


@dataclass(frozen=True)
class Audit(Drawn):
    """Every unit of relevance, by function and layer."""

    model: str
    recipe: str
    target: str
    inputs: float
    target_score: float
    rows: tuple[AuditRow, ...]
    unruled: tuple[str, ...] = ()

    @property
    def conservation(self) -> Conservation:
        sinks: dict[str, float] = defaultdict(float)
        for row in self.rows:
            for kind, amount in row.sinks.items():
                sinks[kind] += amount
        return Conservation(self.inputs, self.target_score, dict(sinks), self.unruled)

    def by_function(self) -> list[AuditRow]:
        return self._grouped(lambda row: ("", row.function))

    def by_layer(self) -> list[AuditRow]:
        return self._grouped(lambda row: (row.layer, ""))

    def _grouped(self, key) -> list[AuditRow]:  # type: ignore[no-untyped-def]
        groups: dict[tuple[str, str], list[AuditRow]] = defaultdict(list)
        for row in self.rows:
            groups[key(row)].append(row)
        made = []
        for (layer, function), rows in groups.items():
            sinks: dict[str, float] = defaultdict(float)
            for row in rows:
                for kind, amount in row.sinks.items():
                    sinks[kind] += amount
            made.append(AuditRow(layer, function, dict(sinks), sum(r.leak for r in rows)))
        return sorted(made, key=lambda row: -(abs(row.absorbed) + abs(row.leak)))

    def _writers(self) -> Writers:
        return {".json": lambda: spelled(asdict(self), indent=1)}

    def __str__(self) -> str:
        lines = [f"{self.model}, recipe {self.recipe}, target {self.target}", str(self.conservation), ""]
        tables = {"function": self._named(self.by_function()), "layer": self._named(self.by_layer())}
        width = max([NAME, *(len(name) for rows in tables.values() for name, _ in rows)])
        for title, rows in tables.items():
            lines.append(f"{title:<{width}} {'absorbed':>10} {'leak':>10}  kinds")
            for name, row in rows:
                lines.append(f"{name:<{width}} {row.absorbed:>+10.4f} {row.leak:>+10.1e}  {', '.join(row.sinks)}")
            lines.append("")
        return "\n".join(lines).rstrip()

    def _named(self, rows: list[AuditRow]) -> list[tuple[str, AuditRow]]:
        """Rows that are not as good as nothing, and what they are called."""
        least = 1e-6 * max(1.0, abs(self.target_score))
        kept = [row for row in rows if abs(row.absorbed) + abs(row.leak) >= least]
        return [(row.function or row.layer or "(model)", row) for row in kept]
