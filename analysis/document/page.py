"""The parts of pages: the templates, and figures that are part of the page."""

import base64
import io
from pathlib import Path

import jinja2
import matplotlib
from markdown_it import MarkdownIt
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure


def environment() -> jinja2.Environment:
    """The templates beside this module, with the filter `inline` for a sentence of Markdown."""
    markdown = MarkdownIt("commonmark", {"html": False})
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    found = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    found.filters["inline"] = lambda text: Markup(markdown.renderInline(text))  # it escapes what is no Markdown
    return found


def svg(figure: Figure) -> bytes:
    """A figure as a file that is the same each time."""
    target = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "report"}):
        # Not savefig(), which draws everything twice, once to find the layout: to draw includes it.
        FigureCanvasSVG(figure).print_svg(target, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return target.getvalue()


def address(picture: bytes, kind: str = "svg+xml") -> str:
    """A picture as the address of an image."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
