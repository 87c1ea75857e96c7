#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the overhead and the fault tolerance of a farm on this machine. The farm is a scheduler and members,
whose stations sleep in place of a measurement.

    ./tw bench --farm [--jobs 1000] [--members 1,8,50,200] [--output farm.json]

Without --members there are two members. The figures are: the time of a job without work, once with all jobs queued and
once by itself; the number of measurements that overlap on one device, which must be 0; and, after a member and after
the scheduler was killed, the number of results that came and the seconds until all had come.

With --members there is a row for each number of members. All jobs are queued at once, through the client that `tune
--workers` starts, and each sleeps as long as a measurement took in a recording (bench/results). A row has the jobs a
second, the time that a job takes on its device in addition to the recorded time, and the jobs a second without work.
Then the scheduler is killed and restarted: the row has the seconds until each member has begun a job again, and the
number of jobs lost. Up to {own} members are processes of their own; more are Dask workers in {processes} processes.

Each reply is compared with its job before a figure is reported.
"""
import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import distributed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import documents  # noqa: E402
from tilewright import farm  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
STATION, SIMULATED = FOLDER / "sleeping_station.py", FOLDER / "sleeping_members.py"
RESOURCES = ["device", "device:sleeping"]
RECORDING = FOLDER.parent / "results" / "zen4_2_cores" / "throughput.json"
# Bytes of a job: two kernels, the candidate and the reference, of 6 to 20 kB, and texts.
JOB_BYTES = 24_000
MOST_PROCESSES = 8  # members that are processes of their own; together they take 2 GB
PROCESSES = 4  # that more members share


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def children_of(process):
    """Returns the process IDs of the children of a process and of all their descendants."""
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

    def start(self, command, **options):
        return subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=self._log,
                                stderr=self._log, **options)

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

    def add_members(self, count, processes):
        """Adds `count` members, which run in `processes` processes."""
        for share in range(processes):
            own = count // processes + (share < count % processes)
            self.members.append(self.start([sys.executable, str(SIMULATED), self.address, ",".join(RESOURCES),
                                            str(own)]))

    def kill_worker(self, number):
        """Kills all processes of a member except its main process, which restarts the others."""
        for process in children_of(self.members[number].pid):
            os.kill(process, signal.SIGKILL)


# Starts a program. One of this process's descriptors becomes the program's descriptor WORKER_FD.
ON_DESCRIPTOR = f"import os, sys; os.dup2(int(sys.argv[1]), {farm.WORKER_FD}); os.execv(sys.argv[2], sys.argv[2:])"


class Tuner:
    """Plays the tuner: it starts the client that `tune --workers` starts, and gives it jobs over its link
    (tuner/workers/farm_link.h). perform() is as in Farm:

        async with Tuner(cluster) as tuner:
            fault, reply = await tuner.perform("measure", body, ["device"], limit_s=30)
    """

    def __init__(self, cluster):
        self._cluster, self._numbers, self._waiting = cluster, itertools.count(1), {}

    async def __aenter__(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            client = [sys.executable, "-m", "tilewright.farm", "client", self._cluster.address]
            self.process = self._cluster.start(
                [sys.executable, "-c", ON_DESCRIPTOR, str(theirs.fileno()), *client], pass_fds=[theirs.fileno()])
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._connection = farm.Connection(reader, self._writer)
        greeting = await self._connection.receive()
        if greeting is None or "members" not in greeting[0]:
            raise RuntimeError("the client did not greet: " + self._cluster.log())
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_):
        self._reading.cancel()
        self._writer.close()
        await asyncio.to_thread(self.process.wait)

    async def perform(self, kind, body, resources, limit_s):
        number = next(self._numbers)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._connection.send({"id": number, "kind": kind, "resources": resources, "limit_s": limit_s}, body)
        return await reply

    async def _read(self):
        while (message := await self._connection.receive()) is not None and "lost" not in message[0]:
            header, body = message
            self._waiting.pop(header["id"]).set_result((header.get("fault", ""), body))
        for job in self._waiting.values():
            job.set_exception(RuntimeError(f"the farm was lost: {message and message[0]}"))


async def with_members(runner, count):
    while len(await runner.members()) < count:
        await asyncio.sleep(0.1)


_tokens = itertools.count(1)


async def sleep_once(runner, seconds, body_bytes=0):
    """Runs one job that sleeps, and returns its reply (name, began, ended). Raises RuntimeError on a fault, and if the
    reply is that of another job."""
    token = str(next(_tokens))
    body = f"{seconds} {token}\0".encode().ljust(body_bytes, b"x")
    fault, reply = await runner.perform("measure", body, RESOURCES, 60)
    if fault:
        raise RuntimeError(fault)
    name, began, ended, replied = reply.decode().split()
    if replied != token:
        raise RuntimeError(f"the job {token} got the reply of {replied}")
    return name, int(began), int(ended)


async def sleep_on(runner, seconds, count=1):
    """Queues `count` jobs that sleep, and returns their replies. Raises RuntimeError as sleep_once() does."""
    return await asyncio.gather(*[sleep_once(runner, seconds) for _ in range(count)])


def overlaps(replies):
    """Returns the number of jobs that began on a device before an earlier job on it had ended."""
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


# ---- many members --------------------------------------------------------------------------------


def recorded_durations():
    """Returns, for each workload of the recording, the seconds that building, verifying and measuring a candidate
    took."""
    rows = json.loads(RECORDING.read_text())["throughput"]
    return [row["working_share"] / row["candidates_per_s"] for row in rows]


async def timed(jobs):
    """Queues jobs together and returns their replies and the seconds until all had come."""
    began = time.monotonic()
    replies = await asyncio.gather(*jobs)
    return replies, time.monotonic() - began


def idle_ms(replies, durations):
    """Returns the average time per job, in milliseconds, in which a device was not working, from its first job to its
    last."""
    spans = {}
    for name, began, ended in replies:
        first, last = spans.get(name, (began, ended))
        spans[name] = min(first, began), max(last, ended)
    used = sum(last - first for first, last in spans.values())
    return (used / 1e6 - 1e3 * sum(durations)) / len(replies)


async def recovered(cluster, tuner, count, durations):
    """Kills the scheduler and starts another one, while all members have jobs. Returns the seconds until each member
    has begun a job again, and the numbers of jobs done and lost meanwhile."""
    names, lost, done, draw = set(), 0, 0, random.Random(1)
    killed_ns = recovered_ns = 0

    async def keep_busy():
        nonlocal lost, done, recovered_ns
        while not recovered_ns:
            try:
                name, began, _ = await sleep_once(tuner, draw.choice(durations), JOB_BYTES)
            except RuntimeError as error:
                if "was lost" not in str(error):
                    raise
                lost += 1
                continue
            done += 1
            if killed_ns and began > killed_ns:
                names.add(name)
                if len(names) == count:
                    recovered_ns = time.monotonic_ns()

    under_way = asyncio.gather(*[keep_busy() for _ in range(3 * count)])
    await asyncio.sleep(2)
    names.clear()
    killed_ns = time.monotonic_ns()
    await asyncio.to_thread(cluster.kill_scheduler)
    await asyncio.to_thread(cluster.start_scheduler)
    await under_way
    return {"all_work_again_s": (recovered_ns - killed_ns) / 1e9, "jobs_meanwhile": done, "jobs_lost": lost}


def peak_mb(process):
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def processor_ms(process):
    """Returns the processor time of a process in milliseconds."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return 1e3 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure_members(cluster, count, jobs, processes):
    draw, durations, load = random.Random(count), recorded_durations(), os.getloadavg()[0]
    began = time.monotonic()
    async with farm.Farm(cluster.address, patience_s=60) as looking:
        await with_members(looking, count)
    joined_s = time.monotonic() - began
    async with Tuner(cluster) as tuner:
        await timed(sleep_once(tuner, 0, JOB_BYTES) for _ in range(4 * count))
        most = max(jobs, 20 * count)
        empty, empty_s = await timed(sleep_once(tuner, 0, JOB_BYTES) for _ in range(most))
        drawn = [draw.choice(durations) for _ in range(min(100 * count, most))]
        watched = {"client": tuner.process.pid, "scheduler": cluster.scheduler.pid}
        before = {role: processor_ms(process) for role, process in watched.items()}
        replies, seconds = await timed(sleep_once(tuner, duration, JOB_BYTES) for duration in drawn)
        used = {f"{role}_processor_ms": (processor_ms(process) - before[role]) / len(replies)
                for role, process in watched.items()}
        alone = [(await timed([sleep_once(tuner, 0, JOB_BYTES)]))[1] for _ in range(20)]
        row = {"members": count, "processes": processes, "load_before": load, "joined_s": joined_s, "jobs": len(replies),
               "mean_ms": 1e3 * statistics.fmean(drawn), "jobs_per_s": len(replies) / seconds,
               "beyond_ms": idle_ms(replies, drawn), "working_share": sum(drawn) / seconds / count,
               "devices": len({name for name, _, _ in replies}), "overlaps": overlaps(empty) + overlaps(replies),
               "empty_jobs_per_s": len(empty) / empty_s, "single_job_ms": 1e3 * statistics.median(alone), **used}
        row |= await recovered(cluster, tuner, count, durations)
        return row | {"client_mb": peak_mb(tuner.process.pid), "scheduler_mb": peak_mb(cluster.scheduler.pid)}


