"""Server-sent events: bytes in whatever pieces the network gives them, into the data of each event."""

from __future__ import annotations

LONGEST = 16 * 1024 * 1024
MARK = b"\xef\xbb\xbf"


class EndlessEvent(ValueError):
    """A server that never ends an event."""


class Events:
    """Lines end with LF, CR LF or CR; an event ends with an empty one, and its lines of data belong together."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._started = False
        self._unended: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes."""
        self._held += len(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not self._waits_for_lf():
            self._unended.append(chunk)
            self._check()
            return []
        buffer = b"".join((*self._unended, chunk)) if self._unended else chunk
        # A CR at the very end may be half of a CR LF: it waits for what comes next.
        end = max(buffer.rfind(b"\n"), buffer.rfind(b"\r", 0, -1)) + 1
        self._unended = [buffer[end:]] if end < len(buffer) else []
        found = self._take(buffer[:end])
        self._held = len(buffer) - end + sum(map(len, self._data))
        self._check()
        return found

    def end(self) -> list[bytes]:
        """The data of a last event that the server did not end, as some forget to."""
        rest, self._unended = b"".join(self._unended), []
        return self._take(rest + b"\n\n")

    def _take(self, lines: bytes) -> list[bytes]:
        found, data = [], self._data
        if not self._started and lines:
            self._started, lines = True, lines.removeprefix(MARK)
        for line in lines.splitlines():
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            elif not line:
                if data:
                    found.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line == b"data":
                data.append(b"")
        return found

    def _waits_for_lf(self) -> bool:
        return bool(self._unended) and self._unended[-1].endswith(b"\r")

    def _check(self) -> None:
        if self._held > self._longest:
            raise EndlessEvent(f"one event of more than {self._longest // 1024 // 1024} MiB")
