#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the licence notices and the list of all third-party libraries to a wheel: wheel_notices.py REPAIRED.whl FOLDER

`./tw wheel` runs this script after `auditwheel repair`, with the Python of .venv-wheel. The result is written to FOLDER
under the same name. `auditwheel repair` has already listed the libraries that it copied into the wheel. This script adds
to .dist-info

  sboms/tilewright.cdx.json    a list in CycloneDX (PEP 770): version, licence, purl and files of each library
  licenses/libraries/NAME.txt  the notice of a library: Debian's copyright file, or the licence files of a package of PyPI
  licenses/common/NAME.txt     the text of a licence that Debian's copyright files name only by a path

The libraries are those that the wheel has as files, and those whose headers or schemas are compiled into our libraries.
If a library has no licence in LICENCES, no notice or no package of origin, the script fails and writes nothing. Versions
are those on the machine that builds the wheel; docs/releasing.md says who maintains them."""

import importlib.metadata
import json
import pathlib
import platform
import re
import subprocess
import sys
import urllib.parse
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENTS = pathlib.Path("/usr/share/doc")
COMMON_LICENCES = pathlib.Path("/usr/share/common-licenses")  # Debian's copyright files name texts in this folder

# Licences as SPDX expressions. The key is the name of Debian's source package or of the package of PyPI.
LICENCES = {
    "brotli": "MIT",
    "cli11": "BSD-3-Clause",
    "cpp-httplib": "MIT",
    "dmlc-core": "Apache-2.0",
    "fmtlib": "MIT",
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",  # libgomp
    "libseccomp": "LGPL-2.1-only",
    "libzstd": "BSD-3-Clause OR GPL-2.0-only",
    "nlohmann-json3": "MIT",
    "onnx": "Apache-2.0",
    "openssl": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "pybind11": "BSD-3-Clause",
    "sqlite3": "blessing",
    "tl-expected": "CC0-1.0",
    "xgboost": "Apache-2.0",
    "zlib": "Zlib",
}
# Packages of Debian whose headers are compiled into our libraries, and packages of PyPI whose
# headers or schemas are compiled into them.
COMPILED_IN_OF_DEBIAN = ("libcli11-dev", "libexpected-dev", "nlohmann-json3-dev")
COMPILED_IN_OF_PYPI = ("onnx", "pybind11")
OURS = re.compile(r"(libtilewright(_runtime)?\.so|libtw_halide\.so|_tilewright\..*\.so)$")


class Missing(Exception):
    """The error that a library of the wheel lacks a licence, a notice or a package of origin."""


def is_library_of_others(path):
    name = path.rsplit("/", 1)[-1]
    return bool(re.search(r"\.so(\.|$)", name)) and not OURS.match(name)


def original_name(path):
    """Returns the name of a library without the hash that auditwheel adds: libfmt.so.9.1.0 for libfmt-ddc1ba2d.so.9.1.0."""
    return re.sub(r"-[0-9a-f]{8}(\.so)", r"\1", path.rsplit("/", 1)[-1])


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
                          ).stdout


def package_with(library):
    """Returns the package of Debian that has installed a library of this name."""
    try:
        found = output_of("dpkg-query", "-S", f"*/{library}")
    except (OSError, subprocess.CalledProcessError):
        found = ""
    # Packages for cross compilers install libraries of the same names in other folders. So the
    # folder is compared too.
    place = re.compile(rf"(/usr)?/lib(/{platform.machine()}-linux-gnu)?/{re.escape(library)}")
    packages = {line.split(":")[0] for line in found.splitlines() if place.fullmatch(line.rsplit(": ")[-1])}
    if len(packages) != 1:
        raise Missing(f"{library} comes from {' and '.join(sorted(packages)) or 'no package of Debian'}; expected one")
    return packages.pop()


def licence_of(name):
    key = re.sub(r"-\d+$", "", name) if name.startswith("gcc-") else name
    if key not in LICENCES:
        raise Missing(f"{name} is in the wheel and not in LICENCES of tools/wheel_notices.py; add its licence")
    return LICENCES[key]


def component(name, package, version, purl, notice, files):
    if not notice.strip():
        raise Missing(f"{package} has no notice")
    return {"name": name, "package": package, "version": version, "purl": purl, "notice": notice, "files": files,
            "licence": licence_of(name)}


def debian_component(package, files=()):
    form = "${source:Package}\t${Version}\t${Architecture}"
    source, version, architecture = output_of("dpkg-query", "-W", "-f", form, package).splitlines()[0].split("\t")
    release = dict(re.findall(r'^(ID|VERSION_ID)="?(.*?)"?$', pathlib.Path("/etc/os-release").read_text(), re.M))
    purl = f"pkg:deb/{release['ID']}/{package}@{urllib.parse.quote(version, safe='')}?arch={architecture}&distro={release['ID']}-{release['VERSION_ID']}"
    path = DOCUMENTS / package / "copyright"
    notice = path.read_text() if path.exists() else ""
    if notice and files:
        notice = (f"The wheel has {package} {version} of Debian, whose names and search paths of libraries were changed.\n"
                  f"Its source is the source package {source} of Debian. Licences that are named by a path in\n"
                  f"{COMMON_LICENCES} are in the folder common beside this one.\n\n{notice}")
    return component(source, package, version, purl, notice, sorted(files))


def pypi_component(name):
    folders = [str(folder) for folder in sorted(ROOT.glob(".venv/lib/python3*/site-packages"))]
    found = next(importlib.metadata.distributions(name=name, path=[*folders, *sys.path]), None)
    if found is None:
        raise Missing(f"the package {name} of PyPI is not in .venv")
    notices = [path.read_text() for path in found.files or []
               if re.search(r"\.dist-info/(licenses/.*|LICENSE.*|COPYING.*|NOTICE.*)$", str(path))]
    return component(name, name, found.version, f"pkg:pypi/{name}@{found.version}", "\n".join(notices), [])


def components_of(paths):
    """Returns a component for each package that has a library at these paths or is compiled into our libraries."""
    files = {package: [] for package in COMPILED_IN_OF_DEBIAN}
    for path in filter(is_library_of_others, paths):
        files.setdefault(package_with(original_name(path)), []).append(path)
    found = [debian_component(package, of_package) for package, of_package in files.items()]
    return sorted(found + [pypi_component(name) for name in COMPILED_IN_OF_PYPI], key=lambda one: one["package"])


def common_licences(components):
    """Returns the texts of COMMON_LICENCES that notices name by a path. The keys are paths in .dist-info/licenses."""
    named = {name for one in components
             for name in re.findall(rf"{COMMON_LICENCES}/([A-Za-z0-9.-]*[A-Za-z0-9])", one["notice"])}
    return {f"common/{name}.txt": (COMMON_LICENCES / name).read_text() for name in named}


def bill_of_materials(version, components):
    """Returns the CycloneDX document. It has no time or random ID: equal libraries give equal documents."""
    ours = f"pkg:pypi/tilewright@{version}"
    listed = [{"type": "library", "bom-ref": one["purl"], "name": one["package"], "version": one["version"],
               "licenses": [{"expression": one["licence"]}], "purl": one["purl"],
               **({"evidence": {"occurrences": [{"location": path} for path in one["files"]]}} if one["files"] else {}),
               "properties": [{"name": "tilewright:notice", "value": f"libraries/{one['name']}.txt"}]}
              for one in components]
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([ours, listed]))}",
            "metadata": {"component": {"type": "library", "bom-ref": ours, "name": "tilewright", "version": version,
                                       "licenses": [{"expression": "Apache-2.0"}], "purl": ours}},
            "components": listed,
            "dependencies": [{"ref": ours, "dependsOn": [one["purl"] for one in components]}]}


def check(document, notices, paths):
    """Raises Missing if a library at one of `paths` has no component in the document, or a component has no notice."""
    known = {place["location"] for one in document["components"]
             for place in one.get("evidence", {}).get("occurrences", [])}
    unknown = sorted(path for path in paths if is_library_of_others(path) and path not in known)
    if unknown:
        raise Missing(f"{unknown[0]} is in no component of the list of libraries")
    for one in document["components"]:
        if one["properties"][0]["value"] not in notices:
            raise Missing(f"{one['name']} has no notice in the wheel")


def add_notices(root):
    """Adds the list of libraries and the notices to the unpacked wheel at `root`. Returns the components."""
    info, = root.glob("*.dist-info")
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    components = components_of(paths)
    metadata = (info / "METADATA").read_text()
    version = re.search(r"^Version: (.*)$", metadata, re.M).group(1)
    document = bill_of_materials(version, components)
    notices = {f"libraries/{one['name']}.txt": one["notice"] for one in components}
    check(document, notices, paths)
    notices |= common_licences(components)
    for name, notice in notices.items():
        (info / "licenses" / name).parent.mkdir(parents=True, exist_ok=True)
        (info / "licenses" / name).write_text(notice)
    (info / "sboms").mkdir(exist_ok=True)
    (info / "sboms" / "tilewright.cdx.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = "".join(f"License-File: {name}\n" for name in sorted(notices))
    (info / "METADATA").write_text(re.sub(r"^(License-File: LICENSE\n)", rf"\1{lines}", metadata, count=1, flags=re.M))
    if lines not in (info / "METADATA").read_text():
        raise Missing("METADATA has no line `License-File: LICENSE`, after which the notices are named")
    return components


def main():
    from auditwheel.wheeltools import InWheel
    wheel, folder = map(pathlib.Path, sys.argv[1:])
    try:
        with InWheel(wheel, folder / wheel.name) as root:
            components = add_notices(pathlib.Path(root))
    except Missing as error:
        (folder / wheel.name).unlink(missing_ok=True)
        raise SystemExit(f"wheel_notices: {error}") from error
    for one in components:
        print(f"{one['package']} {one['version']}: {one['licence']}")


if __name__ == "__main__":
    main()
