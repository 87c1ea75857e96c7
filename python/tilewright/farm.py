# SPDX-License-Identifier: Apache-2.0
"""Tuning on several machines, by Dask.distributed.

    python -m tilewright.farm member tcp://scheduler:8786 --resources device,gpu:sm_90 -- STATION ...
    python -m tilewright.farm client tcp://scheduler:8786
    python -m tilewright.farm scheduler -- --port 8786

A member is a machine that measures or builds. It runs a Dask worker, which a nanny restarts if it dies. The worker
passes jobs to stations, C++ programs (tuner/workers/station.h), with a time limit for each job. `tilewright tune
--workers` starts the client, and exchanges messages with it on descriptor 3 (tuner/workers/farm_link.h). Members and
clients do not look into jobs and replies. The abilities of a member are Dask resources with the amount 1, so that a
device measures one kernel at a time.

Dask sends pickled objects, so whoever can connect to the scheduler can run programs on the scheduler, the members and
the clients. TLS and its certificates are set in Dask's configuration.
"""
from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import pathlib
import re
import shlex
import select
import signal
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, NoReturn

# ---- frames, as in tuner/processes/frame.h -----------------------------------------------------------------

_MAGIC = b"twf1"
HEADER = struct.Struct("<4sI16s")
MOST_FRAME_BYTES = 64 << 20
WORKER_FD = 3

_ENDING_S = 5.0  # for a process to end after it has closed its connection

USAGE, ENVIRONMENT, TRY_LATER = 2, 7, 75  # exit codes, as base/result.h has them


class FrameError(Exception):
    """Received bytes are no frame, so the connection cannot be used any more; or a message is too
    long to be sent."""


def encode_frame(payload: bytes) -> bytes:
    if len(payload) > MOST_FRAME_BYTES:
        raise FrameError(f"[farm] a message of {len(payload)} bytes, at most {MOST_FRAME_BYTES} expected")
    checksum = hashlib.sha256(payload).hexdigest()[:16].encode()
    return HEADER.pack(_MAGIC, len(payload), checksum) + payload


def length_of(header: bytes) -> tuple[int, bytes]:
    """Reads the length of a frame's payload and its checksum. Raises FrameError if the length is above the limit."""
    magic, length, checksum = HEADER.unpack(header)
    if magic != _MAGIC or length > MOST_FRAME_BYTES:
        raise FrameError("[farm] bytes that start no frame")
    return length, checksum


def checked(payload: bytes, checksum: bytes) -> bytes:
    """Returns the payload. Raises FrameError if the checksum differs."""
    if hashlib.sha256(payload).hexdigest()[:16].encode() != checksum:
        raise FrameError(f"[farm] a payload of {len(payload)} bytes with a wrong checksum")
    return payload


# ---- stations: the processes that do the jobs ------------------------------------------------------

class Fault(Exception):
    """A station ended, or was stopped, without a reply."""

    def __init__(self, why: str, signal_number: int = 0) -> None:
        super().__init__(why)
        self.signal_number = signal_number  # number of the signal that ended the station; 0: none


class _Ended(Fault):
    """The station closed its connection, as it does when it ends."""


