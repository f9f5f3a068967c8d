"""What an editor knows of a call. `mypy` checks this file; nothing here runs."""

from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import whence
from whence.results import Several

if TYPE_CHECKING:
    assert_type(whence.explain("sentiment", "a gorgeous movie"), whence.Explanation)
    assert_type(whence.explain("sentiment", ("a premise", "a hypothesis"), "gae"), whence.Explanation)
    assert_type(whence.explain("sentiment", ["one", "two"], whence.Recipe("mine")), Several[whence.Explanation])
    assert_type(whence.explain("digits", Path("photo.png")), whence.Explanation)
