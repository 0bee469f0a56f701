"""The local page in a real browser: every control moves it, its figures are the commands'."""

from __future__ import annotations

import json
import shlex
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.cli.main import main
from tests.chromium import CHROMIUM, MISSING, Browser
from tests.sampling import WHOLE
from v4sim import InputError
from v4sim.ui import HOST, Server

# What each control is moved to; each moves some shown figure.
MOVES = {
    "batch": "32",
    "context": "256K",
    "chip": "b200",
    "engine": "vllm-0.33",
    "index_dtype": "fp4",
    "kv_dtype": "bf16",
    "count": "16",
    "layout": "tp 8 x dp 2",
    "expert_dtype": "fp8",
    "model": "v4-pro",
}
SOME = ("batch",)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()


def test_it_listens_to_this_machine_alone(server: Server) -> None:
    host, port = server.server_address[:2]
    assert host == HOST == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for other in others - {"127.0.0.1", "::1"}:
        with socket.socket() as knock:
            knock.settimeout(0.5)
            assert knock.connect_ex((str(other), port)) != 0
    ask = urllib.request.Request(server.url, headers={"Host": f"example.org:{port}"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(ask)
    with pytest.raises(InputError, match="try --port 0"):
        Server(port)


def test_answers_are_those_of_the_command_and_refusals_sentences(
    server: Server, tmp_path: Path
) -> None:
    query = "model=v4-flash&chip=h200&count=8&tp=8&dp=1&engine=sglang-0.5&context=128K&batch=16"
    with urllib.request.urlopen(f"{server.url}step?{query}") as reply:
        found = json.load(reply)
    path = tmp_path / "step.json"
    words = shlex.split(found["command"])
    assert main([*words[1:], "--json", str(path)]) == 0
    assert json.loads(path.read_text())["total_ps"] == found["total_ps"]
    with urllib.request.urlopen(f"{server.url}step?{query.replace('=8&tp', '=9&tp')}") as reply:
        assert "tp 8 x dp 1 is 8 chips, but --count is 9" in json.load(reply)["error"]


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_every_control_moves_what_is_shown(server: Server, tmp_path: Path) -> None:
    shown = (
        "JSON.stringify([...document.querySelectorAll('section')].map("
        "s => [s.id, s.dataset.totalPs, s.dataset.requests, s.dataset.points, s.dataset.error]))"
    )
    with Browser(tmp_path / "profile") as browser:
        browser.open(server.url)
        browser.wait_for("document.body && document.body.dataset.state === 'ready'")
        before = browser.run(shown)
        moves = MOVES if WHOLE else {name: MOVES[name] for name in SOME}
        for name, value in moves.items():
            browser.run(
                f"(() => {{const c = document.forms[0].elements[{json.dumps(name)}];"
                f"c.value = {json.dumps(value)};"
                "c.dispatchEvent(new Event('input', {bubbles: true}));})()"
            )
            browser.wait_for("document.body.dataset.state === 'ready'")
            after = browser.run(shown)
            assert after != before, name
            before = after
        command = browser.run("document.querySelector('#step code').textContent")
        total = browser.run("document.getElementById('step').dataset.totalPs")
        error = browser.run("document.getElementById('step').dataset.error")
        drawn = "[...document.querySelectorAll('.figure')].every(f => f.data && f.data.length)"
        assert browser.run(drawn)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
        assert not browser.faults
        assert all(url.startswith((server.url, "about:")) for url in browser.requested)
    assert not error
    path = tmp_path / "step.json"
    assert main([*shlex.split(command)[1:], "--json", str(path)]) == 0
    assert str(json.loads(path.read_text())["total_ps"]) == total
