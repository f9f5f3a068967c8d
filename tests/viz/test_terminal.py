"""Plain text of an explanation, for pipes."""

import numpy as np

from whence.results import Explanation


def test_a_token_stays_on_its_line():
    exp = Explanation(scores=np.array([1.0, -1.0]), tokens=("a\n\n", "\tb\x1b[2J"), target="x", method="lrp")
    assert str(exp).splitlines()[1:3] == ["+1.0000\ta⏎⏎", "-1.0000\t→b\ufffd[2J"]
