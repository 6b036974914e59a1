#!/usr/bin/python3
"""The portal in a real browser, on a real relay, as a customer clicks through it.

One story in order, each step on what the last one left.
"""

import subprocess
import sys

from accessibility import complaints
from stack import run_checks
from webdriver import free_port

PORT = free_port()
URL = f"http://127.0.0.1:{PORT}/"
TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"
ROWS = "#rows tr"
WIDE = """return [...document.querySelectorAll('body *')].filter((node) => node.getClientRects().length &&
  node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.sprite, .snippet, .scroll')).map((node) => node.outerHTML.slice(0, 120))"""


def link(stack, *options):
    """A new link to acme."""
    run = subprocess.run([stack.program, "receiver", "link", "acme", "-c", f"{stack.folder}/pgcourier.yaml", *options],
                         capture_output=True, text=True, check=True)
    return run.stdout.strip()


def visit(browser, url):
    browser.open("about:blank")
    browser.open(url)


def press(browser, *keys):
    """Where the focus is."""
    for key in keys:
        element = next(iter(browser.call("GET", f"{browser.session}/element/active").values()))
        browser.call("POST", f"{browser.session}/element/{element}/value", {"text": key})


def focus_by_tab(browser, ident):
    for _ in range(60):
        if browser.run("return document.activeElement.id") == ident:
            return
        browser.devtools("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        browser.devtools("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    raise AssertionError(f"Tab does not lead to #{ident}")


def type_key(browser, key, code, number, text=""):
    browser.devtools("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, windowsVirtualKeyCode=number, text=text)
    browser.devtools("Input.dispatchKeyEvent", type="keyUp", key=key, code=code, windowsVirtualKeyCode=number)


def attempts(stack):
    return stack.execute("SELECT count(*) FROM courier.attempt")[0][0]


def check_needs_a_link(stack, browser, receiver):
    hook = f"http://127.0.0.1:{receiver.port}"
    browser.await_true(lambda: stack.execute("SELECT count(*) FROM courier.sink")[0][0] == 1, "sink that the relay serves")
    stack.execute("INSERT INTO courier.receiver (sink, name, url, topics) VALUES ('backstage', 'acme', %s, '{acme.**}'),"
                  " ('backstage', 'rival', %s, '{rival.**}')", f"{hook}/acme", f"{hook}/rival")
    visit(browser, URL)
    browser.await_text("#closed", "This page needs a link")
    assert not browser.is_shown("#main")


def check_shows_how_it_is(stack, browser, _):
    stack.publish("acme.paid", "1", order=17)
    stack.publish("acme.paid", "2", mood="refuses", note="<img src=x onerror=alert(1)>")
    stack.publish("rival.paid", "3", mood="refuses")
    browser.await_true(lambda: attempts(stack) == 3, "three attempts")
    visit(browser, link(stack))
    browser.await_text("#headline", "Deliveries work")
    browser.await_true(lambda: browser.run("return document.querySelectorAll('#rows tr').length") == 2, "two events")
    assert "acme" in browser.text("#name") and "This link works until" in browser.text("#ends")
    assert browser.run("return location.href") == URL, "the token leaves the address"
    assert "given up" in browser.text("#rows") and "422 Unprocessable Content" in browser.text("#rows")
    assert "rival" not in browser.text("body") and "backstage" not in browser.text("body")
    for action in ("#pause", "#change-url", "#change-secret"):
        assert not browser.is_shown(action), "this link only shows"
    browser.run("const which = document.getElementById('which'); which.value = 'attempts'; which.dispatchEvent(new Event('change'))")
    browser.await_text("#rows", "delivered")
    browser.run("const which = document.getElementById('which'); which.value = 'events'; which.dispatchEvent(new Event('change'))")
    browser.await_text("#rows", "delivered")


def check_shows_one_event(_, browser, __):
    browser.click(f"{ROWS}:first-child button")
    browser.await_shown("#event-body")
    assert "given up" in browser.text("#event-state")
    assert "onerror=alert(1)" in browser.text("#event-payload")
    assert "422 Unprocessable Content" in browser.text("#event-attempts")
    assert not browser.is_shown("#event-resend")
    ident = browser.run("return document.querySelector('#event-facts dd').textContent")
    browser.click("#event-close")
    browser.type("#find", ident + ENTER)
    browser.await_text("#event-title", "Event ")
    browser.await_shown("#event-body")
    press(browser, ESCAPE)
    browser.await_true(lambda: not browser.run("return document.getElementById('event').open"), "closed dialog")


def check_shows_nothing_of_others(stack, browser, _):
    theirs = stack.execute("SELECT id FROM courier.outbox WHERE topic = 'rival.paid'")[0][0]
    browser.run("document.getElementById('find').value = ''")
    browser.type("#find", f"{theirs}" + ENTER)
    browser.await_text("#event-error", "There is no such event of yours.")
    assert not browser.is_shown("#event-body")
    browser.click("#event-close")


def check_tells_how_to_verify(_, browser, __):
    assert browser.run("return [...document.querySelectorAll('#language option')].map((node) => node.textContent)") == [
        "Python", "Node.js", "Go", "Java", "PHP", "Ruby", "C#"]
    for name in ("Python", "C#"):
        browser.run("const node = document.getElementById('language'); node.value = arguments[0]; node.dispatchEvent(new Event('change'))", name)
        assert "webhook-signature" in browser.text("#snippet") and "webhook-timestamp" in browser.text("#snippet")


def check_resends(stack, browser, receiver):
    visit(browser, link(stack, "--manage"))
    browser.await_text("#rows", "given up")
    receiver.mended.add("refuses")
    before = attempts(stack)
    browser.click(f"{ROWS}:first-child button")
    browser.await_shown("#event-resend")
    browser.click("#event-resend")
    browser.await_text("#notices", "is sent again")
    browser.await_true(lambda: attempts(stack) == before + 1, "another attempt")
    browser.click("#event-close")
    browser.await_true(lambda: stack.execute("SELECT count(*) FROM courier.dead_letter WHERE topic = 'acme.paid'")[0][0] == 0, "no dead letter")
    browser.run("document.getElementById('which').dispatchEvent(new Event('change'))")
    browser.await_true(lambda: "given up" not in browser.text("#rows") and "delivered" in browser.text("#rows"), "delivered events")


def check_pauses_and_resumes_by_keys_alone(stack, browser, _):
    focus_by_tab(browser, "pause")
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus can be seen"
    type_key(browser, "Enter", "Enter", 13, "\r")
    browser.await_text("#dialog-title", "Pause deliveries?")
    type_key(browser, "Enter", "Enter", 13, "\r")
    browser.await_text("#headline", "Deliveries are paused")
    assert stack.execute("SELECT state FROM courier.receiver WHERE name = 'acme'")[0][0] == "paused"
    assert stack.execute("SELECT state FROM courier.receiver WHERE name = 'rival'")[0][0] == "active"
    focus_by_tab(browser, "pause")
    type_key(browser, "Enter", "Enter", 13, "\r")
    browser.await_text("#headline", "Deliveries work")


def check_leaves_a_pause_of_the_operator_alone(stack, browser, _):
    stack.execute("UPDATE courier.receiver SET state = 'paused', state_reason = 'owes money' WHERE name = 'acme'")
    visit(browser, link(stack, "--manage"))
    browser.await_text("#why", "The sender of the events has paused them.")
    assert not browser.is_shown("#pause") and "money" not in browser.text("body")
    stack.execute("UPDATE courier.receiver SET state = 'active' WHERE name = 'acme'")
    visit(browser, link(stack, "--manage"))
    browser.await_text("#headline", "Deliveries work")


def check_changes_the_url(stack, browser, receiver):
    browser.click("#change-url")
    browser.await_text("#dialog-title", "Change the URL?")
    browser.type("#dialog-field", "https://10.0.0.1/hook")
    browser.click("#dialog-confirm")
    browser.await_text("#notices", "must lead to an address of the internet")
    browser.click("#notices button")
    browser.click("#change-url")
    browser.type("#dialog-field", f"http://127.0.0.1:{receiver.port}/moved")
    browser.click("#dialog-confirm")
    browser.await_text("#notices", "sent to the new URL")
    browser.await_text("#url", "/moved")
    before = attempts(stack)
    stack.publish("acme.paid", "4")
    browser.await_true(lambda: attempts(stack) == before + 1, "delivery to the new URL")


def check_makes_a_new_secret(stack, browser, _):
    old = stack.execute("SELECT secret FROM courier.receiver WHERE name = 'acme'")[0][0]
    browser.click("#change-secret")
    browser.await_text("#dialog-title", "Make a new secret?")
    browser.click("#dialog-cancel")
    assert stack.execute("SELECT secret FROM courier.receiver WHERE name = 'acme'")[0][0] == old, "it was cancelled"
    browser.click("#change-secret")
    browser.click("#dialog-confirm")
    browser.await_text("#secret", "whsec_")
    new, before = stack.execute("SELECT secret, old_secrets FROM courier.receiver WHERE name = 'acme'")[0]
    assert browser.text("#secret-text") == new != old and before == [old]
    assert browser.run("return document.activeElement.id") == "secret"
    browser.await_text("#old-secret", "signs too until")
    browser.click("#secret-done")
    assert new not in browser.run("return document.documentElement.outerHTML") and not browser.is_shown("#secret")
    assert new not in stack.relay_log()


def check_fits_phone(_, browser, __):
    for width in (1280, 375):
        browser.set_screen(width, 700, is_phone=width < 500)
        assert browser.run("return document.documentElement.scrollWidth") <= width and browser.run(WIDE) == [], (width, browser.run(WIDE))
        browser.click(f"{ROWS}:first-child button")
        browser.await_shown("#event-body")
        assert browser.run(WIDE) == [], (width, browser.run(WIDE))
        browser.click("#event-close")
        browser.click("#change-url")
        assert browser.run(WIDE) == [], (width, browser.run(WIDE))
        browser.click("#dialog-cancel")
    browser.set_screen(1360, 900)


def check_is_accessible(_, browser, __):
    found = complaints(browser)
    assert found == [], found
    browser.click(f"{ROWS}:first-child button")
    browser.await_shown("#event-body")
    found = complaints(browser)
    assert found == [], found
    browser.click("#event-close")


def check_breaks_no_policy_and_keeps_nothing(_, browser, __):
    found = browser.faults("status of 404", "status of 400")
    assert found == [], found
    assert browser.run("return document.querySelectorAll('[style], style, script:not([src])').length") == 0
    assert browser.run("return document.cookie") == "" and browser.run("return localStorage.length") == 0


def check_says_when_the_link_has_ended(stack, browser, _):
    stack.execute("UPDATE courier.receiver_link SET expires_at = clock_timestamp()")
    browser.run("document.querySelector('#look').click()")  # the page may have looked by itself, and have closed
    browser.await_text("#closed", "This link has expired")
    browser.await_text("#closed", "Ask for a new one")
    assert not browser.is_shown("#main") and "acme" not in browser.text("body")
    assert browser.run("return sessionStorage.length") == 0
    found = complaints(browser)
    assert found == [], found
    browser.log()


def make_sinks(receiver):
    return [f'{{ name: backstage, topics: ["**"], attempts: all, retry: {{ attempts: 1 }}, http: {{ receivers: table, '
            f'allow_networks: ["127.0.0.0/8"], allow_ports: [{receiver.port}] }} }}']


def prepare(stack):
    stack.settings = f'portal: {{ listen: "127.0.0.1:{PORT}", base_url: "{URL}" }}\n'


sys.exit(run_checks(dict(globals()), make_sinks, prepare))
