"""The documentation is searched from a disk, where browsers start no worker: docs/iframe-worker.js stands in for it."""

from __future__ import annotations

import shutil
from pathlib import Path

STAND_IN = Path(__file__).parents[2] / "docs" / "iframe-worker.js"


def test_a_worker_of_a_page_from_a_disk_is_sent_messages_and_answers(opened, tmp_path):
    shutil.copyfile(STAND_IN, tmp_path / "iframe-worker.js")
    (tmp_path / "workers").mkdir()
    worker = "self.onmessage = ({ data }) => self.postMessage(`${data} heard`);"
    (tmp_path / "workers" / "echo.js").write_text(worker, encoding="utf-8")
    (tmp_path / "page.js").write_text(
        "const worker = new Worker('workers/echo.js');"
        "worker.onmessage = ({ data }) => {"
        "  document.body.append(Object.assign(document.createElement('p'), { textContent: data }));"
        "  if (document.querySelectorAll('p').length === 2) worker.postMessage('third');"
        "  if (data === 'third heard') { worker.terminate(); document.body.className = 'done'; }"
        "};"
        "worker.postMessage('first'); worker.postMessage('second');",
        encoding="utf-8",
    )
    page = tmp_path / "index.html"
    scripts = '<script src="iframe-worker.js"></script><script src="page.js"></script>'
    page.write_text(f"<!doctype html><body>{scripts}</body>", encoding="utf-8")
    shown = opened(page.as_uri(), wait=".done", allowed=("request: file:",))
    assert shown.locator("p").all_inner_texts() == ["first heard", "second heard", "third heard"]
    assert shown.locator("iframe").count() == 0
