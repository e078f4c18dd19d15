"""Pieces of HTML, with every text escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

Markup = str
"""HTML that may be put into a page as it is."""


def text(value: object) -> Markup:
    """A text that may hold any character."""
    return html.escape(str(value))


def paragraph(value: str, kind: str = "") -> Markup:
    """A paragraph of text, with a class of the style sheet."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{text(value)}</p>"


def heading(level: int, value: str) -> Markup:
    """A heading of level 1 to 6."""
    return f"<h{level}>{text(value)}</h{level}>"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "") -> Markup:
    """A table of texts that scrolls by itself where it is wider than the page."""
    attribute = f' class="{kind}"' if kind else ""
    head = "".join(f"<th>{text(name)}</th>" for name in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return (
        f'<div class="wide"><table{attribute}><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(svg: str, caption: str, description: str) -> Markup:
    """An image inside the page, with a caption and a description for who cannot see it."""
    address = data_address(svg.encode(), "image/svg+xml")
    return (
        f'<figure><img alt="{text(description)}" src="{address}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def player(flac: bytes, label: str) -> Markup:
    """A recording inside the page."""
    return (
        f'<audio controls preload="metadata" aria-label="{text(label)}" '
        f'src="{data_address(flac, "audio/flac")}"></audio>'
    )


def details(summary: str, content: Markup) -> Markup:
    """Content that is folded up until it is wanted."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def data_address(content: bytes, kind: str) -> str:
    """An address that is the content itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
