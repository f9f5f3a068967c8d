"""The web page and its REST API: `whence serve`.

app        addresses to work                settings   models, runs and limits
requests   what goes in                     answers    what comes out
jobs       a queue with back-pressure       refusals   every answer that is not a success
catalogue  models and methods by name       security   what every request passes: headers, hosts
bodies     measured, then parsed            door       the token
inputs     what a model is given            uploads, images, sounds   files in requests
answer_explain, answer_attention, figures, runs   the work
docs       the API's documentation          pages      files of the page
serving    the server process               connections   how many, and how long they may take
watching   counters and logs

No path, address or code in a request is ever followed: models and runs are those given at start.
"""

from whence.web.settings import Limits, Settings

__all__ = ["Limits", "Settings"]
