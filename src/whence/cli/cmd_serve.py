"""`whence serve`."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from whence.cli.command import Device, Dtype, Task, app
from whence.errors import MissingExtraError

__all__ = ["serve"]


LogLevel = Literal["debug", "info", "warning", "error"]


@app.command()
def serve(
    models: Annotated[
        list[str] | None, typer.Argument(help="Bundled names, hub ids or folders. Default: all bundled ones.")
    ] = None,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    run: Annotated[
        list[Path] | None, typer.Option(help="A folder written by 'whence run', to look at. Repeat.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name, without a port, that requests may call it by. Repeat.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WHENCE_TOKEN",
            help="What requests must carry; 'new' makes one, the default beyond localhost; 'none' asks for none.",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Explanations at a time; default one per device.")] = None,
    queue: Annotated[int, typer.Option(min=0, help="Requests that may wait.")] = 16,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of an explanation.")] = 60.0,
    log_level: Annotated[LogLevel, typer.Option(help="'info' writes a line of JSON for each request.")] = "warning",
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    task: Task = None,
    device: Device = None,
    dtype: Dtype = None,
) -> None:
    """Explain in the browser: a web page, and a REST API beneath it."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "fastapi", "web", "whence serve") from None
    from whence.models import BUNDLED
    from whence.web.app import create_app
    from whence.web.door import token_of
    from whence.web.serving import address, bound, is_loopback, names
    from whence.web.serving import serve as run_server
    from whence.web.settings import Limits, Settings
    from whence.web.watching import log_to_stderr

    log_to_stderr(log_level)
    opened = bound(host, port)  # before models are loaded: a port in use should not take that long to say
    local = is_loopback(host)
    asked = token_of(token, local)
    settings = Settings(
        models=tuple(models or BUNDLED),
        runs=tuple(run or ()),
        workers=workers,
        hosts=names(host, allow_host or ()),
        token=asked,
        loading={"task": task, "device": device, "dtype": dtype},
        limits=Limits(queue=queue, seconds=seconds),
    )
    if not local and asked is None:
        typer.secho(
            f"whence: {host} can be reached from other machines, and no token is asked for: anyone there can use it.",
            err=True, fg=typer.colors.YELLOW,
        )  # fmt: skip
    typer.echo(f"starting with {', '.join(settings.models)} …", err=True)
    application = create_app(settings)

    def ready() -> None:
        page = f"/?token={quote(asked)}" if asked else ""
        first, *others = dict.fromkeys(address(opened, name) for name in allow_host or ["localhost"])
        also = f"also at {', '.join(others)}; " if others else ""
        typer.echo(f"whence is at {first}{page}   ({also}Ctrl-C ends it; the API is described at /api/docs)")
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address(opened) + page,), daemon=True).start()

    run_server(application, opened, ready)
