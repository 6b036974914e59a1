#!/usr/bin/python3
"""The live page in a real browser, on a real relay, by clicking.

One story in order, each step on what the last one left; ends with the numbers of checks that passed
and failed, as scripts/test counts them.
"""

import pathlib
import shutil
import socket
import subprocess
import sys

from accessibility import complaints
from stack import TOKEN, run_checks

IMAGE_KEY = "<img src=x onerror=alert(1)>"
CARD = "article[aria-label='Sink {}']"
BILLING = CARD.format("billing")
STATE = BILLING + " .badge"


def check_shows_sinks_live(stack, browser, _):
    browser.open(stack.url)
    browser.await_text(STATE, "running")
    browser.await_text(CARD.format("audit") + " .badge", "running")
    browser.await_text("#live-word", "live")
    browser.await_text("h1", "All well")
    for i in range(20):
        stack.publish("orders.created", str(i), order=i)
    browser.await_text(BILLING + " footer", "20 delivered")
    browser.await_text("#recent-rows", "orders.created")
    for chart in ("Waiting", "Delivered", "Latency"):
        browser.await_true(lambda: browser.run("""return [...document.querySelectorAll('.trend')].some((trend) =>
          trend.innerText.startsWith(arguments[0]) && trend.querySelector('.line').getAttribute('d')?.startsWith('M'))""", chart), f"line of {chart}")
    browser.await_true(lambda: "ms" in browser.text("#stages td[data-label=send]"), "figure of the stage send")


def check_says_what_it_shows(stack, browser, receiver):
    """Of several tabs each is another database's, and another relay's; secrets stay out."""
    relay = f"{socket.gethostname()}/{stack.relay.pid}"
    for width in (1280, 390):
        browser.set_screen(width, 800, is_phone=width < 500)
        for words in ("shop at unix socket", relay, f"{stack.folder}/pgcourier.yaml"):
            assert words in browser.text("#instance"), browser.text("#instance")
            assert words in browser.run("return document.title")
        assert browser.run("const node = document.getElementById('instance'); return node.scrollHeight <= node.clientHeight + 1"), width
    browser.set_screen(1360, 900)
    assert f"to http://127.0.0.1:{receiver.port}" in browser.text(BILLING)
    assert "hook" not in browser.text(BILLING) and "standard output" in browser.text(CARD.format("audit"))
    for table in (".recent", ".dead", ".blocked", ".receivers"):
        assert browser.run("return document.querySelector(arguments[0] + ' thead th:last-child').textContent", table) == "Error", table


def check_counts_no_time_after_delivery(_, browser, __):
    """Settling delays no receiver: it is in no bar, and has its own column."""
    assert browser.run("return [...document.querySelectorAll('#stages tr:first-child rect')].map((node) => node.getAttribute('class'))") == [
        "stage-pickup", "stage-queue", "stage-send"]
    widths = browser.run("return [...document.querySelectorAll('#stages tr:first-child rect')].map((node) => parseFloat(node.getAttribute('width')))")
    assert 99.9 < sum(widths) < 100.1, widths
    assert "settle, after delivery" in browser.text(".stages thead")


CUT = """return [...document.querySelectorAll('.axis, .axis span, .trend figcaption, .card .reason, .card .last-error')].filter((node) =>
  node.getClientRects().length && (node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1)
  && getComputedStyle(node).display !== 'inline').map((node) => node.outerHTML.slice(0, 200))"""


def check_cuts_no_captions(_, browser, __):
    """In one line, as they are; and with the longest that there are."""
    for width in (1280, 390):
        browser.set_screen(width, 800, is_phone=width < 500)
        assert browser.run(CUT) == [], (width, browser.run(CUT))
        assert browser.run("return Math.max(...[...document.querySelectorAll('.axis')].map((node) => node.clientHeight))") < 20
    browser.run("""for (const [i, node] of [...document.querySelectorAll('.axis')].entries()) {
      node.firstElementChild.textContent = 'last 5 min';
      node.lastElementChild.textContent = i % 2 ? '↑\u00a01,000/s' : '↑\u00a010,000,000';
    }""")
    for width in (1280, 390):
        browser.set_screen(width, 800, is_phone=width < 500)
        assert browser.run(CUT) == [], (width, browser.run(CUT))
    browser.set_screen(1360, 900)


