"""What `whence serve` bears: each attack once, on a server of this machine, with the memory it took and who waited.

    python -m benchmarks.hostile              # all of them
    python -m benchmarks.hostile 260          # those with this word in their name

Every attack has a server of its own at a free port of the loopback address. Its peak of memory is compared with the one
before, and while it lasts a bystander asks for /api/health again and again.
"""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.load import server

MOST_CONNECTIONS, MOST_SECONDS = 300, 60.0
HEAD = b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def post(port: int, body: bytes, path: str = "/api/explain") -> str:
    """The status of the answer, and the error's code."""
    address = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=MOST_SECONDS) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return f"{error.code} {json.load(error)['error']['code']}"


def objects(port: int) -> str:
    return post(port, b'{"model":"sentiment","text":"x","targets":[' + b"{}," * 4_300_000 + b"{}]}")


def nested(port: int) -> str:
    return post(port, b"[" * 13_000_000)


def digits(port: int) -> str:
    return post(port, b'{"generate":' + b"9" * 13_000_000 + b"}")


def quotes(port: int) -> str:
    return post(port, b'"' + b'\\"' * 6_500_000)


def picture(port: int) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (6300, 6300), (200, 30, 90, 128)).save(file, "PNG", compress_level=1)
    return _seen(port, file.getvalue())


def scans(port: int) -> str:
    """A JPEG that goes over its 6300 × 6300 pixels 60,000 times, with nothing new each time."""
    side, blocks = 6300, 788 * 788

    def segment(mark: int, content: bytes) -> bytes:
        return bytes([0xFF, mark]) + (len(content) + 2).to_bytes(2) + content

    table = bytes([1] + [0] * 15)  # one word, of one bit
    frame = bytes([8]) + side.to_bytes(2) * 2 + bytes([1, 1, 0x11, 0])
    head = b"\xff\xd8" + segment(0xDB, bytes([0] + [1] * 64)) + segment(0xC2, frame)
    head += segment(0xC4, b"\x00" + table + b"\x00") + segment(0xC4, b"\x10" + table + b"\xe0")
    first = segment(0xDA, bytes([1, 1, 0, 0, 0, 0])) + bytes(blocks // 8)
    bits = "".join("0" + format(min(16383, max(0, left - 16384)), "014b") for left in range(blocks, 0, -32767))
    bits += "1" * (-len(bits) % 8)
    again = segment(0xDA, bytes([1, 1, 0, 1, 63, 0]))
    again += int(bits, 2).to_bytes(len(bits) // 8).replace(b"\xff", b"\xff\x00")
    return _seen(port, head + first + again * 60_000 + b"\xff\xd9")


def webp(port: int) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (6300, 6300)).save(file, "WEBP", lossless=True, method=0)
    return _seen(port, file.getvalue())


def _seen(port: int, image: bytes) -> str:
    return post(port, json.dumps({"model": "digits", "image": base64.b64encode(image).decode()}).encode())


def sound(port: int) -> str:
    import numpy as np
    import soundfile

    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", 192_000, 1, format="FLAC") as opened:  # silence; the length is a prime
        for left in range(5_759_981, 0, -65_536):
            opened.write(np.zeros(min(left, 65_536), np.float32))
    body = {"model": "tones", "sound": base64.b64encode(file.getvalue()).decode()}
    return post(port, json.dumps(body).encode())


def one_word(port: int) -> str:
    body = {"model": "sentiment", "text": "x" * 100_000, "format": "svg"}
    return post(port, json.dumps(body).encode(), "/api/figure")


def unread(port: int) -> str:
    """Ask for 0.7 MB again and again, and read next to nothing of it."""
    body = json.dumps(
        {"model": "sentiment", "text": "x" * 100_000, "methods": ["gi", "lrp"], "format": "html"}
    ).encode()
    asked = b"POST /api/figure HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    asked += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    with ExitStack() as stack:
        for _ in range(100):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=MOST_SECONDS))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.sendall(asked)
            opened.recv(64)
        return f"then {_asked(port)}"


