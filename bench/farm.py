#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the overhead and the fault tolerance of a farm on this machine. The farm is a scheduler and two
members, whose stations sleep in place of a measurement.

    ./tw bench --farm [--jobs 1000]

Prints JSON: the time of a job without work, once with all jobs queued and once by itself; the number of
measurements that overlap on one device, which must be 0; and, for the kill of a member and of the scheduler,
the number of results that came and the seconds until all had come.
"""
import argparse
import asyncio
import contextlib
import json
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import distributed

from tilewright import farm

STATION = pathlib.Path(__file__).resolve().parent / "sleeping_station.py"
RESOURCES = ["device", "device:sleeping"]


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def children_of(process):
    """Process ids of the children of a process and of all their descendants."""
    found = []
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += [int(child) for child in children.read_text().split()]
    return found + [below for child in found for below in children_of(child)]


class Cluster:
    """A scheduler and members on the loopback interface. They end when the context is left."""

    def __init__(self, scheme="tcp", arguments=(), environment=None):
        self.address = f"{scheme}://127.0.0.1:{free_port()}"
        self._arguments, self._environment = arguments, {**os.environ, **(environment or {})}
        self._log = tempfile.TemporaryFile()
        self.members = []
        self.scheduler = None
        self.start_scheduler()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            member.terminate()
        for member in self.members:
            try:
                member.wait(10)
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
        self.kill_scheduler()
        self._log.close()

    def start(self, command):
        return subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=self._log,
                                stderr=self._log)

    def log(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def start_scheduler(self):
        """Starts the scheduler and returns once it accepts connections."""
        scheme, _, place = self.address.partition("://")
        host, port = place.rsplit(":", 1)
        self.scheduler = self.start([sys.executable, "-m", "distributed.cli.dask_scheduler", "--protocol", scheme, "--host",
                                     host, "--port", port, "--no-dashboard", *self._arguments])
        while self.scheduler.poll() is None:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, int(port))):
                return
            time.sleep(0.05)
        raise RuntimeError("the scheduler did not start: " + self.log())

    def kill_scheduler(self):
        self.scheduler.kill()
        self.scheduler.wait()

    def add_member(self, name, resources=RESOURCES):
        self.members.append(self.start([sys.executable, "-m", "tilewright.farm", "member", self.address, "--resources",
                                        ",".join(resources), "--", sys.executable, str(STATION), name]))

    def kill_worker(self, number):
        """Kills all processes of a member except its main process, which restarts the others."""
        for process in children_of(self.members[number].pid):
            os.kill(process, signal.SIGKILL)


async def with_members(runner, count):
    while len(await runner.members()) < count:
        await asyncio.sleep(0.1)


async def sleep_on(runner, seconds, count=1):
    """Queues `count` jobs and returns their replies (name, began, ended). Raises RuntimeError on a fault."""
    replies = await asyncio.gather(*[runner.perform("measure", str(seconds).encode(), RESOURCES, 60) for _ in range(count)])
    for fault, _ in replies:
        if fault:
            raise RuntimeError(fault)
    return [(name, int(began), int(ended)) for name, began, ended in (reply.decode().split() for _, reply in replies)]


def overlaps(replies):
    """Number of jobs that began on a device before an earlier job on it had ended."""
    count, free_at = 0, {}
    for name, began, ended in sorted(replies, key=lambda reply: reply[1]):
        count += began < free_at.get(name, 0)
        free_at[name] = max(ended, free_at.get(name, 0))
    return count


async def measure(cluster, jobs):
    figures = {}
    async with farm.Farm(cluster.address, patience_s=60) as runner:
        await with_members(runner, 2)
        await sleep_on(runner, 0, 4)
        began = time.monotonic()
        replies = await sleep_on(runner, 0, jobs)
        figures["queued_job_ms"] = 1e3 * (time.monotonic() - began) / jobs
        replies += await sleep_on(runner, 0.001, jobs)
        figures.update(jobs=len(replies), overlaps=overlaps(replies), devices=len({name for name, _, _ in replies}))
        began = time.monotonic()
        for _ in range(10):
            await sleep_on(runner, 0)
        figures["single_job_ms"] = 1e3 * (time.monotonic() - began) / 10

        async def interrupted_by(name, break_it):
            began = time.monotonic()
            results = asyncio.ensure_future(sleep_on(runner, 0.05, 40))
            await asyncio.sleep(0.5)
            await break_it()
            figures[f"results_after_{name}_was_killed"] = len(await results)
            figures[f"seconds_with_{name}_killed"] = time.monotonic() - began

        async def kill_member():
            cluster.kill_worker(0)

        async def kill_scheduler():
            cluster.kill_scheduler()
            cluster.start_scheduler()

        await interrupted_by("a_member", kill_member)
        await interrupted_by("the_scheduler", kill_scheduler)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farm", action="store_true", help="what ./tw bench goes by")
    parser.add_argument("--jobs", type=int, default=1000)
    given = parser.parse_args()
    logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)  # members are killed on purpose
    with Cluster() as cluster:
        for name in ("first", "second"):
            cluster.add_member(name)
        print(json.dumps(asyncio.run(measure(cluster, given.jobs)), indent=2))


if __name__ == "__main__":
    main()
