"""Draws the figures as an SVG of seven panels of bars, on logarithmic scales, readable on light and dark pages."""

import math
import statistics

PANELS = [
    ("rate", "requests a second", "{:,.0f}", True),
    ("p99", "99th percentile, ms", "{:,.1f}", False),
    ("start", "start to first answer, ms", "{:,.0f}", False),
    ("loaded", "memory after the load, MiB", "{:,.0f}", False),
    ("webhooks", "webhooks a second", "{:,.0f}", True),
    ("rules", "requests/s, 1,000 rules", "{:,.0f}", True),
    ("good", "highest rate with p99 below 5 ms", "{:,.0f}", True),
]
WIDTH, BAR, GAP, LEFT, RIGHT, HEAD = 460, 18, 6, 110, 80, 34


def draw(names, figures):
    """The whole picture."""
    height = HEAD + len(names) * (BAR + GAP) + 14
    rows = (len(PANELS) + 1) // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {rows * height}" font-family="sans-serif" font-size="13">',
        "<title>wrs-emulator and other mock servers</title>",
        f'<rect width="{2 * WIDTH}" height="{rows * height}" fill="#ffffff"/>',
    ]
    for place, (key, title, form, more) in enumerate(PANELS):
        x, y = (place % 2) * WIDTH, (place // 2) * height
        values = {name: statistics.median(figures[name][key]) for name in names if figures[name].get(key)}
        parts += panel(x, y, title, values, form, more)
    return "\n".join([*parts, "</svg>", ""])


def panel(x, y, title, values, form, more):
    """One figure of every server; `more` tells whether more is better."""
    # The page says that the scales are logarithmic: with it, the longest heading would be cut off.
    better = "more is better" if more else "less is better"
    yield f'<text x="{x + LEFT}" y="{y + 22}" font-weight="bold" fill="#1f2328">{title} ({better})</text>'
    # A server that answered nothing within the time has a bar of no length.
    shown = [value for value in values.values() if value > 0]
    low = 10 ** math.floor(math.log10(min(shown)) - 0.001)
    high = max(shown)
    for row, (name, value) in enumerate(values.items()):
        top = y + HEAD + row * (BAR + GAP)
        length = (WIDTH - LEFT - RIGHT) * math.log(value / low) / math.log(high / low) if value > 0 else 0
        color = "#1a7f37" if name == "wrs-emulator" else "#8c959f"
        yield f'<text x="{x + LEFT - 6}" y="{top + 14}" text-anchor="end" fill="#1f2328">{name}</text>'
        yield f'<rect x="{x + LEFT}" y="{top}" width="{max(length, 1):.1f}" height="{BAR}" fill="{color}"/>'
        yield f'<text x="{x + LEFT + max(length, 1) + 5:.1f}" y="{top + 14}" fill="#1f2328">{form.format(value)}</text>'
