#!/usr/bin/python3
"""The receivers of the live page, their stories and the traces of events, in a real browser.

The routes behind them are played by receivers_stub.js, with ten thousand receivers; the rest is a real relay.
"""

import pathlib
import sys

from accessibility import complaints
from stack import run_checks

HERE = pathlib.Path(__file__).resolve().parent
ROWS = "#receivers-rows tr"
NAMES = f"return [...document.querySelectorAll('{ROWS} a')].map((node) => node.textContent)"
ESCAPE, ENTER = "\ue00c", "\ue007"


def count(browser, css):
    return browser.run("return document.querySelectorAll(arguments[0]).length", css)


def await_names(browser, first, n):
    browser.await_true(lambda: (lambda names: len(names) == n and names[0] == first)(browser.run(NAMES)), f"{n} receivers from {first} on")


def press(browser, key):
    """Where the focus is."""
    element = next(iter(browser.call("GET", f"{browser.session}/element/active").values()))
    browser.call("POST", f"{browser.session}/element/{element}/value", {"text": key})


def check_hides_what_an_older_relay_does_not_have(stack, browser, _):
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=(HERE / "receivers_stub.js").read_text(encoding="utf-8"))
    browser.open(stack.url)
    browser.run("sessionStorage.setItem('stub', 'missing')")
    browser.open("about:blank")
    browser.open(stack.url + "#/event/17")
    stack.publish("orders.created", "17")
    browser.await_text("#recent-rows", "orders.created")
    browser.await_true(lambda: browser.run("return receiversStub.asked.length") > 0, "question for receivers")
    for part in ("#receivers", "#find", "#sheet"):
        assert not browser.is_shown(part), part
    assert count(browser, "main a[href]") == 0
    assert browser.run("return receiversStub.asked.length") == 1, "it is asked once"
    browser.run("sessionStorage.clear()")
    browser.open("about:blank")
    browser.open(stack.url)


def check_lists_ten_thousand_by_pages(_, browser, __):
    """Those in trouble first."""
    browser.await_shown("#receivers")
    await_names(browser, "customer-09007", 50)
    assert browser.text("#receivers-range") == "1 to 50 of 10,000"
    states = browser.run(f"return [...document.querySelectorAll('{ROWS} td:nth-child(2)')].map((node) => node.innerText.trim())")
    assert states == ["failing"] * 10 + ["disabled"] * 5 + ["paused"] * 4 + ["active"] * 31, states
    browser.click("#receivers-next")
    browser.await_true(lambda: browser.text("#receivers-range") == "51 to 100 of 10,000", "second page")
    assert count(browser, ROWS) == 50 and not browser.run("return document.getElementById('receivers-back').disabled")
    browser.click("#receivers-back")
    await_names(browser, "customer-09007", 50)
    assert browser.run("return receiversStub.most") == 50
    assert count(browser, "*") < 3000, "the page stays light"


def check_searches_receivers(_, browser, __):
    browser.type("#receivers-search", "customer-0900")
    await_names(browser, "customer-09007", 10)
    assert browser.text("#receivers-range") == "10"
    browser.run("const field = document.getElementById('receivers-state'); field.value = 'active'; field.dispatchEvent(new Event('change'))")
    await_names(browser, "customer-09002", 9)
    browser.type("#receivers-search", "99")
    browser.await_text("#receivers", "No receiver is like that.")
    for field, event in (("search", "input"), ("state", "change")):
        browser.run("""const field = document.getElementById('receivers-' + arguments[0]);
          field.value = ''; field.dispatchEvent(new Event(arguments[1]))""", field, event)
    await_names(browser, "customer-09007", 50)


def check_renews_without_moving_what_is_read(_, browser, __):
    browser.run("document.getElementById('receivers').scrollIntoView()")
    browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)  # a click may have left it on the list
    browser.run("document.activeElement.blur(); receiversStub.asked.length = 0")
    browser.await_true(lambda: browser.run("return receiversStub.asked.length") > 0, "newer list")
    browser.run("document.getElementById('receivers-scroll').focus()")
    browser.await_text("#receivers-held", "held while you read")
    browser.run("document.activeElement.blur()")
    browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    browser.await_true(lambda: browser.text("#receivers-held") == "", "end of the hold")


