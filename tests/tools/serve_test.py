# SPDX-License-Identifier: Apache-2.0
"""Tests `tilewright db serve`, the web view of a database, over its socket and in a browser."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import demand_test
import postgres_test
import program
from trust_test import timed

CHROMIUM = shutil.which("chromium")
TOKEN = "0123456789abcdef-0123456789abcdef"
# As HTML it would be a script, would end an attribute or a style, and would show text backwards.
HOSTILE = """<script>document.title='owned'</script>"'&</style>\u202egnp\u2066\x07\nnext"""
# A record whose hash timed() computes. Fields with fractions have values that are no integers.
BASE = {"record": 3, "op": "dense", "target": "x86-64-linux-avx-avx2-fma", "device": "Zen 5; 2 cores; L1 48 KiB",
        "toolchain": "a", "codegen_abi": 5, "threads": 1, "layouts": "", "status": "ok", "latency_ns": 1500.5,
        "latency_low_ns": 1490.5, "latency_high_ns": 1510.5, "flops": 24576.5, "peak_gflops": 100.5, "noise": 0.5,
        "verified_error": 0, "program_version": "1", "host": "h", "session": "s", "seed": 1, "trial": 1,
        "created_ms": 1_760_000_000_000, "reason": "", "samples_ns": [1500.5], "workload": "dense m=16 n=32 k=24 f32 fast",
        "schedule": "tw1\nsplit out m 4\n", "machine": "Zen; table; 0", "configuration": "", "bytes": 1000.5,
        "peak_gb_per_s": 1000.5, "hash": ""}


def trials(count=24):
    """Returns trials of two workloads on two devices by several sessions, and one trial with
    hostile names."""
    made = []
    for i in range(count):
        made.append(timed(BASE, 900.5 - 10 * (i % 7) + i, f"s{i % 5}", trial=i, created_ms=1_760_000_000_000 + 7_000_000 * i,
                          workload=f"dense m={16 + 16 * (i % 2)} n=32 k=24 f32 fast",
                          device="Zen 5; 2 cores; L1 48 KiB" if i % 3 else "Xeon; 4 cores; L1 32 KiB",
                          schedule="tw1\nsplit out m 4\n" + "\n" * (i % 4)))
    made.append(timed(BASE, 1000.5, HOSTILE, workload=HOSTILE, device=HOSTILE, op=HOSTILE, machine=HOSTILE,
                      schedule="tw1\n" + HOSTILE))
    return made


