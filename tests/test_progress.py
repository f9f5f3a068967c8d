"""Progress bars: one at a time, and none where they were turned off."""

from __future__ import annotations

import pytest

from whence import progress


@pytest.fixture
def started(monkeypatch):
    """Bars that were drawn, on what looks like a terminal, without a wait."""
    names: list[str] = []

    class Bar:
        def __init__(self, *_, **__):
            self.name = ""

        def add_task(self, name, total):
            self.name = name

        def start(self):
            names.append(self.name)

        def advance(self, *_):
            pass

        stop = lambda self: None

    monkeypatch.setattr(progress, "Progress", Bar)
    monkeypatch.setattr(progress, "MOMENT", -1.0)
    monkeypatch.setattr(progress.Console, "is_terminal", property(lambda self: True))
    return names


def nested(**options):
    for _ in progress.track([1, 2], "outer", 2, **options):
        list(progress.track([1, 2], "inner", 2))


def test_a_bar_inside_a_bar_stays_away(started):
    """Until the outer one is drawn, which it is after its first piece of work, the inner one may show."""
    nested()
    assert started == ["inner", "outer"]


def test_no_bar_inside_one_that_was_turned_off(started):
    nested(show=False)
    assert started == []
    list(progress.track([1], "later", 1))
    assert started == ["later"]


def test_steps_are_drawn_where_somebody_says(started):
    def two():
        done = progress.steps("writing", 2)
        assert [next(done), next(done)] == [0, 1]
        done.close()

    two()
    with progress.showing(False):
        two()
    assert started == []
    with progress.showing(None):
        two()
    assert started == ["writing"]


@pytest.mark.parametrize("show", [True, False])
def test_a_listener_hears_of_work_whether_it_is_drawn_or_not(started, show):
    told = []
    with progress.heard(lambda done, total: told.append((done, total))):
        list(progress.track("ab", "letters", 5, iter([2, 3]), show=show))
    assert told == [(2, 5), (5, 5)]
