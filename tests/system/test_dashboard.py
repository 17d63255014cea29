"""The page of a job, looked at with a real browser."""

# folders: show/dashboard show/http show/history

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

import leat
import packages
from browser import Browser

DESKTOP = (1440, 900)
SIZES = [DESKTOP, (1920, 1080), (1024, 768), (820, 1180), (390, 844)]
PICTURES = {(1440, False): "dashboard-light.webp", (1440, True): "dashboard-dark.webp", (390, True): "dashboard-phone.webp"}
MOST_BYTES = 300_000
MOST_SECONDS_TO_POINTS = 5
MOST_MS_TO_PAINT = 1000

# {title: number of points} of the charts, and [] if there are none.
CHARTS = """
  return Object.fromEntries([...document.querySelectorAll("canvas")].map((canvas) => {
    const chart = window.Chart && Chart.getChart(canvas);
    const points = chart ? Math.max(0, ...chart.data.datasets.map((d) => d.data.filter((p) => (p && p.y !== undefined ? p.y : p) !== null).length)) : 0;
    return [canvas.getAttribute("aria-label"), points];
  }))"""
# {node: {member, state, class}} of the table.
MEMBERS = """
  return Object.fromEntries([...document.querySelectorAll("#members tbody tr")].map((row) => [row.dataset.node,
    {member: row.children[0].innerText, state: row.children[1].innerText, gone: row.classList.contains("gone")}]))"""
VERDICTS = """return Object.fromEntries([...document.querySelectorAll(".verdict")].map((v) => [v.id.replace("verdict-", ""),
  [v.className.replace("verdict ", ""), v.querySelector(".headline").textContent]]))"""


@pytest.fixture(scope="module", autouse=True)
def installed():
    packages.installed("browser")


@contextlib.contextmanager
def demo(folder, *arguments, rate=20_000):
    """`leat demo --dashboard` and the link to its page."""
    directory = folder / "job"
    with leat.Job("demo", "--events", 600 * rate, "--rate", rate, "--directory", directory, "--dashboard", *arguments,
                  directory=directory) as job:
        try:
            yield job, leat.wait_for(lambda: link_in(job.text()), "the link to the page")
        finally:
            job.kill()


def link_in(text):
    found = re.search(r"https?://\S+/#[0-9a-f]{64}", text)
    return found and found[0]


def show(browser, link):
    browser.open(link)
    leat.wait_for(lambda: browser.run("return !document.getElementById('board').hidden"), "the page of the job", 60)


def has_points(browser):
    points = browser.run(CHARTS)
    return len(points) == 7 and min(points.values()) >= 2 and points


def overflows(browser):
    """Elements whose text is cut off, and whether the page is wider than the screen."""
    return browser.run("""
      const cut = [...document.querySelectorAll("h1, h2, .headline, .why, dd, .value, .row .name, .pill, .legend span")]
        .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline")
        .map((e) => e.className + ": " + e.textContent);
      const wide = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
      return cut.concat(wide)""")


