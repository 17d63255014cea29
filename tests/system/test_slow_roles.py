"""Roles that are slow are not taken for dead: batches and starts take longer than a role may be silent."""

import leat

EVENTS = 1600
STRATEGIES = ["async", "sync", "{type: ssp, staleness: 1}", "{type: averaging, period: 2}", "allreduce"]


def slow(folder, strategy):
    """A job that counts events, in batches that take three times the heartbeat timeout."""
    servers = 0 if strategy == "allreduce" else 2
    return leat.write_job(
        folder / "slow.yaml", (leat.EXAMPLES / "counter.yaml").read_text(),
        **{"strategy: async": f"strategy: {strategy}", "events: 1000000": f"events: {EVENTS}", "units: 16384": "units: 64",
           "split_batches: 20": "split_batches: 2", "workers: 3, ps: 2": f"workers: 2, ps: {servers}, heartbeat_timeout_s: 1",
           "interval_s: 5": "interval_s: 5}\ndebug: {step_ms: 3000, init_ms: 2000"})


def test_batches_longer_than_the_heartbeat_timeout_evict_nobody(tmp_path):
    jobs = {}
    for i, strategy in enumerate(STRATEGIES):
        folder = tmp_path / str(i)
        folder.mkdir()
        jobs[strategy] = leat.Job("train", slow(folder, strategy), "--directory", folder / "j", directory=folder / "j")
    try:
        for strategy, job in jobs.items():
            assert job.wait(300) == 0, (strategy, job.text()[-2000:])
            summary = job.summary()
            assert summary["events"] == EVENTS and summary["evictions"] == 0, (strategy, summary)
            assert {x for v in leat.tensors(job.directory).values() for x in v} == {EVENTS}, strategy
    finally:
        for job in jobs.values():
            job.end()
