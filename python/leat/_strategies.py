"""Strategies of data parallelism, with the settings of docs/jobs.md."""

from leat._settings import Setting


class Async(Setting):
    """Each push is applied when it arrives."""

    type = "async"


class Sync(Setting):
    """Each step makes one update, from the mean of all its lanes: `Sync(lanes=..., backup=...)`."""

    type = "sync"


class SSP(Setting):
    """Workers may be some steps ahead: `SSP(staleness=3)`."""

    type = "ssp"
    positional = ("staleness",)


class Downpour(Setting):
    """Pushes and pulls in periods of their own: `Downpour(n_push=..., n_fetch=...)`."""

    type = "downpour"


class Averaging(Setting):
    """Lanes train by themselves, then values are averaged: `Averaging(period=...)`."""

    type = "averaging"
    positional = ("period",)


class AllReduce(Setting):
    """Workers reduce gradients among themselves, without servers."""

    type = "allreduce"
