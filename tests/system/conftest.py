"""With LEAT_REQUIRE_ALL=1 in the environment a test that skips, or a file that skips as a whole, fails."""

import os

import pytest

REQUIRE_ALL = os.environ.get("LEAT_REQUIRE_ALL") == "1"


def fail_if_skipped(report):
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: skipped, and LEAT_REQUIRE_ALL=1 allows no test to skip: {reason}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    fail_if_skipped((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report():
    fail_if_skipped((yield).get_result())