def test_a_job_at_a_glance(tmp_path):
    with Browser(*DESKTOP) as browser, demo(tmp_path) as (job, link):
        show(browser, link)
        # The token has been exchanged for a cookie that scripts cannot read.
        assert "#" not in browser.run("return location.href")
        (cookie,) = browser.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert browser.run("return document.cookie") == ""

        # Every chart has points within five seconds of training.
        leat.wait_for(lambda: has_points(browser), "points in all charts", 60)
        late = browser.run("""
          const history = arguments[0];
          return fetch("history?seconds=0&points=2000").then((r) => r.json()).then((h) => {
            const first = Object.fromEntries(Object.entries(h.series).map(([name, values]) => [name, values.findIndex((v) => v !== null)]));
            return Object.fromEntries(Object.entries(first).filter(([, i]) => i >= 0).map(([name, i]) => [name, h.t[i]]));
          })""")
        started = browser.run("""
          return new Promise((resolve) => {
            const events = new EventSource("events");
            events.addEventListener("log", (m) => { events.close(); resolve(JSON.parse(m.data).find((e) => e.text === "running").time); });
          })""")
        for name in ("events_per_s", "arrived_per_s", "loss", "auc", "auc_possible", "accuracy", "lag", "staleness",
                     "server_bytes_per_s", "compute", "wait", "input_wait"):
            assert late[name] - started <= MOST_SECONDS_TO_POINTS, (name, late[name] - started)

        # Small, at once, and without complaints.
        loads = []
        for _ in range(3):
            browser.open(link.split("#")[0])
            leat.wait_for(lambda: has_points(browser), "points in all charts", 60)
            loads.append(browser.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        assert min(loads) <= MOST_MS_TO_PAINT, loads
        total = browser.run("""return performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
          .filter((e) => !/history|events|session/.test(e.name)).reduce((sum, e) => sum + e.decodedBodySize, 0)""")
        assert 100_000 < total <= MOST_BYTES
        assert browser.run("return performance.getEntriesByType('resource').every((e) => e.name.startsWith(location.origin))")
        assert overflows(browser) == []

        verdicts = leat.wait_for(
            lambda: (v := browser.run(VERDICTS)) and all(level in ("good", "warn") for level, _ in v.values()) and v, "verdicts")
        assert verdicts["health"][0] == "good" or "members" in verdicts["health"][1], verdicts

        # A worker that is killed is shown as dead, and its successor as live.
        victim = next(m for m in job.status()["members"] if m["role"] == "worker")
        os.kill(victim["pid"], signal.SIGKILL)

        def replaced():
            members = browser.run(MEMBERS)
            old = members.get(str(victim["node"]))
            new = [m for node, m in members.items() if m["member"] == f"worker {victim['index']}" and int(node) > victim["node"]]
            return old and old["gone"] and old["state"] == "dead" and new and new[0]["state"].startswith("live") and members

        members = leat.wait_for(replaced, "the worker's successor", 60)
        assert sum(m["gone"] for m in members.values()) == 1
        assert f"worker {victim['index']} died" in browser.text("#log")
        assert "successor" in next(m["state"] for node, m in members.items()
                                   if m["member"] == f"worker {victim['index']}" and not m["gone"])

        # Both themes.
        before = browser.run("return getComputedStyle(document.body).backgroundColor")
        browser.click("#theme")
        assert browser.run("return getComputedStyle(document.body).backgroundColor") != before
        browser.click('[data-range="0"]')
        leat.wait_for(lambda: has_points(browser), "points in all charts")
        assert browser.complaints() == []

        # The end of the job.
        job.interrupt()
        leat.wait_for(lambda: browser.text("#connection") == "finished", "the end of the job", 60)
        assert browser.text("#phase") == "ended"
        assert job.wait() == 0
        assert browser.complaints() == []


LETTER = "<img src=x onerror=\"document.title='broken'\"><b>bold</b>"
JOB = """
name: "<i>letters<br>"
stream: {files: {format: json, paths: [rows.jsonl]}}
schema:
  format: json
  fields:
    amount: {type: number}
    fraud: {type: number, role: label, classes: 2}
model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.0001}
strategy: async
train: {batch_size: 10, split_batches: 2}
cluster: {workers: 1, ps: 1}
"""


def finished(folder):
    """A job that is over, with a dead letter that would be a script if it were HTML."""
    rows = [json.dumps({"amount": i, "fraud": i % 2}) for i in range(3000)]
    rows[700] = json.dumps({"amount": LETTER, "fraud": 0})
    (folder / "rows.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "job.yaml").write_text(JOB)
    result = leat.summary(leat.run("train", "job.yaml", "--json", "--directory", "job", cwd=folder))
    assert result["dead_letters"] == 1
    return folder / "job"


@contextlib.contextmanager
def page_of(directory, *arguments):
    """`leat dashboard --directory` and the link to its page."""
    with open(directory.parent / "page.out", "w+") as output:
        page = subprocess.Popen([leat.PROGRAM, "dashboard", "--directory", directory, *arguments], stdout=output,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            yield leat.wait_for(lambda: link_in(pathlib.Path(output.name).read_text()), "the link to the page", 30)
        finally:
            page.send_signal(signal.SIGINT)
            assert page.wait(30) == 0


def status_of(url, method="GET", **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=30) as response:
            return response.status
    except urllib.error.HTTPError as e:
        return e.code


def test_a_job_that_is_over_and_a_dead_letter_with_html(tmp_path):
    with page_of(finished(tmp_path)) as link, Browser(*DESKTOP) as browser:
        address, token = link.split("#")
        assert status_of(address) == 200
        for path in ("history", "events"):
            assert status_of(address + path) == 401
            assert status_of(address + path, Authorization="Bearer " + "0" * 64) == 401
        assert status_of(address + "history", Authorization="Bearer " + token) == 200
        assert status_of(address + "history", Authorization="Bearer " + token, Host="elsewhere.example") in (403, 421)
        assert status_of(address + "history", Authorization="Bearer " + token, Origin="http://elsewhere.example") == 403

        # Without a token the page asks for it.
        browser.open(address)
        leat.wait_for(lambda: browser.text("#login"), "the question for the token")
        browser.type("#token", "0" * 64 + "\n")
        leat.wait_for(lambda: browser.text("#login-error"), "the refusal")
        browser.complaints()  # the browser logs the status 401
        browser.run("document.getElementById('token').value = ''")
        browser.type("#token", token + "\n")
        leat.wait_for(lambda: browser.text("#dead-reasons"), "the job", 30)

        assert browser.text("#connection") == "finished"
        assert browser.text("#job") == "<i>letters<br>"
        assert LETTER in browser.text("#dead")
        assert browser.text("#dead-reasons").startswith("amount: '…' is not a number")
        leat.wait_for(lambda: browser.run("return document.title") == "<i>letters<br> · Leat", "the title")
        assert browser.run("return document.querySelectorAll('#dead img, #dead b, h1 i').length") == 0
        assert browser.run(VERDICTS)["pace"][1] == "Everything is trained"
        assert browser.complaints() == []


def test_what_is_refused(tmp_path):
    leat.refused(leat.run("dashboard"), "--directory", "--link")
    leat.refused(leat.run("dashboard", "--directory", tmp_path), str(tmp_path), "no history")
    leat.refused(leat.run("dashboard", "--link"), "--coordinator")
    for command in (["demo"], ["coordinator", "--demo"]):
        directory = tmp_path / command[0]
        leat.refused(leat.run(*command, "--directory", directory, "--dashboard", "0.0.0.0:0", timeout=60),
                     "--dashboard", "0.0.0.0:0", "--trusted-network")
        leat.refused(leat.run(*command, "--directory", directory, "--dashboard", "job.yaml", timeout=60), "--dashboard", "job.yaml")
        assert not directory.exists()


def test_a_port_that_is_in_use(tmp_path):
    with demo(tmp_path) as (_, link):
        address = re.search(r"//(.+)/#", link)[1]
        done = leat.run("coordinator", "--demo", "--directory", tmp_path / "other", "--dashboard", address, timeout=60)
        leat.refused(done, "--dashboard", address, "in use", status=75)


def test_the_link_of_a_running_job(tmp_path):
    with demo(tmp_path) as (job, link):
        job.status()
        address, token = job.where
        done = leat.run("dashboard", "--link", "--coordinator", address, env={"LEAT_TOKEN": token})
        assert (done.returncode, done.stdout.strip()) == (0, link)


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_all_sizes(tmp_path, dark):
    with Browser(*DESKTOP, dark=dark) as browser, demo(tmp_path, "--workers", 4, "--ps", 3) as (job, link):
        show(browser, link)
        for width, height in SIZES:
            browser.resize(width, height)
            leat.wait_for(lambda: has_points(browser), "points in all charts")
            leat.wait_for(lambda: overflows(browser) == [], f"a page that fits into {width} × {height}", 10)
            browser.screenshot(tmp_path / f"{width}-{'dark' if dark else 'light'}.png")
            if os.environ.get("LEAT_WRITE_DOCS") == "1" and (width, dark) in PICTURES:
                leat.wait_for(lambda: job.status()["events"] > 1_000_000, "lines of some length")
                browser.screenshot(leat.ROOT / "docs" / PICTURES[width, dark], min(height * 4 // 3, 1200))
        assert browser.complaints() == []


@pytest.mark.long
def test_a_coordinator_that_dies_and_one_viewer_too_many(tmp_path):
    with Browser(*DESKTOP) as browser, demo(tmp_path) as (job, link):
        show(browser, link)
        leat.wait_for(lambda: has_points(browser), "points in all charts")
        (coordinator,) = job.pids("coordinator")
        os.kill(coordinator, signal.SIGKILL)
        leat.wait_for(lambda: "no connection" in (browser.text("#connection") or ""), "the loss of the connection", 30)
        leat.wait_for(lambda: browser.text("#connection") == "live", "the new coordinator", 60)
        leat.wait_for(lambda: "a coordinator of term 2 has taken over" in (browser.text("#log") or ""), "the log of it", 30)
        assert "job demo, strategy async" in browser.text("#log"), "the history goes on"

        address, token = link.split("#")
        request = urllib.request.Request(address + "events", headers={"Authorization": "Bearer " + token})
        with contextlib.ExitStack() as viewers:
            statuses = []
            for _ in range(16):
                try:
                    statuses.append(viewers.enter_context(urllib.request.urlopen(request, timeout=30)).status)
                except urllib.error.HTTPError as e:
                    statuses.append(e.code)
        assert statuses == [200] * 15 + [503]