def dots(port: int) -> str:
    """A document of 99,000 full stops, none of which ends a sentence."""
    body = {"model": "writer", "question": "why?", "documents": ["." * 99_000 + "x"], "answer": "so"}
    return post(port, json.dumps(body).encode(), "/api/cite")


def writer(folder: Path) -> str:
    """A language model of nothing much whose tokens have up to 64 full stops, as those of GPT-2 do."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = {letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("." * size, "." * size) for size in (1, 2, 4, 8, 16, 32)]
    words |= {a + b: len(words) + n for n, (a, b) in enumerate(merges)} | {"<end>": len(words) + len(merges)}
    raw = Tokenizer(models.BPE(words, merges))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    marks = dict.fromkeys(("bos_token", "eos_token", "pad_token"), "<end>")
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **marks).save_pretrained(folder)
    config = transformers.GPT2Config(vocab_size=len(words), n_positions=4096, n_embd=32, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def _held(port: int, count: int, said: bytes, more: bytes = b"") -> str:
    """Open connections that say only this much, and hold them while somebody else asks for an explanation."""
    with ExitStack() as stack:
        for _ in range(min(count, MOST_CONNECTIONS)):
            opened = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            try:
                opened.sendall(said + more)
            except OSError:  # the server has closed it to make room
                continue
        return f"then {_asked(port)}"


def _asked(port: int) -> str:
    return post(port, b'{"model": "sentiment", "text": "a gem"}')


def silent(port: int) -> str:
    return _held(port, 260, b"")


def half_heads(port: int) -> str:
    return _held(port, 260, HEAD)


def half_bodies(port: int) -> str:
    return _held(port, 260, HEAD + b"Content-Length: 13000000\r\n\r\n", b"x" * 300_000)


ATTACKS: dict[str, Callable[[int], str]] = {
    "13 MB of empty objects as targets": objects,
    "13 MB of opening brackets": nested,
    "a number of 13 million digits": digits,
    "13 MB of escaped quotes, never closed": quotes,
    "a picture of 6300 × 6300 with transparency": picture,
    "a WebP of 38 bytes and 6300 × 6300 pixels": webp,
    "a JPEG of 4 MB that goes over its pixels 60,000 times": scans,
    "a FLAC of 20 kB and 5.8 million samples": sound,
    "100,000 letters in one word, as a figure": one_word,
    "a document of 99,000 full stops to cite from": dots,
    "100 answers of 0.7 MB that nobody reads": unread,
    "260 connections that say nothing": silent,
    "260 halves of a head": half_heads,
    "260 bodies of 13 MB, 300 kB of each sent": half_bodies,
}


def peak(number: int) -> float:
    """The most memory that a process has had, in MB."""
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1000


class Bystander(threading.Thread):
    """Asks how the server is, over and over; the longest wait is kept."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.longest, self.failed, self.over = port, 0.0, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            begun = time.perf_counter()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health", timeout=MOST_SECONDS).close()
            except OSError:
                self.failed += 1
            self.longest = max(self.longest, time.perf_counter() - begun)


def _models(attack: str, folder: Path) -> tuple[str, ...]:
    """Those that the attack is on."""
    more = {"dots": lambda: writer(folder), "sound": lambda: "tones"}.get(ATTACKS[attack].__name__)
    return ("sentiment", "digits", *([more()] if more else []))


def main() -> None:
    print("| attack | answer | seconds | memory, MB more | others waited, ms | not answered |")
    print("|---|---|---|---|---|---|")
    chosen = [name for name in ATTACKS if all(word in name for word in sys.argv[1:])]
    for name in chosen:
        with TemporaryDirectory() as folder, server(models=_models(name, Path(folder) / "writer")) as (port, number):
            _asked(port)
            before = peak(number)
            bystander = Bystander(port)
            bystander.start()
            begun = time.perf_counter()
            said = ATTACKS[name](port)
            seconds = time.perf_counter() - begun
            bystander.over.set()
            bystander.join(MOST_SECONDS)
            more = peak(number) - before
            waits = f"{1000 * bystander.longest:.0f} | {bystander.failed}"
            print(f"| {name} | {said} | {seconds:.1f} | {more:.0f} | {waits} |", flush=True)


if __name__ == "__main__":
    main()
