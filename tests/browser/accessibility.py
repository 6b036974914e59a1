"""What axe has to say against the page as it is. `scripts/deps --test` gets axe, where there is npm."""

import pathlib

AXE = pathlib.Path(__file__).resolve().parents[2] / ".cache/browser/node_modules/axe-core/axe.min.js"
SCREENS = ((1360, "light"), (1360, "dark"), (390, "light"))


def complaints(browser):
    """[[rule, impact, an element]] in both schemes and widths."""
    found = []
    if not AXE.exists():
        print("no axe here: scripts/deps --test gets it, where there is npm")
        return found
    browser.run(AXE.read_text(encoding="utf-8"))
    for width, scheme in SCREENS:
        browser.set_screen(width, 900, is_phone=width < 500)
        browser.set_scheme(scheme)
        found += browser.call("POST", f"{browser.session}/execute/async", {"args": [], "script": """const done = arguments[0];
          axe.run().then(({ violations }) => done(violations.map(({ id, impact, nodes }) => [id, impact, nodes[0].html.slice(0, 200)])))"""})
    browser.set_scheme("light")
    browser.set_screen(1360, 900)
    return found