class Serve(program.ProgramTest):
    def store(self, records, database=None):
        lines = self.home / "lines.jsonl"
        lines.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        done = self.json("db", "import", str(lines), "--db", database or self.db, "--format", "json")
        self.assertEqual((done["inserted"], done["quarantined"]), (len(records), 0))

    def want(self):
        """Leaves the demand of a small network in the database, and returns the demand's hash."""
        (self.home / "net.onnx").write_bytes(demand_test.product())
        self.succeed("tune", "--model", "net.onnx", "--effort", "none", "--db", self.db)
        [demand] = self.json("db", "demand", "--db", self.db, "--format", "json")["demands"]
        return demand["demand"]

    def serve(self, *arguments, database=None):
        """Starts a server that runs until the test ends, and returns its address. self.port is its
        port."""
        self.server = self.start("db", "serve", "--db", database or self.db, *arguments)
        self.addCleanup(self.end)
        line = self.server.stdout.readline()
        self.assertRegex(line, r"^http://\S+:\d+/\n$", "" if line else self.server.stderr.read())
        self.port = int(re.search(r":(\d+)/$", line.strip())[1])
        return line.strip()

    def end(self):
        if self.server.poll() is None:
            self.server.kill()
        self.server.communicate()

    def ask(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=program.PATIENCE_S)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def get(self, path, **headers):
        answer = self.ask(path, **headers)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.text

    def raw(self, request):
        """Sends these bytes, and returns the whole answer of the server until it closes the
        connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=program.PATIENCE_S) as connection:
            answer = b""
            try:
                connection.sendall(request)
                while part := connection.recv(65536):
                    answer += part
            except ConnectionError:
                pass
            return answer

    def test_every_page_and_the_same_as_json(self):
        self.store(trials())
        self.want()
        address = self.serve()
        self.assertTrue(address.startswith("http://127.0.0.1:"))
        seen, waiting = set(), ["/"]
        while waiting:
            path = waiting.pop()
            seen.add(path)
            links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"#]*)', self.get(path))]
            if "<html" not in self.get(path):
                continue
            waiting += {link for link in links if link not in seen and "/program" not in link and
                        link.split("?")[0] not in {p.split("?")[0] for p in [*seen, *waiting]}}
        for begin in ("/workloads", "/coverage", "/demand", "/demand/", "/workloads/", "/records/", "/style.css", "/icon.svg", "/api/workloads/",
                      "/api/records/"):
            self.assertTrue(any(path.startswith(begin) for path in seen), (begin, seen))
        workloads = json.loads(self.get("/api/workloads"))
        self.assertEqual((workloads["schema_version"], workloads["list"]["matches"]), (1, 3))

    def test_an_answer_is_that_of_db_explain(self):
        self.store(trials())
        self.serve()
        key = "dense m=16 n=32 k=24 f32 fast"
        of_page = json.loads(self.get("/api/workloads?q=m=16"))["workloads"]
        self.assertEqual([row["workload"] for row in of_page], [key])
        best = json.loads(self.get("/api/workloads/" + of_page[0]["hash"]))["best"]
        self.assertEqual(len(best), 2)
        for group in best:
            known = self.json("db", "explain", group["answer"]["record"], "--db", self.db, "--format", "json")
            self.assertEqual(known["answer"]["record"], group["answer"]["record"])
            self.assertEqual(known["agreement"], group["agreement"])
            record = json.loads(self.get("/api/records/" + group["answer"]["record"]))
            self.assertTrue(record["is_answer"])
            shown = self.json("show", group["answer"]["record"], "--db", self.db, "--format", "json")
            self.assertEqual(record["schedule"], shown["schedule"])
            loops = json.loads(self.get(f"/api/records/{record['record']}/program"))["program"]
            self.assertEqual(loops, shown["program"])
            self.assertRegex(record["replay"], f"^tilewright replay --db {self.db} {record['record'][:16]}$")

    def test_demand_is_that_of_db_demand(self):
        self.store(trials(4))
        wanted = self.want()
        self.serve()
        of_page = json.loads(self.get("/api/demand/" + wanted))
        [of_program] = self.json("db", "demand", "--db", self.db, "--format", "json")["demands"]
        of_page.pop("schema_version")
        self.assertEqual(of_page, of_program)
        [row] = json.loads(self.get("/api/demand?q=NET"))["demands"]
        self.assertEqual({**row, "kernels": of_program["kernels"]}, of_program)
        self.assertEqual(json.loads(self.get("/api/demand?q=vgg"))["demands"], [])

    def test_only_reads(self):
        self.store(trials(4))
        before = pathlib.Path(self.db).read_bytes()
        self.serve()
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            answer = self.ask("/workloads", method)
            self.assertEqual(answer.status, 405, method)
        big = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000
        self.assertTrue(self.raw(big).startswith(b"HTTP/1.1 405 "))
        head = self.ask("/workloads", "HEAD")
        self.assertEqual((head.status, head.text), (200, ""))
        self.assertGreater(int(head.headers["Content-Length"]), 500)
        self.assertEqual(pathlib.Path(self.db).read_bytes(), before)

    def test_foreign_names_are_refused(self):
        self.store(trials(4))
        self.serve("--name", "team.example")
        self.assertEqual(self.ask("/", Host="evil.example").status, 403)
        for name in ("team.example", "localhost:1", "127.0.0.1", socket.gethostname()):
            self.assertEqual(self.ask("/", Host=name).status, 200, name)
        self.assertTrue(self.raw(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 400 "))

    def test_nothing_outside_the_site(self):
        self.store(trials(4))
        self.serve()
        for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd",
                     "/records/%00", "/workloads/..", "/style.css/../../etc/passwd", "/records/" + "a" * 4000):
            answer = self.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertRegex(answer, rb"^HTTP/1.1 40[04] ", path)
            self.assertNotIn(b"root:", answer)

    def test_Fault30_requests_are_bounded(self):
        self.store(trials(4))
        self.serve()
        for request in (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 9_000_000 + b"\r\n\r\n",
                        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"\r\n" * 5000, b""):
            self.assertNotIn(b" 200 ", self.raw(request + b"\r\n"), request[:30])
        ranges = "bytes=" + ",".join("0-" for _ in range(2000))
        answer = self.ask("/workloads", Range=ranges)
        self.assertEqual((answer.status, len(answer.text)), (200, len(self.get("/workloads"))))
        self.assertEqual(self.ask("/workloads?size=100000").status, 400)
        self.assertEqual(self.ask("/workloads?q=" + "a" * 3000).status, 200)

    def test_many_readers_at_once_and_some_that_say_nothing(self):
        self.store(trials())
        self.serve()
        record = json.loads(self.get("/api/coverage"))["workloads"][1]["measured"]["Zen 5"]["record"]
        paths = ["/", "/coverage", "/records/" + record, "/api/records/" + record] * 10
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            pages = list(pool.map(self.get, paths))
        self.assertEqual(len(set(pages)), 4)
        for connection in silent:
            connection.close()

    def test_Fault89_silent_connections_keep_nobody_waiting(self):
        """If eight threads waited five seconds for each of the 500 connections, the answer would
        come after five minutes."""
        self.store(trials(4))
        token = self.home / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        for arguments, headers in (([], {}), (["--token-file", str(token)], {"Authorization": "Bearer " + TOKEN})):
            self.serve(*arguments)
            silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(500)]
            for connection in silent[::3]:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: lo")
            for connection in silent[1::3]:
                connection.sendall(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n")  # and does not read the answer
            self.get("/workloads", **headers)
            for connection in silent:
                connection.close()
            self.end()

    def test_new_records_are_seen_while_it_serves(self):
        self.store(trials(4))
        self.serve()
        known = json.loads(self.get("/api/workloads"))["trials"]
        added = timed(BASE, 700.5, "later", workload="dense m=99 n=32 k=24 f32 fast")
        self.store([added])
        self.assertTrue(json.loads(self.get("/api/records/" + added["hash"]))["is_answer"])
        while json.loads(self.get("/api/workloads"))["trials"] == known:  # lists may be some seconds old
            pass

    def test_a_token(self):
        self.store(trials(4))
        file = self.home / "token"
        file.write_text(TOKEN + "\n")
        file.chmod(0o600)
        self.serve("--token-file", str(file), "--host", "0.0.0.0")
        for path in ("/", "/style.css", "/api/workloads", "/none", "/?token=wrong"):
            self.assertEqual(self.ask(path).status, 401, path)
        self.assertEqual(self.ask("/", Authorization="Bearer " + TOKEN[:-1]).status, 401)
        self.get("/api/workloads", Authorization="Bearer " + TOKEN)
        answer = self.ask(f"/coverage?q=a&token={TOKEN}")
        self.assertEqual((answer.status, answer.headers["Location"]), (303, "/coverage?q=a"))
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        self.assertNotIn(TOKEN, self.get("/coverage?q=a", Cookie=cookie))
        self.server.send_signal(signal.SIGTERM)
        out, err = self.server.communicate(timeout=program.PATIENCE_S)
        self.assertNotIn(TOKEN, out + err)
        self.assertNotIn("can be read by others", err)

    def test_what_is_not_allowed_is_said_at_once(self):
        self.store(trials(4))
        serve = ["db", "serve", "--db", self.db]
        for host in ("0.0.0.0", "::", "10.1.2.3", "team.example"):
            self.fail_with(2, *serve, "--host", host, saying=["a token is needed", "--token-file"])
        token = self.home / "token"
        for text in ("short", "with a space in it ....", "x" * 30 + "é"):
            token.write_text(text + "\n", encoding="utf-8")
            self.fail_with(2, *serve, "--token-file", str(token), saying=["at least 16"])
        self.fail_with(5, *serve, "--token-file", str(self.home / "none"), saying=["[serve]"])
        self.fail_with(4, "db", "serve", "--db", str(self.home / "none.db"), saying=["does not exist"])
        self.serve()
        self.fail_with(7, *serve, "--port", str(self.port), saying=["cannot be listened on", "--port 0"])

    def test_ends_by_a_signal(self):
        self.store(trials(4))
        for number in (signal.SIGINT, signal.SIGTERM):
            self.serve()
            self.get("/")
            idle = socket.create_connection(("127.0.0.1", self.port))
            self.server.send_signal(number)
            self.server.communicate(timeout=program.PATIENCE_S)
            self.assertEqual(self.server.returncode, 130)
            idle.close()

    def test_a_database_on_a_server(self):
        if not os.environ.get("TW_TEST_POSTGRES"):
            self.skipTest("[SKIP] PostgreSQL is not installed")
        server = postgres_test.Server()
        self.addCleanup(server.close)
        address = server.address("postgres")
        self.store(trials(), address)
        self.store(trials())
        self.serve(database=address)
        of_server = [json.loads(self.get("/api" + path)) for path in ("/workloads?sort=name", "/coverage?sort=name")]
        self.assertIn(address.split("?")[0], self.get("/"))
        workload = of_server[0]["workloads"][1]["hash"]
        of_server.append(json.loads(self.get("/api/workloads/" + workload)))
        self.end()
        self.serve()
        of_file = [json.loads(self.get("/api" + path)) for path in ("/workloads?sort=name", "/coverage?sort=name")]
        of_file.append(json.loads(self.get("/api/workloads/" + workload)))
        self.assertEqual(of_server, of_file)
        self.end()
        self.serve(database=address)
        server.process.send_signal(signal.SIGQUIT)
        server.process.wait()
        answer = self.ask("/api/workloads")
        self.assertIn(answer.status, (500, 503))
        self.assertIn("cannot be reached", answer.text)

    def test_pages_in_a_browser(self):
        if CHROMIUM is None:
            self.skipTest("[SKIP] chromium is not installed")
        self.store(trials())
        wanted = self.want()
        address = self.serve()
        workloads = json.loads(self.get("/api/workloads"))["workloads"]
        record = json.loads(self.get("/api/coverage?q=m=16"))["workloads"][0]["measured"]["Zen 5"]["record"]
        pages = ["workloads", "coverage", "demand", "demand/" + wanted, "records/" + record]
        pages += ["workloads/" + row["hash"] for row in workloads if "m=32" not in row["workload"]]
        for page in pages:
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={self.home / 'browser'}", "--enable-logging=stderr", "--dump-dom", address + page],
                capture_output=True, text=True, timeout=program.PATIENCE_S, check=True)
            self.assertEqual([line for line in done.stderr.splitlines() if "CONSOLE" in line], [], page)
            self.assertIn("<h1>", done.stdout)
            self.assertNotIn("<title>owned", done.stdout)
            self.assertNotIn("<script", done.stdout)


if __name__ == "__main__":
    program.main()
