"""An audit as a page, in a notebook, and as a table for papers: where every unit of relevance went."""

from __future__ import annotations

import html
from collections.abc import Sequence

from whence.results.audit_report import Audit, AuditRow
from whence.results.showing import draws
from whence.viz.axes import signed
from whence.viz.cards import Card, report
from whence.viz.html import CARD
from whence.viz.relevance_flow import conservation_flow
from whence.viz.tabular import Grid, latex, notebook
from whence.viz.verdicts import verdict

__all__ = ["account", "fragment", "page", "table_of", "tex"]


def table_of(audit: Audit, rows: Sequence[AuditRow], name: str) -> Grid:
    """What functions or layers absorb, by kind, and what leaks; those that do neither are left out."""
    kinds = list(dict.fromkeys(kind for row in audit.rows for kind in row.sinks))
    least = 1e-6 * max(1.0, abs(audit.target_score))
    kept = [row for row in rows if abs(row.absorbed) + abs(row.leak) >= least]
    cells = [
        (
            row.function or row.layer or "(model)",
            *(f"{row.sinks[kind]:+.4f}" if kind in row.sinks else "" for kind in kinds),
            f"{row.absorbed:+.4f}",
            f"{row.leak:+.1e}",
        )
        for row in kept
    ]
    return Grid.of(name, (name, *kinds, "absorbed", "leak"), cells)


def account(audit: Audit) -> Grid:
    """The receipt: inputs, sinks and what is not accounted for are the target."""
    receipt = audit.conservation
    rows = [("inputs", receipt.inputs), *receipt.sinks.items(), ("not accounted for", receipt.error)]
    cells = [(name, f"{amount:+.4f}" if name != "not accounted for" else f"{amount:+.1e}") for name, amount in rows]
    return Grid.of(
        "The receipt",
        ("", "relevance"),
        [*cells, (f"= {audit.target}", f"{receipt.target:+.4f}")],
        strong=frozenset({(len(cells), 0), (len(cells), 1)}),
        notes=(f"Functions without a rule: {', '.join(audit.unruled)}.",) if audit.unruled else (),
    )


@draws(Audit, "html")
def page(audit: Audit) -> str:
    """Verdict, flow through the layers, receipt, tables by layer and by function."""
    return report(
        title=f"Where {audit.target} = {signed(audit.target_score)} went",
        verdict=verdict(audit),
        parts=[
            Card("From the target down to the inputs", (conservation_flow(audit),)),
            Card("The receipt", (account(audit),)),
            Card("By layer", (table_of(audit, audit.by_layer(), "layer"),)),
            Card("By function", (table_of(audit, audit.by_function(), "function"),)),
        ],
        stamp={"model": audit.model, "recipe": audit.recipe, "target": audit.target},
    )


@draws(Audit, "notebook")
def fragment(audit: Audit) -> str:
    """Verdict, flow and receipt in one <div>."""
    return (
        f'<div style="{CARD}"><div><b>{html.escape(verdict(audit))}</b></div>'
        f'<div style="overflow-x:auto">{conservation_flow(audit).svg}</div>{notebook(account(audit))}</div>'
    )


@draws(Audit, "tex")
def tex(audit: Audit) -> str:
    """What each layer absorbs."""
    return latex(table_of(audit, audit.by_layer(), "layer"))
