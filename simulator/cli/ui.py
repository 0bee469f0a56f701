"""`v4sim ui`: a page on this machine that moves the controls of a deployment."""

from __future__ import annotations

from typing import Annotated

import typer

from simulator.cli.options import console


def ui(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 8484,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")
    ] = True,
) -> None:
    """Open a local page: move model, chip, layout, engine, formats and see every answer change.

    It listens on 127.0.0.1 alone, until Ctrl-C. Example: v4sim ui --port 0 --no-browser
    """
    from v4sim.ui import Server

    with Server(port) as server:
        console().print(f"v4sim is at {server.url} (Ctrl-C ends it)", soft_wrap=True)
        if browser:
            import webbrowser

            webbrowser.open(server.url)
        server.serve_forever()
