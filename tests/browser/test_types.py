#!/usr/bin/python3
"""The documents of the catalogue of types: the page in a real browser, the others by the tools of their standards.

`scripts/deps --test` gets axe and those tools, where there is npm.
"""

import json
import pathlib
import subprocess
import sys

from accessibility import complaints
from stack import run_checks

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = HERE.parents[1] / ".cache/browser"
NASTY = "</p><script>document.title = 'broken'</script>"
SCHEMA = {
    "type": "object",
    "required": ["order", "customer"],
    "properties": {
        "order": {"type": "integer", "description": "The number of the order"},
        "customer": {"$ref": "#/$defs/person"},
        "an_account_of_what_was_ordered_and_what_was_delivered": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "state": {"enum": ["open", "paid"], "description": NASTY},
    },
    "$defs": {
        "person": {"type": "object", "required": ["name"], "properties": {"name": {"type": ["string", "null"]}}},
        "line": {"type": "object", "properties": {"sku": {"type": "string", "deprecated": True}, "parts": {"$ref": "#/$defs/parts"}}},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
}
EXAMPLE = {"order": 17, "customer": {"name": "<b>Ada</b>"}, "state": "paid",
           "an_account_of_what_was_ordered_and_what_was_delivered": [{"sku": "a" * 200, "parts": [{"sku": "b"}]}]}
BODIES = ("body: raw", "body: standard, signing: github, gzip: true", "body: cloudevents, headers: [tenant]",
          "body: cloudevents-structured, signing: stripe", "body: raw, batch: {}", "body: cloudevents-structured, batch: {}")


def types(stack, *words):
    return subprocess.run([stack.program, "type", *words, "-c", f"{stack.folder}/pgcourier.yaml"], check=True,
                          capture_output=True, text=True).stdout


def make_catalogue(stack):
    for name, value in (("schema", SCHEMA), ("example", EXAMPLE)):
        pathlib.Path(f"{stack.folder}/{name}.json").write_text(json.dumps(value), encoding="utf-8")
    types(stack, "set", "order.created", "--description", f"An order.\n\n{NASTY}",
          "--schema", f"{stack.folder}/schema.json", "--example", f"{stack.folder}/example.json")
    types(stack, "set", "order.paid", "--deprecated")
    types(stack, "set", NASTY, "--example", f"{stack.folder}/example.json")


def check_is_a_page_that_everyone_can_read(stack, browser, _):
    make_catalogue(stack)
    page = f"{stack.folder}/types.html"
    types(stack, "docs", "--title", "Events of the shop", "-o", page)
    browser.open(f"file://{page}")
    assert complaints(browser) == [], complaints(browser)


def check_is_what_the_catalogue_says_and_no_markup_of_it(_, browser, __):
    assert browser.run("return document.title") == "Events of the shop"
    assert browser.run("return document.scripts.length") == 0
    assert browser.run("return [...document.querySelectorAll('section h2')].map((node) => node.innerText)") == [
        NASTY, "order.created", "order.paid deprecated", "How events arrive"]
    fields = browser.run("return [...document.querySelectorAll('#type-order\\\\.created td:first-child code')].map((node) => node.innerText)")
    assert fields[:3] == ["order", "customer", "customer.name"], fields
    assert fields[-1] == "state" and len(fields) < 20, fields  # parts have parts
    found = browser.faults()
    assert found == [], found


def check_fits_a_phone(_, browser, __):
    browser.set_screen(360, 800, is_phone=True)
    wide = browser.run("return [...document.querySelectorAll('body *')].filter((node) => node.getBoundingClientRect().right > innerWidth)"
                       ".map((node) => node.outerHTML.slice(0, 100))")
    assert wide == [], wide
    browser.set_screen(1360, 900)


def check_leads_to_each_type(_, browser, __):
    missing = browser.run("return [...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))"
                          ".filter((to) => !document.getElementById(to.slice(1)))")
    assert missing == [], missing


def check_is_valid_for_the_tools_of_its_standards(stack, _, __):
    if not (PACKAGES / "node_modules/@asyncapi").exists():
        print("no parsers of OpenAPI here: scripts/deps --test gets them, where there is npm")
        return
    config = pathlib.Path(f"{stack.folder}/pgcourier.yaml")
    before = config.read_text(encoding="utf-8")
    for body in BODIES:
        config.write_text(before.split("sinks:")[0] + f"sinks: [{{name: web, topics: [a], http: {{receivers: table, {body}}}}}]\n", encoding="utf-8")
        for form in ("openapi", "asyncapi"):
            types(stack, "docs", "--format", form, "-o", f"{stack.folder}/{form}.json")
        done = subprocess.run(["node", HERE / "documents.mjs", PACKAGES, f"{stack.folder}/openapi.json", f"{stack.folder}/asyncapi.json"],
                              capture_output=True, text=True)
        expected = "1 webhooks, 1 messages, 0 examples" if "batch" in body else "3 webhooks, 3 messages, 4 examples"
        assert done.stdout.strip() == expected, f"{body}: {done.stdout}{done.stderr}"
    config.write_text(before, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_checks(dict(globals()), lambda receiver: [f'{{ name: web, topics: ["**"], http: {{ url: "http://127.0.0.1:{receiver.port}/" }} }}']))
