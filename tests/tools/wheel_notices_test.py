# SPDX-License-Identifier: Apache-2.0
"""Tests tools/wheel_notices.py on a small tree like that of an unpacked wheel. Its libraries come
from packages of this machine."""

import json
import pathlib
import platform
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import wheel_notices  # noqa: E402

METADATA = """Metadata-Version: 2.4
Name: tilewright
Version: 1.2.3
License-File: LICENSE

# A page
"""


@unittest.skipIf(not pathlib.Path("/usr/bin/dpkg-query").exists(), "[SKIP] no dpkg: wheels are built on Debian")
class Notices(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.info = self.root / "tilewright-1.2.3.dist-info"
        self.add("tilewright-1.2.3.dist-info/METADATA", METADATA)
        for ours in ("lib/libtilewright.so", "lib/libtilewright_runtime.so", "lib/tilewright/libtw_halide.so",
                     "_tilewright.cpython-311-x86_64-linux-gnu.so"):
            self.add(f"tilewright/{ours}")
        self.add("tilewright.libs/libfmt-ddc1ba2d.so.9")
        self.add("tilewright/lib/libxgboost.so.0")

    def add(self, path, text=""):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def test_each_library_is_listed_with_its_notice(self):
        wheel_notices.add_notices(self.root)
        document = json.loads((self.info / "sboms" / "tilewright.cdx.json").read_text())
        self.assertEqual((document["bomFormat"], document["metadata"]["component"]["version"]), ("CycloneDX", "1.2.3"))
        components = {one["name"]: one for one in document["components"]}
        fmt = next(one for name, one in components.items() if name.startswith("libfmt"))
        self.assertEqual(fmt["evidence"]["occurrences"], [{"location": "tilewright.libs/libfmt-ddc1ba2d.so.9"}])
        self.assertEqual(fmt["licenses"], [{"expression": "MIT"}])
        self.assertRegex(fmt["purl"], r"^pkg:deb/debian/libfmt\d+@[0-9.]+%2B?\S*\?arch=\w+&distro=debian-\d+$")
        self.assertIn("Victor Zverovich", (self.info / "licenses" / "libraries" / "fmtlib.txt").read_text())
        self.assertNotIn("evidence", components["pybind11"])  # it has headers only
        self.assertRegex((self.info / "METADATA").read_text(), r"License-File: LICENSE\n(License-File: common/.*\n)*License-File: libraries/")

    def test_texts_that_a_notice_names_by_a_path_are_there(self):
        self.add("tilewright.libs/libseccomp-df79d556.so.2")
        wheel_notices.add_notices(self.root)
        self.assertIn("/usr/share/common-licenses/LGPL-2.1",
                      (self.info / "licenses" / "libraries" / "libseccomp.txt").read_text())
        self.assertIn("GNU LESSER GENERAL PUBLIC LICENSE", (self.info / "licenses" / "common" / "LGPL-2.1.txt").read_text())
        self.assertIn("License-File: common/LGPL-2.1.txt\n", (self.info / "METADATA").read_text())

    def test_the_list_is_the_same_each_time(self):
        wheel_notices.add_notices(self.root)
        first = (self.info / "sboms" / "tilewright.cdx.json").read_bytes()
        (self.info / "METADATA").write_text(METADATA)
        wheel_notices.add_notices(self.root)
        self.assertEqual((self.info / "sboms" / "tilewright.cdx.json").read_bytes(), first)

    def refused(self):
        with self.assertRaises(wheel_notices.Missing) as raised:
            wheel_notices.add_notices(self.root)
        self.assertFalse((self.info / "sboms").exists())
        return str(raised.exception)

    def test_libraries_of_cross_compilers_are_others(self):
        native = f"libgomp1:amd64: /usr/lib/{platform.machine()}-linux-gnu/libgomp.so.1"
        self.addCleanup(setattr, wheel_notices, "output_of", wheel_notices.output_of)
        wheel_notices.output_of = lambda *command: f"{native}\nlibgomp1-sparc-cross: /usr/sparc-linux-gnu/lib/libgomp.so.1\n"
        self.assertEqual(wheel_notices.package_with("libgomp.so.1"), "libgomp1")

    def test_a_library_that_no_package_has_is_refused(self):
        self.add("tilewright.libs/libplanted-01234567.so.1")
        self.assertIn("libplanted.so.1 comes from no package of Debian", self.refused())

    def test_a_library_without_a_licence_is_refused(self):
        self.addCleanup(wheel_notices.LICENCES.update, {"fmtlib": wheel_notices.LICENCES.pop("fmtlib")})
        self.assertIn("fmtlib is in the wheel and not in LICENCES", self.refused())

    def test_a_library_without_a_notice_is_refused(self):
        self.addCleanup(setattr, wheel_notices, "DOCUMENTS", wheel_notices.DOCUMENTS)
        wheel_notices.DOCUMENTS = self.root / "none"
        self.assertIn("has no notice", self.refused())

    def test_the_check_finds_what_is_not_listed(self):
        document = {"components": []}
        with self.assertRaises(wheel_notices.Missing):
            wheel_notices.check(document, {}, ["tilewright.libs/libfmt-ddc1ba2d.so.9"])
        wheel_notices.check(document, {}, ["tilewright/lib/libtilewright.so", "tilewright/lib/share/x.txt"])


if __name__ == "__main__":
    unittest.main()