def check_breaks_no_policy(_, browser, __):
    """The policy allows nothing inline, and nothing of the page needs it."""
    found = browser.faults("ERR_")  # while the relay was not there
    assert found == [], found
    assert browser.run("return document.querySelectorAll('[style], style, script:not([src])').length") == 0
    browser.run("const s = document.createElement('script'); s.textContent = 'document.title = 1'; document.body.append(s)")
    browser.await_true(lambda: any("Content Security Policy" in line for line in browser.log()), "refusal of an inline script")


def check_is_small(_, browser, __):
    """As a phone receives it: the document and all that it loads."""
    size = browser.run("""return performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
      .filter((entry) => !entry.name.includes('/api/')).reduce((sum, entry) => sum + entry.encodedBodySize, 0)""")
    assert 5000 < size < 60000, size


def check_refuses_wrong_token(_, browser, __):
    browser.click(BILLING + " footer button")
    browser.await_text("#dialog-title", "Pause billing?")
    browser.type("#dialog-field", "new <b>receiver</b>")
    browser.click("#dialog-confirm")
    browser.await_text("#dialog-title", "Token")
    browser.type("#dialog-field", "not-the-token-at-all")
    browser.click("#dialog-confirm")
    browser.await_text("#dialog-text", "refused")
    assert "running" in browser.text(STATE)


def check_pauses(stack, browser, _):
    browser.type("#dialog-field", TOKEN)
    browser.click("#dialog-confirm")
    browser.await_text("#notices", "billing is paused")
    browser.await_text(STATE, "paused")
    browser.await_text("#problems", "new <b>receiver</b>")
    assert stack.execute("SELECT by::text, reason FROM courier.pause") == [("operator", "new <b>receiver</b>")]
    assert browser.text("#token-word") == "Forget token"
    assert all("401" in line for line in browser.faults("ERR_"))


def check_resumes(stack, browser, _):
    """By the button beside the problem; the token is not asked for again."""
    browser.click("#problems button.primary")
    browser.await_text(STATE, "running")
    assert not browser.is_shown("#dialog")
    assert stack.execute("SELECT count(*) FROM courier.pause") == [(0,)]
    browser.await_text("h1", "All well")


def check_tells_outage(stack, browser, receiver):
    receiver.turn_off()
    stack.publish("orders.created", "late")
    browser.await_text(STATE, "down")
    browser.await_text("#problems", "billing is down")
    assert browser.run("return document.querySelector('.card h3').textContent") == "billing", "the one in trouble comes first"
    assert browser.text("#problems .level") == "Error"
    assert browser.run(CUT) == [], browser.run(CUT)
    assert browser.text(BILLING).count("cannot connect") == 1, "the error stands once on the card"
    lines = browser.run("const node = document.querySelector(arguments[0] + ' .reason'); return parseInt(getComputedStyle(node).webkitLineClamp)", BILLING)
    assert lines >= 2
    command = browser.text("#problems .command code")
    assert f"-c {stack.folder}/pgcourier.yaml" in command, command
    assert "Connection refused" in browser.text("#problems") or "connect" in browser.text("#problems")
    assert browser.run("return document.title").startswith("(1) shop at ")
    receiver.turn_on()
    browser.await_text(STATE, "running")


def check_shows_keys_as_text(stack, browser, _):
    stack.publish("orders.created", IMAGE_KEY, mood="poison", n=1)
    stack.publish("orders.created", "other", mood="poison", n=2)
    browser.await_true(lambda: browser.run("return document.querySelectorAll('#dead-rows tr').length") == 2, "two dead letters")
    assert IMAGE_KEY in browser.text("#dead-rows")
    browser.await_text("#recent-rows", IMAGE_KEY)
    assert browser.run("return document.querySelectorAll('main img').length") == 0
    assert "unknown article" in browser.text("#dead-rows")


def choose_dead_letter(browser, key):
    browser.run("""for (const row of document.querySelectorAll('#dead-rows tr'))
      if (row.children[5].textContent === arguments[0]) row.querySelector('input').id = 'chosen-by-test';""", key)
    browser.click("#chosen-by-test")
    browser.run("document.getElementById('chosen-by-test').removeAttribute('id')")


