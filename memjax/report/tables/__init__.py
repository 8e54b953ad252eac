"""Every table that this project fills, in one place: the papers' figures, and which run stands beside each.

A module holds the tables of one paper. A new system adds a module here with its `TABLES`; nothing else changes.
"""

from __future__ import annotations

from memjax.config import did_you_mean
from memjax.errors import UserError
from memjax.report.experiments import Table
from memjax.report.tables import compressive, ours, transformer_xl

TABLES: dict[str, Table] = {
    table.id: table for module in (transformer_xl, compressive, ours) for table in module.TABLES
}


def find(table_id: str) -> Table:
    """The table of this id.

    Raises:
      UserError: there is none.
    """
    if table_id not in TABLES:
        suggestion = did_you_mean(table_id, TABLES) or f': one of {", ".join(TABLES)} is'
        raise UserError(f'--table={table_id} is unknown{suggestion}')
    return TABLES[table_id]