class Station:
    """A process that answers frames on its descriptor 3, one job at a time."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._pid = 0
        self._channel: socket.socket | None = None

    def ask(self, body: bytes, limit_s: float) -> bytes:
        """Sends a job to the process and returns its reply. Raises Fault if there is no reply
        within `limit_s` seconds; the next job then gets a new process."""
        deadline = time.monotonic() + limit_s
        if self._channel is None:
            self._start()
        try:
            self._send(encode_frame(body), deadline)
            length, checksum = length_of(self._receive(HEADER.size, deadline))
            return checked(self._receive(length, deadline), checksum)
        except (Fault, FrameError, OSError) as error:
            code = self.stop(_ENDING_S if isinstance(error, _Ended) else 0)
            raise Fault(f"{error}{_how(code)}", -code if code is not None and code < 0 else 0) from None

    def stop(self, patience_s: float = 0) -> int | None:
        """Kills the process unless it ends by itself within `patience_s` seconds. If it ended by
        itself, returns its exit code, or the negated number of the signal that ended it. Otherwise
        returns None."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._pid == 0:
            return None
        pid, self._pid = self._pid, 0
        if not _ends_within(pid, patience_s):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            # The descriptor is moved above 3, because the child gets it as descriptor 3.
            passed = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, WORKER_FD + 1)
            try:
                self._pid = os.posix_spawn(
                    self._command[0], self._command, dict(os.environ), setpgroup=0,
                    file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                                  (os.POSIX_SPAWN_DUP2, passed, WORKER_FD)])
            finally:
                os.close(passed)
        ours.setblocking(False)
        self._channel = ours

    def _wait(self, event: int, deadline: float) -> socket.socket:
        assert self._channel is not None
        poll = select.poll()
        poll.register(self._channel, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(1000 * left):
            raise Fault("the station gave no answer before the limit")
        return self._channel

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            view = view[self._wait(select.POLLOUT, deadline).send(view):]

    def _receive(self, count: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self._wait(select.POLLIN, deadline).recv(min(count - len(data), 1 << 20))
            if not piece:
                raise _Ended("the station ended")
            data += piece
        return bytes(data)


def _how(exit_code: int | None) -> str:
    """Returns a clause about how a process ended; empty if it did not end by itself."""
    if exit_code is None:
        return ""
    return f": it exited with code {exit_code}" if exit_code >= 0 else f": it died of signal {-exit_code}"


def _ends_within(pid: int, seconds: float) -> bool:
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(1000 * seconds))
    finally:
        os.close(process)


class _Stations:
    """The stations of this process, one for each kind of job. A station dies with the thread that started it, so each
    station has a thread, which lives as long as the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: dict[str, tuple[Station, concurrent.futures.ThreadPoolExecutor]] = {}

    def ask(self, kind: str, body: bytes, limit_s: float) -> bytes:
        with self._lock:
            if kind not in self._kinds:
                command = json.loads(os.environ["TW_FARM_STATION"])
                self._kinds[kind] = (Station(command),
                                     concurrent.futures.ThreadPoolExecutor(1, "tilewright-" + kind))
            station, thread = self._kinds[kind]
        return thread.submit(station.ask, body, limit_s).result()


_stations = _Stations()


def perform(kind: str, body: bytes, limit_s: float) -> tuple[str, bytes]:
    """Runs a job on the member on which Dask calls this function. Returns (fault, reply); the fault is "" if the
    station answered.

    If a signal ended the station, as when memory runs out, the job is run once more.
    """
    try:
        try:
            return "", _stations.ask(kind, body, limit_s)
        except Fault as fault:
            if fault.signal_number == 0:
                raise
        return "", _stations.ask(kind, body, limit_s)
    except Fault as fault:
        return str(fault), b""


# ---- a member ----------------------------------------------------------------------------------------

# Configuration of Dask on a member. Dask's profiler, which samples the stack a hundred times a second, would disturb
# measurements. A nanny would set environment variables such as OMP_NUM_THREADS for computations in Dask's workers;
# this configuration sets none.
_MEMBER_CONFIGURATION = {"distributed.worker.profile.enabled": False, "distributed.nanny.pre-spawn-environ": {}}
_BETWEEN_ATTEMPTS_S = 1.0
_LEAVING_S = 5.0


def _say(text: str) -> None:
    print(f"tilewright: [farm] {text}", file=sys.stderr, flush=True)


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Waits until one of the coroutines ends, and cancels the others. Raises the exception of the first one, if it
    raised one."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


class Refused(Exception):
    """The farm does not accept this member."""


def version_of(resources: Iterable[str]) -> str:
    """Returns the version of messages and kernels that a member's resources name; "1" if they name
    none."""
    return next((name.removeprefix("version:") for name in resources if name.startswith("version:")), "1")


async def _check_version(address: str, resources: list[str]) -> None:
    """Raises Refused if the farm has members of another version."""
    import distributed

    async with distributed.Client(address, asynchronous=True, set_as_default=False) as client:
        identity = await client.scheduler.identity(n_workers=-1)
    own = version_of(resources)
    for other, worker in identity["workers"].items():
        version = version_of(worker["resources"])
        if version != own:
            raise Refused(f"the farm's member {other} speaks version {version}, and this one {own}: install the "
                          "same program on both, and end the older one")


async def _serve(address: str, resources: list[str], threads: int, command: list[str],
                 stopped: asyncio.Event) -> None:
    """Runs a member until the scheduler is gone or `stopped` is set."""
    import dask
    import distributed

    await _check_version(address, resources)
    with dask.config.set(_MEMBER_CONFIGURATION), tempfile.TemporaryDirectory(prefix="tilewright-farm-") as folder:
        async with distributed.Nanny(address, nthreads=threads, resources={name: 1 for name in resources},
                                     local_directory=folder, memory_limit=None, dashboard_address=None,
                                     silence_logs=logging.ERROR,
                                     env={"TW_FARM_STATION": json.dumps(command)}) as nanny:
            _say(f"joined {address}, offering {', '.join(resources)}")
            await _first(nanny.finished(), stopped.wait())


async def _long_after(stopped: asyncio.Event) -> None:
    await stopped.wait()
    await asyncio.sleep(_LEAVING_S)


async def join(address: str, resources: list[str], threads: int, command: list[str]) -> int:
    """Runs a member until a signal ends it, and returns the exit code. If the scheduler is gone, waits until it can be
    reached again."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    said = ""
    while not stopped.is_set():
        try:
            # Dask tries for half a minute to reach a scheduler. A signal may stop the member meanwhile.
            await _first(_serve(address, resources, threads, command, stopped), _long_after(stopped))
            news = "the scheduler is gone"
        except Refused as refused:
            _say(f"{address}: not joined: {refused}")
            return ENVIRONMENT
        except (OSError, TimeoutError, RuntimeError) as error:
            news = str(error) or type(error).__name__
        if stopped.is_set():
            break
        if news != said:
            _say(f"{address}: {news}; trying again until it is there")
            said = news
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _BETWEEN_ATTEMPTS_S)
    _say(f"left {address}")
    return 0