def check_tells_the_story_of_one(_, browser, __):
    """By keys alone; and its words are text."""
    browser.run(f"document.querySelector('{ROWS} a').focus()")
    press(browser, ENTER)
    browser.await_shown("#story")
    assert browser.text("#sheet-title") == "customer-09007"
    assert browser.run("return document.activeElement.id") == "sheet-title"
    words = browser.text("#story")
    for wanted in ("failing", "for 15 min, since ", "503 Service Unavailable: <img src=x onerror=alert(1)>", "≈\u00a09,050, oldest 15 min",
                   "https://customer-09007.example/hook, of sink webhooks", "16 min ago", "8 at a time, no rate limit"):
        assert wanted in words, (wanted, words)
    assert count(browser, "#story-attempts tr") == 4 and "503 <img" in browser.text("#story-attempts")
    assert count(browser, "main img, aside img") == 0
    press(browser, ESCAPE)
    browser.await_shown("#sheet", False)
    assert browser.run("return document.activeElement.textContent") == "customer-09007", "the focus is where it was"
    assert browser.run("return location.hash") == ""


def check_traces_an_event(_, browser, __):
    """From an attempt, and back; of ten thousand deliveries those that need a look."""
    browser.click(f"{ROWS} a")
    browser.click("#story-attempts a")
    browser.await_shown("#trace")
    assert browser.text("#sheet-title") == "Event 500" and not browser.is_shown("#story")
    assert browser.text("#trace-words") == "1 dead, 2 retrying, 1 waiting, 9,996 delivered, 1 not taken"
    states = browser.run("return [...document.querySelectorAll('#trace-rows td:nth-child(2)')].map((node) => node.innerText.trim())")
    assert states == ["dead", "retrying", "retrying", "waiting"] + ["delivered"] * 46, states
    assert "422 Unprocessable Content" in browser.text("#trace-rows") and "next try in" in browser.text("#trace-rows")
    browser.click("#trace-more")
    browser.await_true(lambda: count(browser, "#trace-rows tr") == 100, "a hundred deliveries")
    browser.click("#trace-rows a")
    browser.await_text("#sheet-title", "customer-00004")
    browser.click("#sheet-back")
    browser.await_text("#sheet-title", "Event 500")
    browser.click("#sheet-back")
    browser.await_text("#sheet-title", "customer-09007")
    browser.run("history.back()")
    browser.await_text("#sheet-title", "Event 500")
    browser.click("#sheet-close")
    browser.await_shown("#sheet", False)


def check_looks_for_an_event(stack, browser, _):
    """By number or id; and from each delivery."""
    browser.type("#find-event", "seventeen" + ENTER)
    assert not browser.is_shown("#sheet") and not browser.run("return document.getElementById('find-event').validity.valid")
    browser.run("document.getElementById('find-event').value = ''")
    browser.type("#find-event", " 1E37750B-9CD0-47A0-AF10-C56DDDDF0004" + ENTER)
    browser.await_text("#sheet-title", "Event 1e37750b-9cd0-47a0-af10-c56ddddf0004")
    browser.await_text("#trace", "9,996 delivered")
    browser.run("document.getElementById('find-event').value = ''")
    browser.type("#find-event", "404" + ENTER)
    browser.await_text("#sheet-error", "there is no trace of that event")
    assert not browser.is_shown("#trace")
    browser.click("#sheet-close")
    stack.publish("orders.created", "18")
    browser.await_true(lambda: browser.run("return document.querySelector('#recent-rows a[href]')?.getAttribute('href')?.startsWith('#/event/')"), "link to the event")


def check_opens_an_address(stack, browser, _):
    browser.open("about:blank")
    browser.open(stack.url + "#/receiver/webhooks/customer-00011")
    browser.await_text("#story", "their migration")
    assert browser.text("#story-pause") == "Resume"


