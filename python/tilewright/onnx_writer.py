# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX models as bytes, field by field, so that the package `onnx` is not needed. Field numbers are those
of onnx.proto, IR version 8."""
from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Union

Attribute = Union[int, float, str, Sequence[int], Sequence[float]]

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, BOOL = 1, 2, 3, 4, 5, 6, 7, 9
FLOAT16, DOUBLE, UINT32, BFLOAT16 = 10, 11, 12, 16
_IR_VERSION = 8


def tensor(name: str, element_type: int, shape: Iterable[int], data: bytes) -> bytes:
    """Returns a TensorProto for an initializer. `data` are the elements, in row-major order and
    little endian."""
    return (b"".join(_whole(1, extent) for extent in shape) + _whole(2, element_type) + _part(8, name)
            + _part(9, data))


def port(name: str, element_type: int, shape: Iterable[int]) -> bytes:
    """Returns an input or output of the model."""
    dimensions = b"".join(_part(1, _whole(1, extent)) for extent in shape)
    return _part(1, name) + _part(2, _part(1, _whole(1, element_type) + _part(2, dimensions)))


def node(operator: str, inputs: Iterable[str], outputs: Sequence[str], **attributes: Attribute) -> bytes:
    """Returns a node. The name of an omitted input is ""."""
    text = b"".join(_part(1, name) for name in inputs) + b"".join(_part(2, name) for name in outputs)
    text += _part(3, outputs[0]) + _part(4, operator)
    return text + b"".join(_part(5, _part(1, name) + _attribute(value)) for name, value in attributes.items())


def model(nodes: Iterable[bytes], initializers: Iterable[bytes], inputs: Iterable[bytes], outputs: Iterable[bytes],
          opset: int = 18) -> bytes:
    graph = b"".join(_part(1, made) for made in nodes) + _part(2, "network")
    graph += b"".join(_part(5, made) for made in initializers)
    graph += b"".join(_part(11, made) for made in inputs) + b"".join(_part(12, made) for made in outputs)
    return _whole(1, _IR_VERSION) + _part(7, graph) + _part(8, _part(1, "") + _whole(2, opset))


def _attribute(value: Attribute) -> bytes:
    """Returns the fields of an AttributeProto for its value and for the number of its type."""
    if isinstance(value, int):
        return _whole(3, value) + _whole(20, 2)
    if isinstance(value, float):
        return _float(2, value) + _whole(20, 1)
    if isinstance(value, str):
        return _part(4, value) + _whole(20, 3)
    if all(isinstance(element, int) for element in value):
        return b"".join(_whole(8, int(element)) for element in value) + _whole(20, 7)
    return b"".join(_float(7, element) for element in value) + _whole(20, 6)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7f:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _part(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data