# ---- the client ----------------------------------------------------------------------------------------

_MOST_ATTEMPTS = 3  # for a job whose scheduler or reply was lost
# Jobs that arrive within this time are handed to the scheduler in one message. It is sent earlier
# once it has more than this number of bytes, because Dask warns of messages of 10 MB. If each job
# were a message of its own, client and scheduler would need twice the processor time.
_COLLECTING_S, _MOST_TOGETHER_BYTES = 0.002, 4 << 20
_CONNECT_S = 10.0


class Lost(Exception):
    """The farm cannot be used any more: it has no scheduler or no suitable member."""


def _rounded(text: str) -> str:
    """Returns the text with times in seconds rounded to three digits. Dask writes times such as
    "after 0.9999997590057319 s"."""
    return re.sub(r"(?<=after )\d+\.\d+(?= s\b)", lambda number: f"{float(number[0]):.3g}", text)


class _Collected:
    """A job that will be handed to the scheduler. `handed` is a future that yields the job's Dask future."""

    def __init__(self, client: Any, key: str, arguments: tuple[str, bytes, float], resources: list[str]) -> None:
        self.client, self.key, self.arguments, self.resources = client, key, arguments, tuple(resources)
        self.handed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Farm:
    """Runs the jobs of one tuning run on the members of a farm.

        async with Farm("tcp://scheduler:8786", patience_s=60) as farm:
            fault, reply = await farm.perform("measure", body, ["device"], limit_s=30)

    If a member dies, another member does its job, and a job is tried at most three times. If the scheduler is gone,
    the farm waits for a new one and hands the jobs to it. Raises Lost after `patience_s` without a scheduler, or
    without a member that has the resources of a waiting job.
    """

    def __init__(self, address: str, patience_s: float = 60) -> None:
        self._address, self._patience_s = address, patience_s
        self._client: Any = None
        self._connecting = asyncio.Lock()
        # Resources that each unfinished job needs, by the name of the job.
        self._waiting: dict[str, frozenset[str]] = {}
        self._collected: list[_Collected] = []  # jobs that are about to be handed to the scheduler
        self._collected_bytes = 0
        self._name, self._count = uuid.uuid4().hex[:12], 0
        self._watch: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Farm:
        self._client = await self._connected(min(_CONNECT_S, self._patience_s))
        self._watch = asyncio.create_task(self._look_after_members())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._lost.cancel()
        await self._close()

    async def members(self) -> list[dict[str, Any]]:
        """Returns the members, each with its address and resources."""
        identity = await self._client.scheduler.identity(n_workers=-1)
        return [{"address": address, "resources": sorted(worker["resources"])}
                for address, worker in identity["workers"].items()]

    async def perform(self, kind: str, body: bytes, resources: list[str], limit_s: float) -> tuple[str, bytes]:
        """Runs a job on a member that has these resources. Returns the result of the function
        perform() there. Raises Lost if the farm cannot be used any more."""
        self._count += 1
        name = f"tilewright-{self._name}-{self._count}"
        self._waiting[name] = frozenset(resources)
        attempt = asyncio.ensure_future(self._attempted(name, kind, body, resources, limit_s))
        try:
            await asyncio.wait([attempt, self._lost], return_when=asyncio.FIRST_COMPLETED)
            if attempt.done():
                return attempt.result()
            raise Lost(str(self._lost.exception()))
        finally:
            attempt.cancel()
            del self._waiting[name]

    async def _attempted(self, name: str, kind: str, body: bytes, resources: list[str],
                         limit_s: float) -> tuple[str, bytes]:
        import distributed

        for attempt in range(_MOST_ATTEMPTS):
            client = self._client
            try:
                future = await self._submit(_Collected(client, f"{name}-{attempt}", (kind, body, limit_s), resources))
                try:
                    fault, reply = await future
                    return fault, reply
                finally:
                    future.release()
            except distributed.scheduler.KilledWorker as killed:
                return f"it was lost with the members that did it: {killed}", b""
            except (asyncio.CancelledError, concurrent.futures.CancelledError, OSError, RuntimeError,
                    distributed.comm.CommClosedError, distributed.client.ClosedClientError) as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                why = str(error) or type(error).__name__
            await self._reconnect(client)
        return f"it was lost {_MOST_ATTEMPTS} times: {why}", b""

    async def _submit(self, job: _Collected) -> Any:
        """Queues a job for the scheduler and returns its Dask future once the job was handed over."""
        if not self._collected:
            asyncio.get_running_loop().call_later(_COLLECTING_S, self._hand_over)
        self._collected.append(job)
        self._collected_bytes += len(job.arguments[1])
        if self._collected_bytes > _MOST_TOGETHER_BYTES:
            self._hand_over()
        return await job.handed

    def _hand_over(self) -> None:
        """Hands the collected jobs to the scheduler. Jobs with equal resources are sent in one message."""
        # Jobs that were cancelled are done already.
        jobs = [job for job in self._collected if not job.handed.done()]
        self._collected, self._collected_bytes = [], 0
        together: dict[tuple[Any, ...], list[_Collected]] = {}
        for job in jobs:
            together.setdefault((job.client, job.resources), []).append(job)
        for (client, resources), alike in together.items():
            try:
                futures = client.map(perform, *map(list, zip(*(job.arguments for job in alike))), pure=False,
                                     key=[job.key for job in alike], resources={name: 1 for name in resources})
            except Exception as error:
                for job in alike:
                    job.handed.set_exception(error)
                continue
            for job, future in zip(alike, futures):
                job.handed.set_result(future)

    async def _reconnect(self, lost: Any) -> None:
        """Replaces the client `lost`, which lost its scheduler, by a new client."""
        async with self._connecting:
            if self._client is not lost or self._client.status == "running":
                return
            await self._close()
            try:
                self._client = await self._connected(self._patience_s)
            except Lost as error:
                self._give_up(str(error))
                raise

    async def _connected(self, patience_s: float) -> Any:
        import distributed

        deadline = time.monotonic() + patience_s
        while True:
            left = deadline - time.monotonic()
            try:
                return await distributed.Client(self._address, asynchronous=True, set_as_default=False,
                                                timeout=max(left, 0.1))
            except (OSError, TimeoutError) as error:
                if time.monotonic() >= deadline:
                    raise Lost(f"the scheduler at {self._address} cannot be reached: "
                               f"{_rounded(str(error)) or type(error).__name__}") from None
            await asyncio.sleep(0.2)

    async def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.close(), 2)

    def _give_up(self, why: str) -> None:
        if not self._lost.done():
            self._lost.set_exception(Lost(why))
            self._lost.exception()  # asyncio would warn about an exception that is never retrieved

    async def _look_after_members(self) -> None:
        """Looks for two problems as long as the farm exists. If the scheduler is gone, connects
        again. If jobs have waited longer than the patience for a member that does not exist, makes
        them fail with Lost."""
        missed_since: dict[frozenset[str], float] = {}
        while True:
            await asyncio.sleep(min(1.0, self._patience_s / 4))
            client = self._client
            if client.status != "running":
                with contextlib.suppress(Lost):
                    await self._reconnect(client)
                continue
            try:
                members = [set(member["resources"]) for member in await self.members()]
            except Exception:  # the connection may be closing; the next iteration sees its status
                continue
            asked = set(self._waiting.values())
            missed_since = {resources: missed_since.get(resources, time.monotonic()) for resources in asked
                            if not any(resources <= member for member in members)}
            for resources, since in missed_since.items():
                if time.monotonic() - since > self._patience_s:
                    self._give_up(f"no member offers {' and '.join(sorted(resources))} "
                                  f"since {self._patience_s:.0f} s")


