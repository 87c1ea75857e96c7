# SPDX-License-Identifier: Apache-2.0
"""Many members of a farm in one process, which measure nothing.

    sleeping_members.py tcp://scheduler:8786 device,gpu:sm_90 COUNT

Each member is a Dask worker that joins and rejoins as real members do (python/tilewright/farm.py), and that handles
jobs as sleeping_station.py does. A real member has three processes, a main process, a Dask worker and a station, and
takes some 200 MB.
"""
import asyncio
import logging
import os
import signal
import sys
import time

import dask
import distributed
from sleeping_station import answer, words_of

from tilewright import farm


def worker_alone(address, *, env, **options):
    """A Dask worker in this process, in place of a nanny that starts a worker process."""
    return distributed.Worker(address, dashboard=False, **options)


async def perform(kind, body, limit_s):
    """Replaces farm.perform() on the members of this process. It uses no threads, as threads that wake for each job
    would have to wait for Python's lock."""
    seconds, *words = words_of(body)
    began = time.monotonic_ns()
    await asyncio.sleep(float(seconds))
    return "", answer(distributed.get_worker().address, began, words)


async def join_all(address, resources, count):
    members = asyncio.gather(*[farm.join(address, resources, 1, ["none"]) for _ in range(count)])
    await asyncio.sleep(0)  # each worker has set a signal handler, and only the last handler is in effect
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, os._exit, 0)
    await members


def main(address, resources, count):
    logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)  # the scheduler is killed on purpose
    # Each Dask worker watches its loop 50 times a second and its process twice, which would add up here.
    dask.config.set({"distributed.admin.tick.interval": "1s", "distributed.admin.system-monitor.interval": "10s"})
    distributed.Nanny, farm.perform = worker_alone, perform
    asyncio.run(join_all(address, resources.split(","), int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