def check_redrives(stack, browser, receiver):
    receiver.mended.add("poison")
    n_before = len(receiver.seen)
    choose_dead_letter(browser, IMAGE_KEY)
    assert browser.text("#dead-redrive") == "Redrive 1 chosen", browser.text("#dead-redrive")
    browser.click("#dead-redrive")
    browser.await_text("#dialog-title", "Redrive 1 dead letter?")
    browser.click("#dialog-confirm")
    browser.await_text("#notices", "redriven")
    browser.await_true(lambda: len(receiver.seen) > n_before, "delivery of what was redriven")
    assert receiver.seen[-1]["n"] == 1
    browser.await_true(lambda: browser.run("return document.querySelectorAll('#dead-rows tr').length") == 1, "one dead letter less")


def check_drops(stack, browser, _):
    """Not if the dialog is cancelled."""
    choose_dead_letter(browser, "other")
    browser.click("#dead-drop")
    browser.await_text("#dialog-title", "Drop 1 dead letter?")
    browser.click("#dialog-cancel")
    browser.await_shown("#dialog", False)
    assert stack.execute("SELECT count(*) FROM courier.dead_letter") == [(1,)]
    browser.click("#dead-drop")
    browser.await_text("#dialog-title", "Drop 1 dead letter?")
    browser.click("#dialog-confirm")
    browser.await_text("#notices", "dropped")
    browser.await_text("#dead", "No dead letters.")
    assert stack.execute("SELECT count(*) FROM courier.dead_letter") == [(0,)]


def check_names_blocked_key(stack, browser, _):
    stack.publish("orders.created", "blocked-key", mood="fails")
    browser.await_true(lambda: stack.execute("SELECT count(*) FROM courier.parked") == [(1,)], "parked delivery")
    stack.publish("orders.created", "blocked-key")
    browser.await_text("#problems", "Key blocked-key of billing is blocked")
    browser.await_text("#blocked-rows", "database is locked")
    assert "parked retry --sink billing" in browser.text("#problems")


def check_is_accessible(stack, browser, _):
    """With something of each kind to show."""
    stack.execute("INSERT INTO courier.pause (sink, by, reason) VALUES ('audit', 'operator', 'a test')")
    stack.publish("orders.created", "rejected", mood="no")
    browser.await_text("#dead-rows", "rejected")
    browser.await_text("#problems", "a test")
    found = complaints(browser)
    assert found == [], found
    stack.execute("DELETE FROM courier.pause")


def check_folds_a_long_list_of_problems(stack, browser, _):
    """So that the sinks stay in sight."""
    stack.execute("INSERT INTO courier.receiver (sink, name, url) SELECT 'gone-' || i, 'r' || i, 'https://example.org/' FROM generate_series(1, 7) i")
    browser.await_shown("#problems-more")
    assert browser.run("return document.querySelectorAll('#problems li').length") == 5
    browser.click("#problems-more")
    browser.await_true(lambda: browser.run("return document.querySelectorAll('#problems li').length") > 7, "all problems")
    browser.click("#problems-more")
    stack.execute("DELETE FROM courier.receiver")
    browser.await_shown("#problems-more", False)


def check_fits_phone(_, browser, __):
    browser.set_screen(360, 740, is_phone=True)
    wide = browser.run("""return [...document.querySelectorAll('body *')].filter((node) => node.getClientRects().length &&
      node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.scroll, .sprite')).map((node) => node.outerHTML.slice(0, 120))""")
    assert browser.run("return document.documentElement.scrollWidth") <= 360 and wide == [], wide
    browser.set_screen(1360, 900)


