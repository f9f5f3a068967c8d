"""What operators see: counters for Prometheus, and a line of JSON for every request. Neither has what was explained."""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["JsonLines", "Meters", "Watch", "log_to_stderr"]

log = logging.getLogger("whence.web.requests")
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: the upper edges of the histogram's boxes."""
OTHER = "other"
"""In place of addresses that there are not: whoever tries them should not make the page of counters longer."""
PATH_LOGGED = 200


class Meters:
    """Counters since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.boxes: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests[method, route, status] += 1
        self.boxes[route][bisect_left(BOUNDS, seconds)] += 1
        self.seconds[route] += seconds

    def page(self, jobs: Mapping[str, int]) -> str:
        """The text format of Prometheus, version 0.0.4."""
        return "\n".join((*self._requests(), *self._durations(), *_jobs(jobs), ""))

    def _requests(self) -> Iterator[str]:
        yield "# HELP whence_requests_total Requests answered."
        yield "# TYPE whence_requests_total counter"
        for (method, route, status), count in sorted(self.requests.items()):
            yield f'whence_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'

    def _durations(self) -> Iterator[str]:
        name = "whence_request_seconds"
        yield f"# HELP {name} Seconds from a request's head to the end of its answer."
        yield f"# TYPE {name} histogram"
        for route, boxes in sorted(self.boxes.items()):
            total = 0
            for edge, count in zip((*map(str, BOUNDS), "+Inf"), boxes, strict=True):
                total += count
                yield f'{name}_bucket{{route="{route}",le="{edge}"}} {total}'
            yield f'{name}_sum{{route="{route}"}} {self.seconds[route]:.6f}'
            yield f'{name}_count{{route="{route}"}} {total}'


def _jobs(jobs: Mapping[str, int]) -> Iterator[str]:
    for name in ("running", "waiting"):
        yield f"# HELP whence_jobs_{name} Explanations that are {name} now."
        yield f"# TYPE whence_jobs_{name} gauge"
        yield f"whence_jobs_{name} {jobs[name]}"
    yield "# HELP whence_jobs_total What became of explanations."
    yield "# TYPE whence_jobs_total counter"
    for outcome in ("done", "cancelled", "timed_out", "refused"):
        yield f'whence_jobs_total{{outcome="{outcome}"}} {jobs[outcome]}'


class Watch:
    """Counts and logs every request. What was sent is not logged, nor the query, which may carry the token."""

    def __init__(self, app: ASGIApp, *, meters: Meters) -> None:
        self.app, self.meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, size = time.perf_counter(), 499, 0  # nginx's number for a client that left unanswered

        async def watched(message: Message) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - begun
            known = scope["method"] if scope["method"] in METHODS else OTHER
            self.meters.count(known, getattr(scope.get("route"), "path", OTHER), status, seconds)
            if log.isEnabledFor(logging.INFO):
                log.info("request", extra={"facts": _facts(scope, status, seconds, size)})


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def _facts(scope: Scope, status: int, seconds: float, size: int) -> dict[str, Any]:
    return {
        "client": scope["client"][0] if scope.get("client") else None,
        "method": scope["method"][:20],
        "path": scope["path"][:PATH_LOGGED],
        "status": status,
        "seconds": round(seconds, 4),
        "bytes": size,
    }


class JsonLines(logging.Formatter):
    """One line of JSON for one record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(level: str) -> None:
    """Lines of JSON for what the server has to say, from this level on: a line for each request from 'info' on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("whence.web", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
