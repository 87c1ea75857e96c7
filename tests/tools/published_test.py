# SPDX-License-Identifier: Apache-2.0
"""Tests layers that a team publishes: they are signed, fetched by HTTP or from a folder, and kept
as a copy."""

import http.server
import json
import os
import pathlib
import socket
import threading

import program


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        self.server.asked.append(self.path)


class Published(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.site = self.home / "site"
        self.site.mkdir()
        self.user = str(self.home / "user.db")
        made = self.json("db", "key", "--output", str(self.home / "team.key"), "--format", "json")
        self.key = made["public_key"]

    def publish(self, *sources, name="team"):
        return self.json("db", "ship", "--output", str(self.site / f"{name}.jsonl"), "--sign",
                         str(self.home / "team.key"), *sources, "--format", "json")

    def serve(self):
        """Serves the folder by HTTP. Returns the layer's address and the server, which lists the
        requests in `asked`."""
        handler = lambda *arguments: Silent(*arguments, directory=str(self.site))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/team.layer.json", server

    def look_up(self, team, *arguments, key=None):
        done = self.run_program("tune", *program.SMALL, "--effort", "none", "--db", self.user, "--team", team,
                                "--team-key", key or self.key, "--format", "json", *arguments)
        document = json.loads(done.out) if done.returncode == 0 else None
        return document and document["results"][0], done

    @staticmethod
    def said(done):
        """Returns what the program wrote to stderr, without the lines about its progress."""
        return "".join(line for line in done.err.splitlines(keepends=True) if not line.startswith("looking up"))

    def expire(self):
        """Makes the copies old, so that the program asks the server again."""
        for asked in pathlib.Path(self.home / ".local/share/tilewright/layers").glob("*/asked"):
            os.utime(asked, (1, 1))

    def test_a_layer_is_fetched_checked_and_answers_without_its_server(self):
        self.tuned()
        self.publish(self.db)
        address, server = self.serve()
        found, done = self.look_up(address)
        self.assertEqual((found["layer"], found["ended"]), ("team", "from the database"), done.err)
        self.assertEqual(server.asked, ["/team.layer.json", "/team.jsonl"])
        self.assertEqual(self.look_up(address)[0]["record"], found["record"])
        self.assertEqual(len(server.asked), 2, "a server is not asked for each lookup")
        self.expire()
        self.assertEqual(self.look_up(address)[0]["record"], found["record"])
        self.assertEqual(server.asked[2:], ["/team.layer.json"])
        self.expire()
        server.shutdown()
        server.server_close()
        found_again, done = self.look_up(address)
        self.assertEqual(found_again["record"], found["record"])
        self.assertRegex(self.said(done), r"\Atilewright: the team layer http\S+ stays as it was copied: [^\n]+\n\Z")
        found_again, done = self.look_up(address)
        self.assertEqual((found_again["record"], self.said(done)), (found["record"], ""), "it is not asked again at once")

    def test_a_folder_serves_as_well(self):
        self.tuned()
        self.publish(self.db)
        team = str(self.site / "team.layer.json")
        key = self.home / "team.pub"
        key.write_text(self.key + "\n")
        found, _ = self.look_up(team, key=str(key))
        self.assertEqual(found["layer"], "team")

    def test_Fault97_a_changed_layer_is_refused_in_one_line_and_the_copy_stays(self):
        self.tuned()
        self.publish(self.db)
        address, _ = self.serve()
        found, _ = self.look_up(address)
        whole = {path: path.read_bytes() for path in self.site.iterdir()}
        lines, manifest = self.site / "team.jsonl", self.site / "team.layer.json"
        changed = json.loads(manifest.read_text())
        changed["created_ms"] += 1
        cases = {"flipped": (lines, bytes([whole[lines][9] ^ 1]).join([whole[lines][:9], whole[lines][10:]])),
                 "truncated": (lines, whole[lines][:-5]), "changed": (manifest, json.dumps(changed).encode()),
                 "html": (manifest, b"<html>you have to log in</html>"), "gone": (manifest, None)}
        for name, (path, content) in cases.items():
            with self.subTest(name):
                for each, text in whole.items():
                    each.write_bytes(text)
                if path == lines:  # only lines of a newer layer are fetched
                    self.publish(self.db, "--keep", "3")
                    content = lines.read_bytes()[:-5] if name == "truncated" else b"x" + lines.read_bytes()[1:]
                path.unlink() if content is None else path.write_bytes(content)
                self.expire()
                again, done = self.look_up(address)
                self.assertEqual(again["record"], found["record"])
                self.assertRegex(self.said(done), r"\Atilewright: the team layer http\S+ stays as it was copied: [^\n]+\n\Z")

    def test_Fault99_a_server_that_stalls_does_not_hold_a_run_up(self):
        silent = socket.socket()
        self.addCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/team.layer.json"
        self.tuned()
        done = self.run_program("tune", *program.SMALL, "--effort", "none", "--db", self.db, "--team", address,
                                "--team-key", self.key)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertRegex(done.err, r"the team layer http\S+ is left out: the server [^\n]+\n")

    def test_what_cannot_be_trusted_is_an_error_of_use(self):
        team = str(self.site / "team.layer.json")
        for key, saying in ((None, "--team-key"), ("nonsense", "public key"), (str(self.home / "team.key"), "public key")):
            flags = [] if key is None else ["--team-key", key]
            self.fail_with(2, "tune", *program.SMALL, "--db", self.user, "--team", team, *flags, saying=[saying])
        self.fail_with(2, "db", "key", "--output", str(self.home / "team.key"), saying=["there is a file"])
        self.tuned()
        self.fail_with(2, "db", "ship", "--output", str(self.home / "x.db"), "--sign", str(self.home / "team.key"),
                       self.db, saying=["NAME.jsonl"])
        self.fail_with(5, "db", "ship", "--output", str(self.home / "x.jsonl"), "--sign", self.db, self.db,
                       saying=["--sign", self.db, "no private key"])
        self.fail_with(2, "db", "ship", "--output", str(self.home / "x.jsonl"), "--sign", str(self.site), self.db,
                       saying=["--sign", str(self.site), "is a directory"])
        self.fail_with(2, "db", "key", saying=["--output is missing"])
        self.publish(self.db)
        self.fail_with(2, "db", "ship", "--output", str(self.site / "team.jsonl"), self.db, saying=["--sign", "team.layer.json"])
        self.assertEqual(os.stat(self.home / "team.key").st_mode & 0o777, 0o600)


if __name__ == "__main__":
    program.main()
