"""A headless Chromium, driven over W3C WebDriver by HTTP: the few calls that a test needs."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"))
from ports import free_ports  # noqa: E402  # pylint: disable=wrong-import-position

# Nothing of it may look at the network; --no-sandbox because root may not have one.
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"]


def free_port():
    return free_ports(1)[0]


class StaleElement(RuntimeError):
    """The page has drawn it anew."""


class Browser:
    """Use it with `with`."""

    def __init__(self, width=1360, height=900):
        self.folder = tempfile.mkdtemp(prefix="pgcourier-chromium-")
        self.base = f"http://127.0.0.1:{free_port()}"
        self.session = ""
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.base.rsplit(':', 1)[1]}"], start_new_session=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.await_true(self.is_up, "answer from chromedriver")
            options = {"args": ARGUMENTS + [f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"],
                       "binary": shutil.which("chromium")}
            answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
            self.session = f"/session/{answer['sessionId']}"
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session:
            self.call("DELETE", self.session)
        try:
            os.killpg(self.driver.pid, 15)
        except ProcessLookupError:
            pass
        self.driver.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_up(self):
        try:
            return self.call("GET", "/status")["ready"]
        except urllib.error.URLError:
            return False

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            words = f"{method} {path}: {json.load(error)['value']['message']}"
            raise (StaleElement if "stale element" in words else RuntimeError)(words) from None

    def run(self, script, *arguments):
        return self.call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.call("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, url):
        self.call("POST", f"{self.session}/url", {"url": url})

    def set_screen(self, width, height, is_phone=False, scale=1):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone)

    def set_scheme(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def find(self, css):
        found = self.call("POST", f"{self.session}/element", {"using": "css selector", "value": css})
        return f"{self.session}/element/{next(iter(found.values()))}"

    def on_element(self, css, act):
        """What the page draws anew between finding and acting is looked for again."""
        while True:
            try:
                return act(self.find(css))
            except StaleElement:
                continue

    def click(self, css):
        """As a person does: an element that is hidden or covered cannot be clicked."""
        def act(element):
            self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", {"element-6066-11e4-a52e-4f735466cecf": element.rsplit("/", 1)[1]})
            self.call("POST", element + "/click", {})
        self.on_element(css, act)

    def type(self, css, text):
        """Once it is shown: a dialog may open only when the server has answered."""
        self.await_shown(css)
        self.on_element(css, lambda element: self.call("POST", element + "/value", {"text": text}))

    def text(self, css):
        """What is visible of it; "" if there is none."""
        return self.run("const node = document.querySelector(arguments[0]); return node ? node.innerText : ''", css)

    def is_shown(self, css):
        return self.run("const node = document.querySelector(arguments[0]); return Boolean(node && node.getClientRects().length)", css)

    def log(self):
        """What the console was told since the last call, but for the browser's own first page, which wants a
        network: errors, and what the policy refused."""
        said = self.call("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in said if not entry["message"].startswith("chrome://")]

    def faults(self, *expected):
        """The same but for what holds one of these words, and for answers that could not be had yet: a relay has no
        session, or a busy machine is late."""
        return [line for line in self.log() if not any(word in line for word in (*expected, "status of 503"))]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", f"{self.session}/screenshot")))

    @staticmethod
    def await_true(condition, what, seconds=20):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} after {seconds} s")
            time.sleep(0.05)

    def await_text(self, css, wanted):
        self.await_true(lambda: wanted in self.text(css), f"\"{wanted}\" in {css}")

    def await_shown(self, css, is_wanted=True):
        self.await_true(lambda: self.is_shown(css) == is_wanted, f"{css}{'' if is_wanted else ' gone'}")
