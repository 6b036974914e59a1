"""Draws SVG: boxes, arrows, texts and bars, in light and dark (scripts/pictures)."""

from html import escape

# name: light, dark
COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "frame": ("#d0d7de", "#30363d"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "box": ("#f6f8fa", "#161b22"),
    "edge": ("#818b98", "#6e7681"),
    "blue": ("#0969da", "#4493f8"),
    "bluebox": ("#ddf4ff", "#12243c"),
    "green": ("#1a7f37", "#3fb950"),
    "greenbox": ("#dafbe1", "#12261e"),
    "amber": ("#9a6700", "#d29922"),
    "amberbox": ("#fff8c5", "#2b2310"),
    "red": ("#cf222e", "#f85149"),
    "redbox": ("#ffebe9", "#2d1517"),
    "purple": ("#8250df", "#ab7df8"),
    "purplebox": ("#fbefff", "#231a36"),
}
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def style():
    def theme(which):
        return "".join(f".f-{name}{{fill:{both[which]}}}.s-{name}{{stroke:{both[which]}}}"
                       for name, both in COLOURS.items())
    return (f"text{{font-family:{FONT}}}.mono{{font-family:{MONO}}}.bold{{font-weight:600}}"
            + theme(0) + "@media(prefers-color-scheme:dark){" + theme(1) + "}")


class Picture:
    """Coordinates in pixels from the upper left corner; the width is what pages show."""

    def __init__(self, title, height, width=720):
        self.title, self.width, self.height = title, width, height
        self.parts = []
        self.markers = {}

    def add(self, part):
        self.parts.append(part)

    def rect(self, x, y, width, height, fill="box", stroke="edge", radius=6, dash=""):
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"'
                 f' class="f-{fill} s-{stroke}"{dash}/>')

    def text(self, x, y, text, size=13, colour="ink", anchor="middle", mono=False, bold=False):
        names = f"f-{colour}" + (" mono" if mono else "") + (" bold" if bold else "")
        self.add(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
                 f' class="{names}">{escape(text)}</text>')

    def box(self, x, y, width, height, title, lines=(), fill="box", stroke="edge", mono=False, size=14):
        """A title and lines below it, centred."""
        self.rect(x, y, width, height, fill, stroke)
        top = y + (height - 18 * len(lines)) / 2 + 5
        self.text(x + width / 2, top, title, size=size, bold=True, mono=mono)
        for i, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * (i + 1), line, size=12, colour="soft")

    def line(self, x1, y1, x2, y2, colour="edge", width=1, dash=""):
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke-width="{width}"'
                 f' class="s-{colour}"{dash}/>')

    def arrow(self, points, colour="edge", dash="", curve=None):
        """Along the points, or a curve given as an SVG path."""
        self.markers[colour] = True
        path = curve or "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<path d="{path}" fill="none" stroke-width="1.6" stroke-linejoin="round"'
                 f' class="s-{colour}" marker-end="url(#to-{colour})"{dash}/>')

    def __str__(self):
        markers = "".join(
            f'<marker id="to-{colour}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"'
            f' markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" class="f-{colour}"/></marker>' for colour in sorted(self.markers))
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
                f' width="{self.width}" height="{self.height}" role="img">\n'
                f"<title>{escape(self.title)}</title>\n<style>{style()}</style>\n"
                f"<defs>{markers}</defs>\n"
                f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8"'
                f' class="f-paper s-frame"/>\n{body}\n</svg>\n')