class Connection:
    """The client's end of the link to the tuner (tuner/workers/farm_link.h). A message is a header in JSON and
    bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @staticmethod
    async def open(descriptor: int = WORKER_FD) -> Connection:
        return Connection(*await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor)))

    async def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """Receives a message. Returns None if the tuner is gone."""
        try:
            length, checksum = length_of(await self._reader.readexactly(HEADER.size))
            payload = checked(await self._reader.readexactly(length), checksum)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        (size,) = struct.unpack_from("<I", payload)
        return json.loads(payload[4:4 + size]), payload[4 + size:]

    async def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        text = json.dumps(header).encode()
        self._writer.write(encode_frame(struct.pack("<I", len(text)) + text + body))
        await self._writer.drain()


async def _answer(connection: Connection, farm: Farm, header: dict[str, Any], body: bytes,
                  lose: Callable[[str], Awaitable[None]]) -> None:
    try:
        fault, reply = await farm.perform(header["kind"], body, header["resources"], header["limit_s"])
        await connection.send({"id": header["id"], **({"fault": fault} if fault else {})}, reply)
    except Lost as error:
        await lose(str(error))
    except ConnectionError:  # the tuner is gone
        pass
    except Exception as error:  # an error of one job must not end the other jobs
        with contextlib.suppress(ConnectionError):
            await connection.send({"id": header["id"], "fault": f"{type(error).__name__}: {error}"})


async def serve_tuner(address: str, patience_s: float) -> int:
    """Passes the jobs of a tuner to the farm until the tuner closes the connection."""
    connection = await Connection.open()
    jobs: dict[int, asyncio.Task[None]] = {}
    lost = asyncio.Event()

    async def lose(why: str) -> None:
        if not lost.is_set():
            lost.set()
            with contextlib.suppress(ConnectionError):
                await connection.send({"lost": why})

    try:
        async with Farm(address, patience_s) as farm:
            await connection.send({"members": await farm.members()})
            while not lost.is_set() and (message := await connection.receive()) is not None:
                header, body = message
                if "cancel" in header:
                    if (job := jobs.pop(header["cancel"], None)) is not None:
                        job.cancel()
                    continue
                number = header["id"]
                jobs[number] = asyncio.create_task(_answer(connection, farm, header, body, lose))
                jobs[number].add_done_callback(lambda _, number=number: jobs.pop(number, None))
    except Lost as error:
        await lose(str(error))
        return TRY_LATER
    return 0


# ---- the programs ----------------------------------------------------------------------------------------

_SCHEMES = ("tcp", "tls", "ws", "wss")


def dask_address(text: str) -> str:
    """Converts an address of the scheduler to Dask's form. Accepted are dask://HOST:PORT, HOST:PORT, tcp://...,
    tls://... Raises ValueError, with a clause as its message, for other text."""
    scheme, found, rest = text.partition("://") if "://" in text else ("dask", "", text)
    host, _, port = rest.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    is_host = re.fullmatch(r"\[[^\[\]/\s]+\]|[^:\[\]/\s]+", host)
    if scheme not in ("dask", *_SCHEMES) or not is_host or not is_port:
        raise ValueError(f"'{text}' is no address of a scheduler: dask://HOST:PORT, tls://HOST:PORT or HOST:PORT was "
                         "expected, such as dask://127.0.0.1:8786")
    return f"{'tcp' if scheme == 'dask' else scheme}://{rest}"


