"""A table of figures in Markdown."""

from __future__ import annotations

from collections.abc import Mapping


def table(title: str, unit: str, parts: Mapping[str, float], digits: int = 2) -> str:
    """Parts with their figures, the largest first.

    Args:
        title: The name of the whole.
        unit: Of the figures.
        parts: Part -> figure; parts that round to zero are left out.
        digits: After the point.
    """
    rows = [
        f"| {part} | {figure:.{digits}f} |"
        for part, figure in sorted(parts.items(), key=lambda item: -item[1])
        if round(figure, digits) > 0
    ]
    return "\n".join([f"| {title} | {unit} |", "| --- | --- |", *rows])
