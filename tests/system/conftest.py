"""The tiers of the tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pytest_tiers import *  # noqa: E402, F401, F403
