"""A headless Chromium, driven over the WebDriver protocol, which is JSON over HTTP."""

import base64
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import leat

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id, by the protocol


class Browser:
    def __init__(self, width=1440, height=900, dark=False):
        self.profile = tempfile.TemporaryDirectory()
        self.log = open(pathlib.Path(self.profile.name, "driver.log"), "w+")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=self.log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        self.address = None
        try:
            self.address = "http://127.0.0.1:" + leat.wait_for(self._port, "the start of chromedriver", 60)
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         f"--user-data-dir={self.profile.name}/profile"]
            capabilities = {"browserName": "chrome", "acceptInsecureCerts": True, "goog:loggingPrefs": {"browser": "ALL"},
                            "goog:chromeOptions": {"args": arguments}}
            session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
            self.session = "/session/" + session["sessionId"]
            self.resize(width, height)
            self.devtools("Emulation.setEmulatedMedia",
                          features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        except BaseException:
            self.end()
            raise

    def _port(self):
        assert self.driver.poll() is None, "chromedriver has ended"
        text = pathlib.Path(self.log.name).read_text()
        _, found, after = text.partition("started successfully on port ")
        return after.split(".")[0] if found and "." in after else None

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{method} {path}: {e.read().decode()[:500]}") from None

    def devtools(self, command, **parameters):
        return self._call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def open(self, url):
        self._call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """The result of a script, which is the body of a function."""
        return self._call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        """The visible text of an element; None if there is no such element, or it is hidden."""
        return self.run("const e = document.querySelector(arguments[0]); return e && e.checkVisibility() ? e.innerText : null",
                        selector)

    def type(self, selector, keys):
        element = self._call("POST", self.session + "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self._call("POST", f"{self.session}/element/{element}/value", {"text": keys})

    def click(self, selector):
        element = self._call("POST", self.session + "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self._call("POST", f"{self.session}/element/{element}/click", {})

    def cookies(self):
        return self._call("GET", self.session + "/cookie")

    def complaints(self):
        """Errors and warnings that the console has shown since the last call."""
        return [entry["message"] for entry in self._call("POST", self.session + "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path, height=None):
        """Saves a picture of the whole page, or of its first `height` pixels, as a .png or .webp file."""
        width, whole = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        shot = self.devtools("Page.captureScreenshot", format=pathlib.Path(path).suffix[1:], captureBeyondViewport=True,
                             clip={"x": 0, "y": 0, "width": width, "height": height or whole, "scale": 1})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def end(self):
        with contextlib.suppress(Exception):
            self._call("DELETE", self.session)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.driver.pid, signal.SIGKILL)  # with the browser's remaining processes
        self.driver.wait()
        self.log.close()
        with contextlib.suppress(OSError):
            self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
