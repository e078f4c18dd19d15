"""A real HTTP server on loopback that serves files in a release's and in the Hub's layout."""

import hashlib
import re
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Served:
    """One file and the ways in which its server misbehaves."""

    data: bytes
    kind: str = "application/octet-stream"
    etag: str | None = None
    obeys_range: bool = True
    states_length: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    redirect: str | None = None


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]


class FileServer:
    """Serves `files` by path; `asked` lists all requests."""

    def __init__(self):
        self.files: dict[str, Served] = {}
        self.asked: list[Asked] = []
        self._server = _Quiet(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{port}"
        # To the Hub's client, another host.
        self.elsewhere = f"http://localhost:{port}"

    def release(self, path, data, **how):
        """Puts a file under a path like that of a release and gives its address."""
        how.setdefault("etag", f'"{hashlib.md5(data).hexdigest()}"')
        self.files[path] = Served(data, **how)
        return self.address + path

    def hub(self, repository, name, data, *, revision="main", linked=False, **how):
        """Puts a file into a Hub repository; ``linked`` keeps it elsewhere, as large files are."""
        digest = hashlib.sha256(data).hexdigest()
        path = f"/{repository}/resolve/{revision}/{name}"
        if linked:
            self.files[f"/storage/{digest}"] = Served(data, etag=f'"{digest}"')
            self.files[path] = Served(
                data, etag=f'"{digest}"', redirect=f"{self.elsewhere}/storage/{digest}"
            )
        else:
            self.files[path] = Served(data, etag=f'"{digest}"', **how)
        return self.address + path

    def paths(self, method="GET"):
        return [asked.path for asked in self.asked if asked.method == method]

    def close(self):
        """Stops serving; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def log_message(self, *args):
        pass

    def _answer(self, with_body):
        owner = self.server.owner
        owner.asked.append(Asked(self.command, self.path, dict(self.headers)))
        served = owner.files.get(self.path)
        if served is None:
            return self._status(404)
        if with_body and served.statuses and (status := served.statuses.pop(0)) != 200:
            return self._status(status)
        if served.redirect is not None:
            return self._redirect(served)
        return self._send(served, with_body)

    def _send(self, served, with_body):
        start = self._start(served)
        rest = served.data[start:]
        self.send_response(206 if start else 200)
        if start:
            size = len(served.data)
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self._headers(served, len(rest))
        if not with_body:
            return
        cut = served.cuts.pop(0) if served.cuts else None
        self.wfile.write(rest if cut is None else rest[:cut])
        if cut is not None or not served.states_length:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def _start(self, served):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range") == served.etag
        return int(asked.group(1)) if asked and same and served.obeys_range else 0

    def _headers(self, served, length):
        if served.etag is not None:
            self.send_header("ETag", served.etag)
        if "/resolve/" in self.path:
            self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Type", served.kind)
        if served.states_length:
            self.send_header("Content-Length", str(length))
        else:
            self.send_header("Connection", "close")
        self.end_headers()

    def _redirect(self, served):
        self.send_response(302)
        self.send_header("Location", served.redirect)
        if "/resolve/" in self.path:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("X-Linked-Etag", served.etag)
            self.send_header("X-Linked-Size", str(len(served.data)))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _status(self, status):
        self.send_response(status)
        if "/resolve/" in self.path:
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()
