"""Hooks of pytest: with LEAT_REQUIRE_ALL=1, skipped tests and skipped files fail. Tests marked `long` run only with LEAT_LONG=1.

The file that LEAT_CASES names receives two lines for each case, which tools/run_tests.py shows while the file of tests runs:

    system.jobs <tab> test_x <tab> started
    system.jobs <tab> test_x <tab> passed <tab> seconds <tab> the error's first line, if it failed
"""

import os

import pytest

REQUIRE_ALL = os.environ.get("LEAT_REQUIRE_ALL") == "1"
CASES = os.environ.pop("LEAT_CASES", "")  # not for programs that the tests start


def fail_if_skipped(report):
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: skipped, and LEAT_REQUIRE_ALL=1 allows no test to skip: {reason}"


def tell(path, *words):
    """Appends a line to the file LEAT_CASES. A single write, because several files of tests run at a time."""
    if not CASES:
        return
    name = f"{path.parent.name}.{path.stem.removeprefix('test_')}"
    line = "\t".join([name, *(word.replace("\t", " ") for word in words)])
    with open(CASES, "ab", buffering=0) as out:
        out.write(line.encode(errors="replace") + b"\n")


def first_line(longrepr):
    """The error of a failed report."""
    crash = getattr(longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(longrepr)).strip().splitlines() or [""]
    return (lines[0] if crash else lines[-1].removeprefix("E")).strip()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    item.leat_case = {"outcome": "passed", "seconds": 0.0, "error": ""}
    tell(item.path, item.name, "started")
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    fail_if_skipped(report)
    case = item.leat_case
    case["seconds"] += report.duration
    if report.outcome != "passed" and case["outcome"] != "failed":
        case["outcome"] = report.outcome
        case["error"] = first_line(report.longrepr) if report.failed else ""
    if report.when == "teardown":
        tell(item.path, item.name, case["outcome"], f"{case['seconds']:.2f}", case["error"])


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    report = (yield).get_result()
    fail_if_skipped(report)
    if report.failed:
        tell(collector.path, "(import)", "failed", "0", first_line(report.longrepr))


def pytest_configure(config):
    config.addinivalue_line("markers", "long: slow; runs only with LEAT_LONG=1")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("LEAT_LONG") == "1":
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        config.leat_left_out = True
        items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session, exitstatus):
    """A file whose cases are all of the long tier passes in the default one."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and getattr(session.config, "leat_left_out", False):
        session.exitstatus = pytest.ExitCode.OK
