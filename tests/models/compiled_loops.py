"""What a compiled program makes within its loops."""

from __future__ import annotations

import math
import re


def bodies(text: str) -> list[list[tuple[str, int]]]:
    """The instructions of each loop's body in a program's text, and how many elements each one's result has."""
    found = []
    for name in sorted(set(re.findall(r' while\(.*body=%?([\w.\-]+)', text))):
        computation = re.search(rf'^%?{re.escape(name)} .*?^}}', text, re.DOTALL | re.MULTILINE)[0]
        lines = computation.splitlines()[1:]
        shapes = [re.search(r'= \w+\[([\d,]+)\]', line) for line in lines]
        sizes = [math.prod(map(int, shape[1].split(','))) if shape else 1 for shape in shapes]
        found.append(list(zip(lines, sizes, strict=True)))
    return found
