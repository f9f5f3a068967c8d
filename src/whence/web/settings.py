"""What a server serves, and how much it takes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whence.models import BUNDLED

__all__ = ["Limits", "Settings"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that one request may ask for."""

    characters: int = 100_000
    """Of a text."""
    tokens: int = 4096
    """Of a text, whatever the model could take."""
    attention_tokens: int = 1024
    """Of a text whose attention maps are asked for: a map grows with the square."""
    image_bytes: int = 10_000_000
    """Of an image file."""
    image_pixels: int = 40_000_000
    """Of an image once it is unpacked: a small file can hold a huge one."""
    sound_bytes: int = 10_000_000
    """Of a sound file."""
    sound_seconds: float = 30.0
    sound_rate: int = 192_000
    """Samples of a sound in a second: more is no sound that anybody recorded."""
    sound_samples: int = 8_000_000
    """Of a sound once it is unpacked, over all its channels."""
    methods: int = 8
    removed: int = 512
    """Features that may be taken away at once."""
    targets: int = 12
    labels: int = 64
    """Texts to choose from; each has 200 characters at most, as every name in a request."""
    generate: int = 64
    """Tokens that a language model may be asked to generate."""
    seconds: float = 60.0
    """An explanation may run, once it has begun."""
    queue: int = 16
    """Requests that may wait while others run; those of one client make room where others come."""
    together: int = 16
    """Waiting requests for texts that may be explained in one call, where model and methods are the same."""
    image_side: int = 4096
    """Pixels of an image's longer side; a longer one is scaled down by a whole number as it is unpacked."""
    answer_bytes: int = 32_000_000
    """Of a file that is drawn."""
    unread_bytes: int = 64_000_000
    """Of answers that wait for one client (for a proxy, those of all behind it) to read them; beyond it, the one that
    has waited longest is lost with its connection."""
    connections: int = 256
    """Open at a time. Beyond it, whoever has most loses the oldest of those without a request."""
    head_seconds: float = 10.0
    """A client may take to send the head of a request."""
    body_seconds: float = 30.0
    """A client may take to send a body, and to go on reading an answer."""

    @property
    def items(self) -> int:
        """Values in a request: more than all fields, messages, methods, labels, targets and written tokens (or features
        to be taken away)."""
        return 160 + self.methods + self.labels + max(4 * self.targets + self.generate, self.removed)

    @property
    def body_bytes(self) -> int:
        """The largest body within these limits: base64 takes 4/3, JSON escapes up to 12 bytes per character."""
        texts = self.characters + 200 * self.labels
        return max(self.image_bytes, self.sound_bytes) * 4 // 3 + texts * 12 + 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A server. Models are names for `whence.load`, or loaded models by the name they shall have."""

    models: tuple[str, ...] | Mapping[str, Any] = BUNDLED
    runs: tuple[str | Path, ...] = ()
    """Folders written by `whence run`."""
    methods: tuple[str, ...] | None = None
    """Methods that may be asked for; all by default."""
    workers: int | None = None
    """Explanations that run at a time; default: one per device."""
    hosts: tuple[str, ...] | None = ("localhost", "127.0.0.1", "::1")
    """Names that a request may call this server by; None for any. Web pages elsewhere can make a name of their own
    point here (DNS rebinding), and would then be let in."""
    token: str | None = None
    """What every request must carry; None where none is asked for."""
    loading: Mapping[str, Any] = field(default_factory=dict)
    """Options for `whence.load`: task, device, dtype."""
    limits: Limits = field(default_factory=Limits)
