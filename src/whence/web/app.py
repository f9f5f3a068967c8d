"""The application: addresses to work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal, get_args

import torch
from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from whence.stamp import __version__
from whence.web import (
    answer_attention,
    answer_explain,
    answer_pair,
    answer_stream,
    answer_writing,
    docs,
    figures,
    pages,
    refusals,
    streams,
)
from whence.web.answers import (
    AttentionAnswer,
    CitedAnswer,
    DrawnAnswer,
    ErrorBody,
    ExplainAnswer,
    Health,
    Info,
    RemoveAnswer,
    RowsAnswer,
    RunEntry,
    RunSummary,
    TokensAnswer,
    Wire,
)
from whence.web.bodies import JsonRoute
from whence.web.catalogue import Catalogue
from whence.web.inputs import counted
from whence.web.jobs import Jobs, client_of, while_connected
from whence.web.requests import (
    AttentionRequest,
    CitedFormat,
    CiteFigureRequest,
    CiteRequest,
    ExplainRequest,
    FigureRequest,
    PairFigureRequest,
    PairFormat,
    RemoveRequest,
    SimilarityRequest,
    StreamRequest,
    TokensRequest,
    WriteFigureRequest,
    WriteRequest,
    WrittenFormat,
)
from whence.web.runs import Runs, Wanted
from whence.web.security import Guard
from whence.web.settings import Limits, Settings
from whence.web.watching import Meters, Watch

__all__ = ["create_app"]

REASONS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    404: "No such model, run or row.",
    408: "The body did not come in time.",
    413: "Too large: the text, the image, the sound or the whole request.",
    415: "The body is not said to be JSON.",
    421: "The server does not go by the name in the Host header.",
    422: "Not as described here, or the model can't explain it.",
    429: "The queue is full; the header Retry-After says when to come back.",
    500: "The server's fault; its log has the reason under the id in the message.",
    503: "The server is ending.",
    504: "It took longer than the server's time limit.",
}
READERS = 4
WRITES = '{"event": "token", text}, then {"event": "trace", text, ids, verdict, data}, or {"event": "error", error}'
EVENTS = (
    '{"event": "progress", method, done, total, left}, {"event": "explained", method, seconds, explanations}, '
    '{"event": "failed", method, message}, {"event": "all_explained", seconds}; with faithfulness '
    '{"event": "judged", method, target, area, most, least, fractions}, '
    '{"event": "agreement", methods, correlations} or {"event": "not_judged", message}; '
    '{"event": "done", seconds}, or {"event": "error", error}'
)


def _refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": ErrorBody, "description": REASONS[code]} for code in (*codes, 401, 421, 500)}


WORK = _refusals(400, 404, 408, 413, 415, 422, 429, 503, 504)
READ = _refusals(404, 422, 429, 503, 504)
Name = Annotated[str, Path(max_length=200, description="From /api/runs.")]


def create_app(settings: Settings | None = None) -> FastAPI:
    """A server for the given models and runs. Models are loaded here; bundled ones, but the first, when asked for."""
    settings = settings or Settings()
    limits = settings.limits
    catalogue, runs = Catalogue(settings), Runs(settings.runs)
    catalogue.load()
    jobs = Jobs(settings.workers or max(1, torch.cuda.device_count()), limits.queue, limits.seconds, limits.together)
    readers = Jobs(READERS, limits.queue, limits.seconds)  # files need no model, so they do not wait for one

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for queue in (jobs, readers):
            queue.start()
        yield
        app.state.stop()

    def stop() -> None:
        for queue in (jobs, readers):
            queue.stop()

    app = FastAPI(
        title="whence",
        version=__version__,
        summary="From what place did this prediction come? Explanations of transformer predictions.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.stop, app.state.jobs, app.state.limits = stop, jobs, limits
    meters = Meters()
    app.add_middleware(Guard, hosts=settings.hosts, token=settings.token, limits=limits)
    app.add_middleware(Watch, meters=meters)  # the last one added is the first to see a request
    refusals.install(app)
    _about(app, catalogue, runs, jobs, limits)
    _operators(app, jobs, meters)
    _work(app, catalogue, jobs, readers, limits)
    _runs(app, runs, readers)
    app.include_router(pages.router)
    docs.install(app, catalogue, runs.names(), limits)
    return app


def _about(app: FastAPI, catalogue: Catalogue, runs: Runs, jobs: Jobs, limits: Limits) -> None:
    @app.get("/api/info", response_model=Info, response_description="Done.", responses=_refusals())
    def info() -> Any:  # in a thread: it may be the first to ask for a model
        """What this server has: models, methods, limits and runs."""
        return JSONResponse(
            {
                "version": __version__,
                "models": [catalogue.describe(name, limits.tokens) for name in catalogue],
                "methods": catalogue.describe_methods(),
                "default_methods": catalogue.default_methods(),
                "limits": asdict(limits),
                "runs": runs.names(),
            }
        )

    @app.get("/api/health", response_model=Health, response_description="Done.", responses=_refusals())
    async def health() -> Any:
        """How busy the server is, and what became of its explanations."""
        return JSONResponse(jobs.info())

    @app.get("/api/docs", include_in_schema=False)
    async def api_docs(request: Request) -> Response:
        return HTMLResponse(docs.page(app.openapi(), str(request.base_url)))

    @app.get("/api/docs.css", include_in_schema=False)
    async def api_docs_style() -> Response:
        return Response(docs.STYLE, media_type="text/css")


def _operators(app: FastAPI, jobs: Jobs, meters: Meters) -> None:
    @app.get("/health", include_in_schema=False)
    async def alive() -> Response:
        return JSONResponse({"status": "ending"}, 503) if jobs.stopped else JSONResponse({"status": "ok"})

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(meters.page(jobs.info()), media_type="text/plain; version=0.0.4; charset=utf-8")


def _work(app: FastAPI, catalogue: Catalogue, jobs: Jobs, readers: Jobs, limits: Limits) -> None:
    router = APIRouter(route_class=JsonRoute)

    def explained(bodies: list[ExplainRequest]) -> list[Response | Exception]:
        answers = answer_explain.answered_together(bodies, catalogue, limits)
        return [made if isinstance(made, Exception) else JSONResponse(made) for made in answers]

    async def download(request: Request, work: Callable[[], figures.File]) -> Response:
        made = await while_connected(request, jobs.run(work, client=client_of(request)))
        headers = {"Content-Disposition": f'attachment; filename="{made.name}"'}
        return Response(made.content, media_type=made.type, headers=headers)

    @router.post("/api/explain", response_model=ExplainAnswer, response_description="Done.", responses=WORK)
    async def explain(body: ExplainRequest, request: Request) -> Any:
        """Explain a prediction: every method for every target. Leaving cancels the work."""
        answer_explain.checked(body, catalogue, limits)
        key = answer_explain.likeness(body)
        return await while_connected(request, jobs.share(explained, body, key, client=client_of(request)))

    @router.post(
        "/api/stream", response_class=Response, response_description="Done.", responses=WORK | docs.events(EVENTS)
    )
    async def stream(body: StreamRequest, request: Request) -> Any:
        """As /api/explain, in lines of JSON: each method as soon as it is done, how far slow ones are; then, if asked
        for, how faithful each is."""
        answer_explain.checked(body, catalogue, limits)
        return await streams.lines(request, jobs, partial(answer_stream.streamed, body, catalogue, limits))

    @router.post(
        "/api/write", response_class=Response, response_description="Done.", responses=WORK | docs.events(WRITES)
    )
    async def write(body: WriteRequest, request: Request) -> Any:
        """Let a language model write: every token as it is written, and at the end where each came from."""
        catalogue.check_method(body.method)
        return await streams.lines(request, jobs, partial(answer_writing.written, body, catalogue, limits))

    @router.post(
        "/api/write/figure",
        response_class=Response,
        response_description="Done.",
        responses=WORK | docs.files({form: figures.TYPES[form] for form in get_args(WrittenFormat)}),
    )
    async def write_figure(body: WriteFigureRequest, request: Request) -> Any:
        """Where what was written came from, as a file."""
        catalogue.check_method(body.method)
        return await download(request, partial(figures.drawn_written, body, catalogue, limits))

    @router.post("/api/cite", response_model=CitedAnswer, response_description="Done.", responses=WORK)
    async def cite(body: CiteRequest, request: Request) -> Any:
        """Which sentences of documents an answer came from."""
        catalogue.check_method(body.method)
        work = partial(answer_writing.cited, body, catalogue, limits)
        return JSONResponse(await while_connected(request, jobs.run(work, client=client_of(request))))

    @router.post(
        "/api/cite/figure",
        response_class=Response,
        response_description="Done.",
        responses=WORK | docs.files({form: figures.TYPES[form] for form in get_args(CitedFormat)}),
    )
    async def cite_figure(body: CiteFigureRequest, request: Request) -> Any:
        """Which sentences of documents an answer came from, as a file."""
        catalogue.check_method(body.method)
        return await download(request, partial(figures.drawn_cited, body, catalogue, limits))

    @router.post("/api/similarity", response_model=DrawnAnswer, response_description="Done.", responses=WORK)
    async def similar(body: SimilarityRequest, request: Request) -> Any:
        """Which parts of two texts, or of a picture and its caption, make their embeddings similar."""
        catalogue.check_method(body.method)
        work = partial(answer_pair.answered, body, catalogue, limits)
        return JSONResponse(await while_connected(request, jobs.run(work, client=client_of(request))))

    @router.post(
        "/api/similarity/figure",
        response_class=Response,
        response_description="Done.",
        responses=WORK | docs.files({form: figures.TYPES[form] for form in get_args(PairFormat)}),
    )
    async def similar_figure(body: PairFigureRequest, request: Request) -> Any:
        """What makes two inputs similar, as a file."""
        catalogue.check_method(body.method)
        return await download(request, partial(figures.drawn_pair, body, catalogue, limits))

    @router.post("/api/tokens", response_model=TokensAnswer, response_description="Done.", responses=WORK)
    async def tokens(body: TokensRequest, request: Request) -> Any:
        """How many tokens a text has, and how much of it fits. No model runs for it."""

        def work() -> dict[str, Any]:
            return counted(catalogue.model(body.model), body.text, body.pair, limits)

        return JSONResponse(await while_connected(request, readers.run(work, client=client_of(request))))

    @router.post("/api/remove", response_model=RemoveAnswer, response_description="Done.", responses=WORK)
    async def remove(body: RemoveRequest, request: Request) -> Any:
        """What the model says of an input without some of its features, and without as many others."""
        work = partial(answer_stream.removed, body, catalogue, limits)
        return JSONResponse(await while_connected(request, jobs.run(work, client=client_of(request))))

    @router.post("/api/attention", response_model=AttentionAnswer, response_description="Done.", responses=WORK)
    async def attend(body: AttentionRequest, request: Request) -> Any:
        """What the heads of one layer attend to."""
        work = partial(answer_attention.answered, body, catalogue, limits)
        return JSONResponse(await while_connected(request, jobs.run(work, client=client_of(request))))

    @router.post(
        "/api/figure", response_class=Response, response_description="Done.", responses=WORK | docs.files(figures.TYPES)
    )
    async def figure(body: FigureRequest, request: Request) -> Any:
        """An explanation, or several side by side, as a file."""
        answer_explain.checked(body, catalogue, limits)
        return await download(request, partial(figures.drawn, body, catalogue, limits))

    app.include_router(router)


def _runs(app: FastAPI, runs: Runs, readers: Jobs) -> None:
    @app.get("/api/runs", response_model=list[RunEntry], response_description="Done.", responses=READ)
    async def run_list(request: Request) -> Any:
        """The runs that were opened at start."""
        return JSONResponse(await while_connected(request, readers.run(runs.list, client=client_of(request))))

    @app.get("/api/runs/{name}/rows", response_model=RowsAnswer, response_description="Done.", responses=READ)
    async def run_rows(
        request: Request,
        name: Name,
        offset: Annotated[int, Query(ge=0, le=10**12)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        query: Annotated[str, Query(max_length=200, description="In the text, id, prediction or target.")] = "",
        failed: Annotated[bool | None, Query(description="Only those that failed, or only the others.")] = None,
        label: Annotated[str, Query(max_length=200, description="Only those that were predicted so.")] = "",
        wrong: Annotated[
            bool | None, Query(description="Only predictions other than the target, or the others.")
        ] = None,
        least: Annotated[float, Query(ge=0, le=1, description="Only predictions at least as probable.")] = 0.0,
        order: Annotated[Literal["row", "sure", "unsure"], Query(description="As in the data; surest first …")] = "row",
    ) -> Any:
        """A page of a run. Where only some rows are wanted, or in another order, the run is read through."""
        wanted = Wanted(query=query, failed=failed, label=label, wrong=wrong, least=least, order=order)
        work = partial(runs.rows, name, offset, limit, wanted)
        return JSONResponse(await while_connected(request, readers.run(work, client=client_of(request))))

    @app.get("/api/runs/{name}/rows/{index}", response_model=Wire, response_description="Done.", responses=READ)
    async def run_row(request: Request, name: Name, index: Annotated[int, Path(ge=0, le=10**12)]) -> Any:
        """One row of a run, as an explanation."""
        work = partial(runs.row, name, index)
        return JSONResponse(await while_connected(request, readers.run(work, client=client_of(request))))

    @app.get("/api/runs/{name}/summary", response_model=RunSummary, response_description="Done.", responses=READ)
    async def run_summary(request: Request, name: Name) -> Any:
        """The global picture of a run: influential words, conservation, slow and failed rows."""
        work = partial(runs.summary, name)
        return JSONResponse(await while_connected(request, readers.run(work, client=client_of(request))))