def _is_pem(text: str) -> bool:
    return "\n" in text  # Dask also accepts the text of a certificate in place of its file


class _TlsFile:
    """A file of TLS, with its setting in Dask's configuration and its flag of `dask scheduler`."""

    def __init__(self, key: str, flags: dict[str, str]) -> None:
        import dask

        self._key = f"distributed.comm.tls.{key}"
        self._flag = f"--tls-{key.rpartition('.')[2]}"
        self._is_given = key in flags
        self.file: str | None = flags.get(key) or dask.config.get(self._key, None)

    @property
    def advice(self) -> str:
        """A clause that says how to name another file: by the flag that named this one, or else by a variable."""
        if self._is_given:
            return f"give another file to {self._flag}"
        return f"name another by the variable {self._variable}"

    @property
    def name(self) -> str:
        return f"the file '{self.file}' of {self._flag if self._is_given else self._key}"

    def missing(self, has_flags: bool) -> str:
        """Returns a clause that says how to name the file, also by a flag if the role has flags;
        empty if the file is named already."""
        if self.file:
            return ""
        by_flag = f"by {self._flag}, " if has_flags else ""
        return (f"{self._key} is not set: name a file {by_flag}by the variable {self._variable}, or in Dask's "
                "configuration")

    def fault(self, load: Callable[[str], object]) -> str:
        """Returns a clause about the fault of the named file; empty if `load` accepts the file or
        no file is named."""
        if not self.file or _is_pem(self.file):
            return ""
        try:
            load(self.file)
        except OSError as error:  # also ssl.SSLError
            why = (error.reason if isinstance(error, ssl.SSLError) else "") or error.strerror
            return f"{self.name} cannot be used ({why}): {self.advice}"
        return ""

    @property
    def _variable(self) -> str:
        return f"DASK_{self._key}".upper().replace(".", "__").replace("-", "_")


