#!/usr/bin/python3
"""Schedules on the live page: what they did, and what people let them do."""

import sys

from accessibility import complaints
from stack import TOKEN, run_checks

NAMES = ("good", "bad", "<img src=x onerror=alert(1)>/a b?")
ROW = "#schedules-rows tr[data-key='{}']"
GOOD, BAD, ODD = (ROW.format(name) for name in NAMES)


def marks(browser, row):
    return browser.run("return [...document.querySelectorAll(arguments[0] + ' .run')].map((mark) => mark.dataset.tone)", row)


def check_has_no_panel_without_schedules(stack, browser, _):
    browser.open(stack.url)
    browser.await_text("h1", "All well")
    assert not browser.is_shown("#schedules")


def check_shows_when_they_tick_and_what_became_of_it(stack, browser, _):
    for name, payload in zip(NAMES, ("{}", '{"mood": "refuses"}', "{}")):
        stack.execute("SELECT courier.schedule(%s, 'jobs.run', %s, cron => '30 6 * * mon-fri', time_zone => 'Europe/Berlin')", name, payload)
        stack.execute("SELECT courier.run_schedule(%s)", name)
    browser.await_text(GOOD, "delivered")
    browser.await_text(BAD, "dead")
    browser.await_text(ODD, "delivered")
    assert "cron 30 6 * * mon-fri Europe/Berlin" in browser.text(GOOD), browser.text(GOOD)
    assert marks(browser, GOOD) == ["ok"] and marks(browser, BAD) == ["bad"]
    browser.await_text("#problems", "Schedule bad has failed")


def check_leads_to_the_event_of_a_run(_, browser, __):
    browser.click(BAD + " .run")
    browser.await_text("#trace", "dead")
    browser.click("#sheet-close")


def check_runs_one_now(_, browser, receiver):
    before = len(receiver.seen)
    browser.click(GOOD + " .choices button:first-child")
    browser.type("#dialog-field", TOKEN)
    browser.click("#dialog-confirm")
    browser.await_true(lambda: len(receiver.seen) == before + 1, "the event of a run by hand")
    browser.await_true(lambda: marks(browser, GOOD) == ["ok", "ok"], "its mark")


def check_pauses_one_and_lets_it_go_on(stack, browser, _):
    browser.click(ODD + " .choices button:last-child")
    browser.await_text(ODD, "paused")
    assert stack.execute("SELECT paused_at IS NOT NULL FROM courier.schedule WHERE name = %s", NAMES[2]) == [(True,)]
    browser.await_text(ODD + " .choices button:last-child", "Resume")
    browser.click(ODD + " .choices button:last-child")
    browser.await_text(ODD, "active")


def check_fits_a_phone_and_is_accessible(_, browser, __):
    for width in (1280, 390):
        browser.set_screen(width, 800, is_phone=width < 500)
        assert browser.run("return document.documentElement.scrollWidth") <= width, width
        assert complaints(browser) == [], complaints(browser)
    browser.set_screen(1360, 900)
    found = browser.faults("status of 401")  # of the first try, without a token
    assert found == [], found


def make_sinks(receiver):
    return [f'{{ name: jobs, topics: ["jobs.*"], http: {{ url: "http://127.0.0.1:{receiver.port}/", signing: none }} }}']


sys.exit(run_checks(dict(globals()), make_sinks))
