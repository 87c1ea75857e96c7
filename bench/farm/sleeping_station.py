# SPDX-License-Identifier: Apache-2.0
"""A station of a farm (tuner/workers/station.h) that measures nothing. A job is a number of seconds, which other
words may follow, up to a zero byte. The station sleeps for that time. Its reply has its name, the times in
nanoseconds at which the sleep began and ended, and the other words. The job "die" ends the station."""
import os
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tilewright"))
import farm  # noqa: E402  (the module alone: the package would load the library)


def read(channel, count):
    data = b""
    while len(data) < count:
        piece = channel.recv(count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def words_of(job):
    return job.partition(b"\0")[0].decode().split()


def answer(name, began, words):
    return " ".join([name, str(began), str(time.monotonic_ns()), *words]).encode()


def sleep(name, job):
    seconds, *words = words_of(job)
    if seconds == "die":
        os._exit(9)
    began = time.monotonic_ns()
    time.sleep(float(seconds))
    return answer(name, began, words)


def main(name):
    channel = socket.socket(fileno=farm.WORKER_FD)
    while True:
        length, checksum = farm.length_of(read(channel, farm.HEADER.size))
        channel.sendall(farm.encode_frame(sleep(name, farm.checked(read(channel, length), checksum))))


if __name__ == "__main__":
    main(sys.argv[1])