def _flags_of_scheduler(arguments: list[str]) -> dict[str, str]:
    """Returns the values of those flags of `dask scheduler` that set the protocol and the files of
    TLS. A key of the result is "protocol", or the name of the setting of Dask that the flag
    replaces."""
    parser = argparse.ArgumentParser(prog="./tw scheduler", add_help=False, allow_abbrev=False)
    for flag, setting in (("ca-file", "ca-file"), ("cert", "scheduler.cert"), ("key", "scheduler.key")):
        parser.add_argument(f"--tls-{flag}", dest=setting)
    parser.add_argument("--protocol")
    return {setting: text for setting, text in vars(parser.parse_known_args(arguments)[0]).items() if text}


def tls_fault(address: str, role: str, flags: dict[str, str] | None = None) -> str:
    """Checks the configuration of TLS for a role of Dask ("client", "worker" or "scheduler"). Returns a clause about
    the first fault, or an empty text if there is none. The clause names the file, setting or flag at fault, which
    errors of connections do not name. `flags` are the scheduler's flags, from _flags_of_scheduler()."""
    import dask

    if not address.startswith("tls://"):
        flag = "--workers" if role == "client" else "--join"
        required = dask.config.get("distributed.comm.require-encryption", None)
        return (f"distributed.comm.require-encryption is set, so the address has to be tls://HOST:PORT: "
                f"{flag} {address}") if required else ""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    authority, certificate, key = (_TlsFile(name, flags or {}) for name in ("ca-file", f"{role}.cert", f"{role}.key"))
    in_memory = any(file.file and _is_pem(file.file) for file in (certificate, key))

    def load_pair(file: str) -> None:
        if not in_memory:
            context.load_cert_chain(file, key.file, password="")

    def opens(file: str) -> None:
        open(file, "rb").close()

    def lacks_key() -> str:
        if key.file or in_memory or b"PRIVATE KEY" in pathlib.Path(certificate.file or "").read_bytes():
            return ""
        return f"{certificate.name} holds no private key, and {key.missing(has_flags)}"

    has_flags = role == "scheduler"
    # Each file is first loaded by itself, because the error for a pair of certificate and key names
    # neither file. The file of a certificate may also hold the key.
    return (authority.missing(has_flags)
            or authority.fault(lambda file: context.load_verify_locations(file))
            or certificate.missing(has_flags)
            or certificate.fault(opens)
            or key.fault(opens)
            or lacks_key()
            or certificate.fault(load_pair))


