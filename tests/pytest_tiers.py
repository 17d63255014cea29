"""Hooks of pytest: with LEAT_REQUIRE_ALL=1, skipped tests and skipped files fail. Tests marked `long` run only with LEAT_LONG=1."""

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


def pytest_configure(config):
    config.addinivalue_line("markers", "long: slow; runs only with LEAT_LONG=1")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("LEAT_LONG") == "1":
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
