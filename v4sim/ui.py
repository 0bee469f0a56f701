"""A local page that moves a deployment's controls and shows step, roofline, capacity and trade-off.

A small server computes each answer when it is asked for, with the functions of the commands: an
answer takes well under a second, so that grids computed ahead would save little, cover less and
only come near the commands' figures, and a framework (Panel, Dash) would add dependencies for one
page. It binds to 127.0.0.1 alone and refuses requests under another host's name.
"""

from __future__ import annotations

import json
import shlex
import threading
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from simulator.basis.errors import InputError, V4SimError
from simulator.basis.sizes import read_tokens
from v4sim.answers import StepAnswer
from v4sim.questions import Deployment

HOST = "127.0.0.1"
# Batches of the trade-off between tokens/s a request and tokens/s a chip.
BATCHES = (1, 4, 16, 64, 256)
_PAGE = Path(__file__).with_name("ui.html")
_TEXTS = ("model", "chip", "engine", "kv_dtype", "index_dtype", "expert_dtype")
_WHOLE = ("count", "tp", "dp")
_computing = threading.Lock()


@lru_cache(maxsize=256)
def step_data(asked: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The step that the controls ask for, with the command that gives the same."""
    given = dict(asked)
    answer = _step(given, int(given["batch"]))
    result = answer.result
    return {
        "sentence": answer.sentence,
        "command": _command(given),
        "total_ps": result.total_ps,
        "low_ps": result.low_ps,
        "high_ps": result.high_ps,
        "tokens_per_s": answer.tokens_per_s,
        "operations": [list(row) for row in answer._short()[1]],
        "figure": json.loads(answer.figure().to_json()),
    }


@lru_cache(maxsize=256)
def capacity_data(asked: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """What the deployment holds at the context and batch asked for."""
    given = dict(asked)
    answer = _deployment(given).capacity(context=given["context"], requests=int(given["batch"]))
    terms = [(t.name, t.nbytes) for t in answer.capacity.terms if t.nbytes > 0]
    return {
        "sentence": answer.sentence,
        "requests": answer.requests,
        "fits": answer.fits,
        "terms": [list(term) for term in terms],
    }


@lru_cache(maxsize=64)
def tradeoff_data(asked: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Tokens/s a request against tokens/s a chip, batch by batch, as far as they fit."""
    given, points, left = dict(asked), [], []
    chips = int(given["count"])
    for batch in sorted({*BATCHES, int(given["batch"])}):
        try:
            answer = _step(given, batch)
        except InputError:
            left.append(batch)  # it does not fit, or cannot be asked
            continue
        rate = answer.tokens_per_s
        points.append({"batch": batch, "user": rate / batch, "chip": rate / chips})
    return {"points": points, "left_out": left, "batch": int(given["batch"])}


ANSWERS = {"/step": step_data, "/capacity": capacity_data, "/tradeoff": tradeoff_data}


def _deployment(given: dict[str, str]) -> Deployment:
    options: dict[str, Any] = {name: given[name] for name in _TEXTS if given.get(name)}
    options |= {name: int(given[name]) for name in _WHOLE if given.get(name)}
    return Deployment(**options)


def _step(given: dict[str, str], batch: int) -> StepAnswer:
    return _deployment(given).step(batch=batch, context=given["context"])


def _command(given: dict[str, str]) -> str:
    words = ["v4sim", "step"]
    for name in (*_TEXTS, *_WHOLE, "batch"):
        if given.get(name):
            words += [f"--{name.replace('_', '-')}", given[name]]
    return shlex.join([*words, "--context", str(read_tokens(given["context"]))])


def choices() -> dict[str, list[str]]:
    """What the controls offer."""
    from hwmodels.chip import list_chips
    from simulator.engine.profile import list_profiles
    from workloads.deepseek_v4.config import list_models

    return {
        "model": [name for name in list_models() if name != "tiny"],
        "chip": list_chips(),
        "engine": list_profiles(),
    }


def page() -> str:
    """The page with its choices put in."""
    text = _PAGE.read_text(encoding="utf-8")
    return text.replace("/*CHOICES*/", json.dumps(choices()))


class _Handler(BaseHTTPRequestHandler):
    """Answers of one page; nothing else is read."""

    server: Server

    def do_GET(self) -> None:
        """One request."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(403, "text/plain", b"this page is for this machine alone")
            return
        place = urlsplit(self.path)
        if place.path == "/":
            self._send(200, "text/html; charset=utf-8", page().encode())
        elif place.path == "/plotly.js":
            self._send(200, "text/javascript", _plotly())
        elif place.path in ANSWERS:
            told = json.dumps(self._answer(place.path, place.query))
            self._send(200, "application/json", told.encode())
        else:
            self._send(404, "text/plain", b"no such page")

    def _answer(self, path: str, query: str) -> dict[str, Any]:
        asked = tuple(sorted(parse_qsl(query)))
        try:
            with _computing:
                return ANSWERS[path](asked)
        except V4SimError as error:
            return {"error": error.message}
        except (KeyError, ValueError) as error:
            return {"error": f"a control has no usable value: {error}"}

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'self'; style-src 'unsafe-inline'; script-src 'self' 'unsafe-inline'; "
            "img-src data: blob:",
        )
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


@lru_cache(maxsize=1)
def _plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).encode()


class Server(ThreadingHTTPServer):
    """The page's server on 127.0.0.1; port 0 takes a free one.

    Raises InputError for a port that is taken.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        if not 0 <= port <= 65535:
            raise InputError(f"port is {port:,}, expected 0 (a free one) to 65,535")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise InputError(
                f"cannot listen at {HOST}:{port}: {error.strerror}; try --port 0"
            ) from None

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.server_address[1]}/"
