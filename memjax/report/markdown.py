"""Pieces of Markdown that the results are written with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars within a cell are kept from being read as its borders."""
    lines = [head, ['---'] * len(head), *rows]
    return '\n'.join(f'| {" | ".join(cell.replace("|", chr(92) + "|") for cell in line)} |' for line in lines)


def link(text: str, path: str) -> str:
    """A link."""
    return f'[{text}]({path})'


def section(title: str, anchor: str, *paragraphs: str) -> str:
    """A section of the page under an anchor; empty paragraphs are left out."""
    return '\n\n'.join([f'<a id="{anchor}"></a>\n\n## {title}', *filter(None, paragraphs)])