def check_changes_a_receiver(_, browser, __):
    browser.click("#story-pause")
    browser.await_text("#notices", "customer-00011 goes on.")
    browser.await_text("#story-pause", "Pause")
    browser.click("#story-pause")
    browser.await_text("#dialog-title", "Pause customer-00011?")
    browser.type("#dialog-field", "as before")
    browser.click("#dialog-confirm")
    browser.await_text("#story-pause", "Resume")
    asked = [question for question in browser.run("return receiversStub.asked") if question.startswith("POST")]
    assert asked == [f"POST /api/receivers/customer-00011/{verb}" for verb in ("resume", "pause")], asked


def check_dates_what_is_old(_, browser, __):
    browser.run("receiversStub.isDown = true")
    browser.await_text("#sheet-error", "These figures are old: PostgreSQL cannot be reached")
    browser.run("document.getElementById('receivers').scrollIntoView()")
    browser.await_text("#receivers-error", "This list is old: PostgreSQL cannot be reached")
    browser.run("receiversStub.isDown = false")
    browser.await_shown("#receivers-error", False)
    browser.await_shown("#sheet-error", False)


def check_leads_from_a_sink_to_its_receivers(stack, browser, _):
    """Real ones: what is counted is the relay's."""
    stack.execute("INSERT INTO courier.receiver (sink, name, url, state) VALUES ('webhooks', 'acme', 'https://acme.example/', 'disabled'),"
                  " ('webhooks', 'initech', 'https://initech.example/', 'paused')")
    browser.await_text("article[aria-label='Sink webhooks'] .fan", "2 receivers: 1 disabled, 1 paused")
    browser.await_text("#receivers-note", "1 disabled, 1 paused")
    browser.await_text("#problems", "Receivers of webhooks: 1 disabled")
    browser.click("#sheet-close")
    browser.click("#problems button.primary")
    browser.await_true(lambda: browser.run("return document.activeElement.id") == "receivers", "focus on the receivers")
    browser.run("document.activeElement.blur(); scrollTo(0, 0)")
    browser.click("article[aria-label='Sink webhooks'] .fan")
    browser.await_true(lambda: browser.run("return document.activeElement.id") == "receivers", "focus on the receivers")


def check_fits_phone(_, browser, __):
    for place, part in (("", "main"), ("#/receiver/webhooks/customer-09007", "#story"), ("#/event/17", "#trace")):
        browser.run("location.hash = arguments[0]", place)
        browser.await_shown(part)
        for width in (1280, 390):
            browser.set_screen(width, 800, is_phone=width < 500)
            wide = browser.run("""return [...document.querySelectorAll('body *')].filter((node) => node.getClientRects().length &&
              node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.sprite, .scroll')).map((node) => node.outerHTML.slice(0, 120))""")
            assert browser.run("return document.documentElement.scrollWidth") <= width and wide == [], (place, width, wide)
    browser.click("#sheet-close")
    browser.set_screen(1360, 900)


def check_is_accessible(_, browser, __):
    for place, part in (("", "main"), ("#/receiver/webhooks/customer-09007", "#story"), ("#/event/17", "#trace")):
        browser.run("location.hash = arguments[0]", place)
        browser.await_shown(part)
        found = complaints(browser)
        assert found == [], (place, found)
    browser.click("#sheet-close")


def check_breaks_no_policy(_, browser, __):
    found = browser.faults()
    assert found == [], found


def check_offers_nothing_that_is_refused(stack, browser, _):
    stack.admin = f'listen: "127.0.0.1:{stack.port}"'
    stack.start_relay_anew(browser)
    browser.await_shown("#receivers")
    browser.await_text("#no-token", "admin.token_file")
    browser.run("location.hash = '#/receiver/webhooks/customer-09007'")
    browser.await_shown("#story")
    for button in ("#story-pause", "#token"):
        assert not browser.is_shown(button), button
    browser.click("#sheet-close")


def make_sinks(receiver):
    return ['{ name: audit, topics: ["**"], stdout: {} }',
            f'{{ name: webhooks, topics: ["**"], http: {{ receivers: table, allow_networks: ["127.0.0.0/8"], allow_ports: [{receiver.port}] }} }}']


sys.exit(run_checks(dict(globals()), make_sinks))
