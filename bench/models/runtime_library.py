# SPDX-License-Identifier: Apache-2.0
"""Calls models from Python through the C interface (runtime/tilewright.h)."""
import ctypes

import numpy as np

DTYPES = {"float32": 0, "float16": 1, "int8": 3, "uint8": 4, "int32": 5, "int64": 6, "bool": 7, "float64": 8}


class Buffer(ctypes.Structure):
    """The struct tw_buffer."""
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]


class Argument(ctypes.Structure):
    """The struct tw_argument."""
    _fields_ = [("name", ctypes.c_char_p), ("layout", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("is_output", ctypes.c_int32)]


USAGE = 2  # a tw_status


class RuntimeFailure(Exception):
    """A tw_status with the message of tw_last_error()."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._library.tw_version.restype = ctypes.c_char_p
        self._library.tw_last_error.restype = ctypes.c_char_p

    @property
    def version(self):
        return self._library.tw_version().decode()

    def call(self, function, *arguments):
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            raise RuntimeFailure(status, self._library.tw_last_error().decode())


class Model:
    """The network of an artifact, in a session with threads of its own. Model and session live as long as
    the process."""

    def __init__(self, library, path, threads):
        self._library = library
        session, self._handle = ctypes.c_void_p(), ctypes.c_void_p()
        library.call("tw_session_open", None, None, ctypes.c_int32(threads), ctypes.byref(session))
        library.call("tw_model_open", session, str(path).encode(), ctypes.byref(self._handle))
        self.arguments = self._arguments()

    def _arguments(self):
        """(name, shape, is_output) of each argument, inputs first."""
        count = ctypes.c_int32()
        self._library.call("tw_model_argument_count", self._handle, ctypes.byref(count))
        found = []
        for i in range(count.value):
            argument = Argument()
            self._library.call("tw_model_argument", self._handle, ctypes.c_int32(i),
                               ctypes.byref(argument))
            found.append((argument.name.decode(), tuple(argument.shape[:argument.rank]),
                          bool(argument.is_output)))
        return found

    def bind(self, arrays):
        """Returns a function that calls the model on these arrays, one for each argument. The function
        keeps the arrays alive."""
        buffers = (Buffer * len(arrays))()
        for buffer, array in zip(buffers, arrays):
            if not array.flags.c_contiguous:
                raise ValueError("expected contiguous arrays")
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            buffer.data, buffer.dtype = array.ctypes.data, DTYPES[array.dtype.name]
            buffer.rank, buffer.shape = array.ndim, shape
        arguments = (self._handle, buffers, ctypes.c_int32(len(arrays)), ctypes.c_int32(0))

        def run(kept=(self, arrays)):
            self._library.call("tw_model_call", *arguments)
        return run


def aligned(array, bytes_=64):
    """Returns a copy of an array that begins at a multiple of `bytes_` bytes, so that runtimes use it in
    place."""
    memory = np.empty(array.nbytes + bytes_, np.uint8)
    offset = -memory.ctypes.data % bytes_
    copy = memory[offset:offset + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
