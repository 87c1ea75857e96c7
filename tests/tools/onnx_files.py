# SPDX-License-Identifier: Apache-2.0
"""Writes small ONNX models and NumPy files byte by byte, so that the tests need no packages."""

import ast
import struct


def varint(value):
    out = b""
    while value > 0x7f:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def whole(field, value):
    return varint(field << 3) + varint(value)


def part(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, shape, values):
    """Returns an initializer of f32."""
    return (b"".join(whole(1, extent) for extent in shape) + whole(2, 1) + part(8, name)
            + part(9, struct.pack(f"<{len(values)}f", *values)))


def integers(name, values):
    """Returns an initializer of i64 with one dimension."""
    return whole(1, len(values)) + whole(2, 7) + part(8, name) + part(9, struct.pack(f"<{len(values)}q", *values))


def port(name, shape):
    """Returns an f32 input or output. In `shape`, text is the name of a symbolic dimension."""
    dims = b"".join(part(1, part(2, extent) if isinstance(extent, str) else whole(1, extent))
                    for extent in shape)
    return part(1, name) + part(2, part(1, whole(1, 1) + part(2, dims)))


def node(op, inputs, outputs, **attributes):
    text = b"".join(part(1, name) for name in inputs) + b"".join(part(2, name) for name in outputs)
    text += part(3, outputs[0]) + part(4, op)
    for name, value in attributes.items():
        if isinstance(value, int):
            text += part(5, part(1, name) + whole(3, value) + whole(20, 2))
        else:
            text += part(5, part(1, name) + b"".join(whole(8, v) for v in value) + whole(20, 7))
    return text


def model(nodes, initializers, inputs, outputs, opset=17):
    graph = b"".join(part(1, n) for n in nodes) + part(2, "net")
    graph += b"".join(part(5, i) for i in initializers)
    graph += b"".join(part(11, i) for i in inputs) + b"".join(part(12, o) for o in outputs)
    return whole(1, 8) + part(7, graph) + part(8, part(1, "") + whole(2, opset))


def write_npy(path, shape, values, descr="<f4"):
    extents = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}\n".encode()
    code = {"<f4": "f", "<f8": "d", "<u8": "Q"}[descr]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
                     + struct.pack(f"<{len(values)}{code}", *values))


def read_npy(path):
    """Returns the shape and the values of an array of f32."""
    data = path.read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"]
    return header["shape"], struct.unpack(f"<{(len(data) - 10 - length) // 4}f", data[10 + length:])
