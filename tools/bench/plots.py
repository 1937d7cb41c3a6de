"""Draws bars as SVG, for light and dark pages."""

from html import escape
from typing import Final, NamedTuple

from tools.before_after import DARK, LIGHT, Theme

THEMES: Final = {"": LIGHT, "-dark": DARK}
_WIDTH: Final = 880
_LEFT, _RIGHT = 190, 720  # of the bars
_ROW, _HEAD, _GAP = 24, 50, 14
_MARGIN: Final = 20


class Bar(NamedTuple):
    """A value with its spread."""

    name: str
    kind: str  # dragoman, peer or floor
    value: float
    low: float
    high: float
    label: str


class Panel(NamedTuple):
    """Bars of one unit; the longest fills the width."""

    title: str
    note: str
    bars: list[Bar]


def picture(title: str, panels: list[Panel], theme: Theme) -> str:
    """Return an SVG document."""
    height = _MARGIN + sum(_HEAD + len(panel.bars) * _ROW + _GAP for panel in panels)
    described = "; ".join(
        f"{panel.title}: " + ", ".join(f"{bar.name} {bar.label}" for bar in panel.bars)
        for panel in panels
    )
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="t d">'
        ),
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape(described)}</desc>',
        (
            '<style>text{font-family:-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,'
            f"sans-serif;font-size:13px;fill:{theme.ink}}}.h{{font-size:15px;font-weight:600}}"
            f".s{{font-size:12px;fill:{theme.faint}}}.d{{font-weight:600}}</style>"
        ),
        (
            f'<rect x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="10" '
            f'fill="{theme.panel}" stroke="{theme.line}"/>'
        ),
    ]
    top = _MARGIN
    for panel in panels:
        parts += _panel(panel, top, theme)
        top += _HEAD + len(panel.bars) * _ROW + _GAP
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: float, theme: Theme) -> list[str]:
    parts = [
        f'<text class="h" x="{_MARGIN}" y="{top + 14}">{escape(panel.title)}</text>',
        f'<text class="s" x="{_MARGIN}" y="{top + 34}">{escape(panel.note)}</text>',
    ]
    most = max((bar.high for bar in panel.bars), default=1.0) or 1.0
    colours = {"dragoman": theme.call, "peer": theme.reasoning, "floor": theme.faint}
    for at, bar in enumerate(panel.bars):
        y = top + _HEAD + at * _ROW
        low, end, high = (
            _LEFT + (_RIGHT - _LEFT) * one / most for one in (bar.low, bar.value, bar.high)
        )
        mine = ' class="d"' if bar.kind == "dragoman" else ""
        parts += [
            f'<text{mine} x="{_LEFT - 10}" y="{y + 12}" text-anchor="end">{escape(bar.name)}</text>',
            (
                f'<rect x="{_LEFT}" y="{y + 1}" width="{max(1.0, end - _LEFT):.1f}" height="14" rx="2" '
                f'fill="{colours[bar.kind]}"/>'
            ),
            f'<path d="M{low:.1f} {y + 8}H{high:.1f}" stroke="{theme.ink}" stroke-width="1.5"/>',
            f'<text{mine} x="{max(high, end) + 8:.1f}" y="{y + 12}">{escape(bar.label)}</text>',
        ]
    return parts