def row_of_members(count, jobs):
    with Cluster() as cluster:
        processes = count if count <= MOST_PROCESSES else min(count, PROCESSES)
        if processes == count:
            for number in range(count):
                cluster.add_member(f"member-{number}")
        else:
            cluster.add_members(count, processes)
        return asyncio.run(measure_members(cluster, count, jobs, processes))


def main():
    doc = __doc__.format(own=MOST_PROCESSES, processes=PROCESSES)
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farm", action="store_true", help="what ./tw bench goes by")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--members", type=lambda text: [int(word) for word in text.split(",")], default=[],
                        help="numbers of members, each of which is measured: 1,8,50,200")
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parents[1] / "build" / "release")
    parser.add_argument("--output", type=pathlib.Path, help="write the JSON there too")
    given = parser.parse_args()
    try:
        documents.check_output(given.output)
    except documents.Failure as failure:
        sys.exit(f"farm.py: {failure}")
    logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)  # members are killed on purpose
    if given.members:
        rows = [row_of_members(count, given.jobs) for count in given.members]
        document = documents.document_head("farm", documents.findings_of(given.build)) | {
            "options": {"jobs": given.jobs, "job_bytes": JOB_BYTES, "recording": RECORDING.stem}, "rows": rows}
        text = documents.row_lines(documents.shortened(document))
        print(text, end="", flush=True)
        if given.output:
            given.output.write_text(text)
        return
    with Cluster() as cluster:
        for name in ("first", "second"):
            cluster.add_member(name)
        print(json.dumps(asyncio.run(measure(cluster, given.jobs)), indent=2))


if __name__ == "__main__":
    main()
