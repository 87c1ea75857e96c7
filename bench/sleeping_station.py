# SPDX-License-Identifier: Apache-2.0
"""A station of a farm (tuner/workers/station.h) that measures nothing: it answers each job, a number of seconds, with
its name and the moments at which it began and ended to sleep, in nanoseconds. "die" ends it."""
import os
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tilewright"))
import farm  # noqa: E402  (the module alone: the package would load the library)


def read(channel, count):
    data = b""
    while len(data) < count:
        piece = channel.recv(count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def main(name):
    channel = socket.socket(fileno=farm.WORKER_FD)
    while True:
        length, checksum = farm.length_of(read(channel, farm.HEADER.size))
        job = farm.checked(read(channel, length), checksum).decode()
        if job == "die":
            os._exit(9)
        began = time.monotonic_ns()
        time.sleep(float(job))
        channel.sendall(farm.encode_frame(f"{name} {began} {time.monotonic_ns()}".encode()))


if __name__ == "__main__":
    main(sys.argv[1])
