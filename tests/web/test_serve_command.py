"""`whence serve`: what is printed, and what is refused before anything is loaded."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from whence.cli import app, main
from whence.errors import InputError
from whence.web import app as application
from whence.web import serving, watching


@pytest.fixture
def started(monkeypatch):
    """The command without models and without a server: what they would get is kept."""
    kept = {}
    monkeypatch.setattr(application, "create_app", lambda settings: kept.setdefault("settings", settings))

    def serve(made, opened, ready):
        ready()
        opened.close()

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(watching, "log_to_stderr", lambda level: kept.update(level=level))

    def run(*arguments):
        kept.clear()
        return CliRunner().invoke(app, ["serve", "--port", "0", "--no-open", *arguments], catch_exceptions=False), kept

    return run


def test_defaults(started):
    result, kept = started()
    assert result.exit_code == 0
    assert "whence is at http://127.0.0.1:" in result.stdout
    assert result.stderr == "starting with sentiment, digits, tones, shapes …\n"
    settings = kept["settings"]
    assert settings.models == ("sentiment", "digits", "tones", "shapes")
    assert settings.hosts is not None
    assert {"localhost", "127.0.0.1"} <= set(settings.hosts)


def test_options(started, tmp_path):
    _, kept = started("my/model", "--run", str(tmp_path), "--workers", "3", "--queue", "5", "--seconds", "7",
                      "--allow-host", "whence.example.org")  # fmt: skip
    settings = kept["settings"]
    assert settings.models == ("my/model",)
    assert settings.runs == (tmp_path,)
    assert (settings.workers, settings.limits.queue, settings.limits.seconds) == (3, 5, 7.0)
    assert "whence.example.org" in settings.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_token_and_known_names_where_others_can_reach_it(started, host):
    result, kept = started("--host", host, "--allow-host", "whence.example.org")
    token = kept["settings"].token
    assert len(token) >= 43
    assert result.stdout.count(token) == 1
    assert f"/?token={token} " in result.stdout
    assert token not in result.stderr
    assert {"localhost", socket.gethostname(), "whence.example.org"} <= set(kept["settings"].hosts)
    assert host not in kept["settings"].hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_the_address_has_the_name_that_others_use(started, host):
    assert "whence is at http://localhost:" in started("--host", host)[0].stdout
    said = started("--host", host, "--allow-host", "lab7", "--allow-host", "lab7.example.org")[0].stdout
    assert "whence is at http://lab7:" in said
    assert "(also at http://lab7.example.org:" in said
    assert "whence is at http://[fe80::1]:" in started("--host", host, "--allow-host", "fe80::1")[0].stdout
    behind = started("--allow-host", "lab7", "--allow-host", "lab8")[0].stdout  # names of a proxy
    assert "whence is at http://127.0.0.1:" in behind
    assert "also at" not in behind


@pytest.mark.parametrize("name", ["lab7:8000", "http://lab7", "https://lab7:8000/", "lab7/", "lab7:"])
def test_a_further_name_is_no_address(name):
    with pytest.raises(InputError, match=r"without a port: type  --allow-host lab7$"):
        serving.names("0.0.0.0", [name])
    with pytest.raises(InputError, match=r"--allow-host fe80::1$"):
        serving.names("0.0.0.0", ["[fe80::1]:8000"])


def test_no_token_at_localhost_unless_one_is_asked_for(started, monkeypatch):
    result, kept = started()
    assert kept["settings"].token is None
    assert "token" not in result.stdout
    assert started("--token", "sixteen-letters-or-more")[1]["settings"].token == "sixteen-letters-or-more"
    monkeypatch.setenv("WHENCE_TOKEN", "from-the-environment")
    assert started()[1]["settings"].token == "from-the-environment"


def test_the_level_of_the_log(started):
    assert started()[1]["level"] == "warning"
    assert started("--log-level", "info")[1]["level"] == "info"


def test_a_warning_where_anyone_can_use_it(started):
    result, kept = started("--host", "0.0.0.0", "--token", "none")
    assert "anyone there can use it" in result.stderr
    assert kept["settings"].token is None


def test_a_port_in_use_says_what_to_type(capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["whence", "serve", "--port", str(port), "--no-open"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.strip() == f"whence: port {port} is in use: type  whence serve --port {port + 1}"


def test_small_answers_are_sent_at_once():
    """asyncio turns Nagle's algorithm off only where the protocol is named: 40 ms on every answer."""
    with serving.bound("127.0.0.1", 0) as opened:
        assert opened.proto == socket.IPPROTO_TCP


def test_an_address_of_another_machine():
    with pytest.raises(InputError, match=r"--host 127\.0\.0\.1"):
        serving.bound("192.0.2.1", 0)


def test_the_missing_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setattr(sys, "argv", ["whence", "serve"])
    with pytest.raises(SystemExit):
        main()
    assert "pip install 'whence-xai[web]'" in capsys.readouterr().err


def test_the_command_itself_needs_no_server():
    code = "import sys, whence.cli; print([m for m in ('fastapi', 'uvicorn', 'starlette') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