def _scheduler_fault(arguments: list[str]) -> str:
    """Returns a clause about a fault of the protocol or of TLS in the arguments of `dask
    scheduler`; empty if there is none."""
    flags = _flags_of_scheduler(arguments)
    protocol = flags.pop("protocol", "tcp").removesuffix("://")
    if protocol not in _SCHEMES:
        return f"--protocol {protocol}: one of {', '.join(_SCHEMES)} was expected"
    if protocol not in ("tls", "wss"):
        return ""
    fault = tls_fault("tls://", "scheduler", flags)
    return f"TLS: {fault}" if fault else ""


def be_scheduler(arguments: list[str]) -> int:
    """Runs `dask scheduler` until a signal ends the process. If the scheduler ends with an error,
    prints one line and returns the exit code."""
    if fault := _scheduler_fault(arguments):
        _say(fault)
        return USAGE
    from distributed.cli import dask_scheduler

    try:
        dask_scheduler.main(args=arguments, prog_name="./tw scheduler")
    except (OSError, RuntimeError, ValueError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # Dask's own says only that the scheduler failed to start
            cause = cause.__cause__
        _say(f"the scheduler ends: {cause}; its arguments were {shlex.join(arguments)}")
        return ENVIRONMENT if isinstance(cause, OSError) else USAGE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tilewright.farm")
    roles = parser.add_subparsers(dest="role", required=True)
    member = roles.add_parser("member", help="be a member; started by `tilewright worker --join`")
    member.add_argument("address")
    member.add_argument("--resources", required=True, help="what it offers, with commas")
    member.add_argument("--threads", type=int, default=1, help="jobs at a time")
    member.add_argument("station", nargs="+", help="the command that does its jobs")
    scheduler = roles.add_parser("scheduler", help="be Dask's scheduler; started by ./tw scheduler")
    scheduler.add_argument("arguments", nargs="*", help="those of `dask scheduler`")
    client = roles.add_parser("client", help="serve a tuner; started by `tilewright tune --workers`")
    client.add_argument("address")
    client.add_argument("--patience", type=float, default=60, help="seconds to wait for what is lost")
    return parser


def main(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    try:
        import distributed  # noqa: F401
    except ImportError:
        _say("Dask is missing: install it by `pip install -r tools/requirements/farm.txt`, which ./tw does, or "
             "`pip install tilewright[farm]`")
        return ENVIRONMENT
    if given.role == "scheduler":
        return be_scheduler(given.arguments)
    # This module reports the state of connections itself, so most log messages of Dask are suppressed.
    logging.getLogger("distributed").setLevel(logging.CRITICAL if given.role == "client" else logging.ERROR)
    try:
        address = dask_address(given.address)
    except ValueError as error:
        _say(f"{'--workers' if given.role == 'client' else '--join'}: {error}")
        return USAGE
    if fault := tls_fault(address, "client" if given.role == "client" else "worker"):
        _say(f"TLS: {fault}")
        return USAGE
    if given.role == "client":
        return asyncio.run(serve_tuner(address, given.patience))
    return asyncio.run(join(address, given.resources.split(","), given.threads, given.station))


if __name__ == "__main__":
    # Dask finds perform() by the name of its module, which is not __main__.
    from tilewright import farm

    sys.exit(farm.main(sys.argv[1:]))