def check_has_dark_colours(_, browser, __):
    """And in either, text stands out: 4.5 to 1 for what is read."""
    colours = {}
    for scheme in ("light", "dark"):
        browser.set_scheme(scheme)
        colours[scheme] = browser.run("return getComputedStyle(document.body).backgroundColor")
        poor = browser.run("""
          const part = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
            return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
          };
          const ground = (node) => {
            const colour = getComputedStyle(node).backgroundColor;
            return colour.startsWith('rgba(0, 0, 0, 0') ? ground(node.parentElement) : colour;
          };
          const isRead = (node) => node.getClientRects().length && !node.closest(':disabled')
            && [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
          return [...document.querySelectorAll('main *, header *')].filter(isRead).filter((node) => {
            const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05) < 4.5;
          }).map((node) => node.outerHTML.slice(0, 120))""")
        assert poor == [], (scheme, poor)
    assert colours["light"] != colours["dark"]
    browser.set_scheme("light")


def check_works_by_keyboard(_, browser, __):
    """Every control has a name, and can be reached."""
    nameless = browser.run("""return [...document.querySelectorAll('button, input, select')].filter((node) => node.getClientRects().length &&
      !(node.getAttribute('aria-label') || node.innerText || node.closest('label')?.innerText)).map((node) => node.outerHTML)""")
    assert nameless == [], nameless
    assert browser.run("return [...document.querySelectorAll('[tabindex]')].every((node) => node.tabIndex <= 0)")


def check_shows_taps(stack, browser, _):
    assert not browser.is_shown("#taps")
    stack.execute("CREATE TABLE messages (id serial PRIMARY KEY, topic text, key text, type text, payload jsonb, headers jsonb)")
    stack.execute("SELECT courier.attach('messages')")
    browser.await_shown("#taps")
    browser.await_text("#taps-rows", "public.messages")
    browser.await_text("#taps-rows", "ok")
    stack.execute("ALTER TABLE messages DISABLE TRIGGER USER")
    browser.await_text("#taps-rows", "disabled")
    browser.await_text("#problems", "Tap messages is disabled")
    stack.execute("SELECT courier.detach('messages')")
    browser.await_shown("#taps", False)


def check_shows_relays(stack, browser, _):
    """Sessions of the test stand for relays that have joined."""
    sessions = [stack.connect("shop"), stack.connect("shop")]
    try:
        for name, session in zip(("web1", "web2"), sessions):
            with session.cursor() as cursor:
                cursor.execute("SELECT courier.join_relays(%s, 'host-of-' || %s, '0.2.0', 5, '{}')", (name, name))
        browser.await_shown("#relays")
        browser.await_text("#relays-rows", "host-of-web2")
        browser.await_text("#relays-rows", "none")
        stack.execute("UPDATE courier.member SET is_drained = true WHERE name = 'web2'")
        browser.await_text("#relays-rows", "drained")
        browser.await_text("#problems", "Relay web2 is drained")
    finally:
        for session in sessions:
            session.close()
    browser.await_shown("#relays", False)


def check_says_how_old_figures_are(stack, browser, _):
    assert browser.faults("ERR_") == []
    stack.stop_relay()
    browser.await_shown("#stale")
    browser.await_text("#stale", "these figures are those of")
    assert browser.text("#sum-rate") == "–" and float(browser.run("return getComputedStyle(document.querySelector('main')).opacity")) < 1
    stack.start_relay()
    browser.await_shown("#stale", False)
    browser.await_text("#live-word", "live")
    assert browser.faults("ERR_") == []


def check_dates_figures_of_a_lost_database(stack, browser, _):
    """Not those of the relay itself, nor a moment of which nothing is known."""
    assert not browser.is_shown("#old")
    browser.await_true(lambda: browser.text(".card .trend strong") not in ("", "–"), "look at the database since the relay began")
    stack.stop_postgres()
    browser.await_shown("#old")
    browser.await_text("#old", "Backlogs and counts are those of")
    for old in (".card .trend", "#sum-waiting", "#stages"):
        assert float(browser.run("return getComputedStyle(document.querySelector(arguments[0])).opacity", old)) < 1, old
    rates = browser.run("return [...document.querySelectorAll('#sum-rate, #sum-latency, .trend:nth-child(n+2) strong')].map((node) => node.textContent)")
    assert set(rates) == {"–"}, rates
    assert browser.run("return getComputedStyle(document.querySelector('.card footer button')).visibility") == "hidden", "it would be refused"
    status = subprocess.run([stack.program, "status", "-c", f"{stack.folder}/pgcourier.yaml"], capture_output=True, text=True, check=False).stdout
    assert "OLD: backlogs and counts are those of 20" in status, status
    stack.start_server()
    browser.await_shown("#old", False)
    browser.await_true(lambda: browser.text("#sum-rate") != "–", "rate of the relay that is connected again")


