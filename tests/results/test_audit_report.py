"""What an audit prints."""

from __future__ import annotations

import re

from whence.results.audit_report import Audit, AuditRow

LAYERS = ("pooler", "bert.encoder.layer.11.attention.output.LayerNorm")


def test_columns_stand_below_each_other_under_long_names_too():
    shown = str(Audit("m", "exact", "x", 2.0, 4.0, tuple(AuditRow(name, "add", {"bias": 1.0}) for name in LAYERS)))
    heads = re.findall(r"^(?:function|layer) +absorbed +leak", shown, re.MULTILINE)
    rows = re.findall(r"^\S+ +[+-]\S+ +[+-]\S+", shown, re.MULTILINE)
    assert (len(heads), len(rows)) == (2, 3)
    assert len({len(line) for line in heads + rows}) == 1