def check_offers_nothing_that_is_refused(stack, browser, _):
    stack.admin = f'listen: "127.0.0.1:{stack.port}"'
    stack.start_relay_anew(browser)
    browser.await_shown(BILLING)
    browser.await_text("#no-token", "admin.token_file")
    for control in ("#token", BILLING + " footer button", "#dead-redrive", "#dead-drop"):
        assert not browser.is_shown(control), control
    stack.execute("INSERT INTO courier.pause (sink, by, reason) VALUES ('billing', 'operator', 'a test')")
    browser.await_text("#problems", "a test")
    assert not browser.is_shown("#problems button.primary")
    stack.execute("DELETE FROM courier.pause")
    browser.set_screen(390, 800, is_phone=True)
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    browser.set_screen(1360, 900)


def make_modules(stack):
    """A folder with a module that drops events, and Kafka's, if that was built; whether it was."""
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(stack.folder, "modules")
    folder.mkdir(mode=0o755)
    subprocess.run(["cc", "-std=gnu17", "-fPIC", "-shared", "-Wno-unused", f"-I{root}/include", "-o", folder / "null.so",
                    root / "tests/integration/modules/variant.c"], check=True)
    kafka = pathlib.Path(stack.program).parent / "modules/kafka.so"
    if kafka.exists():
        shutil.copy(kafka, folder)
    stack.settings = f"relay: {{ modules: {folder} }}\n"
    return kafka.exists()


def check_has_an_icon_for_each_kind(stack, browser, _):
    """Nothing needs to listen for that. What has none of its own has the one for others."""
    blocks = {
        "redis": 'redis: { url: "redis://127.0.0.1:1", stream: events }',
        "http": 'http: { url: "http://127.0.0.1:1/" }',
        "email": 'email: { url: "smtp://127.0.0.1:1", from: "shop@example.org" }',
        "nats": 'nats: { servers: ["127.0.0.1:1"] }',
        "rabbitmq": 'rabbitmq: { servers: ["127.0.0.1:1"], exchange: events }',
        "kafka": 'kafka: { brokers: ["127.0.0.1:1"] }',
        "stdout": "stdout: {}",
        "module": "module: { file: null.so }"}
    stack.stop_relay()
    if not make_modules(stack):
        del blocks["kafka"]
    old = stack.sinks
    stack.sinks = [f'{{ name: a-{kind}, topics: ["**"], {block} }}' for kind, block in blocks.items()]
    stack.start_relay()
    browser.await_true(stack.try_page, "page")
    browser.open(stack.url)
    for kind in blocks:
        browser.await_text(CARD.format(f"a-{kind}") + " .kind", kind)
    found = browser.run("""return [...document.querySelectorAll('[aria-label^="Sink a-"] .kind')].map((node) => {
      const icon = node.querySelector('svg.icon[aria-hidden=true] use');
      return [node.innerText, [icon.getAttribute('href'), icon.getBBox().width > 8]];
    })""")
    assert dict(found) == {kind: [f"#i-kind-{'other' if kind == 'module' else kind}", True] for kind in blocks}, found
    stack.sinks = old


def check_asks_for_token_to_read(stack, browser, _):
    stack.admin = f'listen: "0.0.0.0:{stack.port}", token: "{TOKEN}"'
    stack.start_relay_anew(browser)
    browser.await_text("#dialog-title", "Token")
    assert not browser.is_shown("main")
    browser.type("#dialog-field", TOKEN)
    browser.click("#dialog-confirm")
    browser.await_shown(BILLING)
    assert all("401" in line for line in browser.faults("ERR_"))


def make_sinks(receiver):
    return [
        f'{{ name: billing, topics: ["orders.*"], http: {{ url: "http://127.0.0.1:{receiver.port}/hook" }}, retry: {{ delays: [1h] }} }}',
        '{ name: audit, topics: ["**"], stdout: {} }']


sys.exit(run_checks(dict(globals()), make_sinks))
