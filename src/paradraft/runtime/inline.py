"""An engine on a thread of its own, behind the port that servers know."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ParadraftError
from paradraft.core.events import TokenEvent
from paradraft.core.ports import Clock, Tokenizer
from paradraft.core.requests import Request
from paradraft.core.serving import Deliver, EngineSnapshot, Health, ServedModel
from paradraft.engine.engine import Engine
from paradraft.runtime.endings import STOPPED, endings, stopped


@dataclass(frozen=True, slots=True)
class _Add:
    request: Request


@dataclass(frozen=True, slots=True)
class _Cancel:
    request_id: str


@dataclass(frozen=True, slots=True)
class _Snapshot:
    answer: Future[EngineSnapshot] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Embed:
    texts: Sequence[Sequence[int]]
    answer: Future[list[FloatArray]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


_Command = _Add | _Cancel | _Snapshot | _Embed | _Stop


class InlineService:
    """Implements core.serving.Service. The engine belongs to its thread; everybody else sends commands.

    Commands are taken between two steps: a step waits for no lock, and a request meets the engine at rest. on_close
    frees what the engine runs on, after the thread has ended.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        model: ServedModel,
        tokenizer: Tokenizer,
        clock: Clock = time.monotonic,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._engine = engine
        self._clock = clock
        self._on_close = on_close
        self._commands: SimpleQueue[_Command] = SimpleQueue()
        self._open: dict[str, set[int]] = {}  # choices whose last event is still to come, by request
        self._gate = threading.Lock()  # no command is put behind the thread's back while it ends
        self._thread: threading.Thread | None = None
        self._deliver: Deliver = lambda _: None
        self._has_ended = False
        self._is_busy = False
        self._progress_at = clock()
        self._failure: str | None = None
        self._last_snapshot = EngineSnapshot()

    def start(self, deliver: Deliver) -> None:
        """Begin to step; see Service."""
        self._deliver = deliver
        self._thread = threading.Thread(target=self._run, name="paradraft-engine", daemon=True)
        self._thread.start()

    def check(self, request: Request) -> None:
        """Raise RequestRefused if the request can never be served. Reads nothing that a step writes."""
        self._engine.check(request)

    def submit(self, request: Request) -> None:
        """Queue a request; where the engine has ended its choices end with an error at once."""
        if not self._send(_Add(request)):
            self._deliver(endings(request.request_id, range(request.params.n), self._failure or STOPPED))

    def cancel(self, request_id: str) -> None:
        """End a request between this step and the next."""
        self._send(_Cancel(request_id))

    def embed(self, texts: Sequence[Sequence[int]]) -> Future[list[FloatArray]]:
        """Queue texts to be embedded; see Service."""
        self._engine.embedder.check(texts)
        asked = _Embed(texts)
        if not self._send(asked):
            asked.answer.set_exception(stopped(self._failure))
        return asked.answer

    def health(self) -> Health:
        """Return whether steps end."""
        is_busy = self._is_busy or not self._commands.empty()
        return Health(
            is_alive=self._thread is not None and self._thread.is_alive() and not self._has_ended,
            has_work=is_busy,
            seconds_since_progress=max(0.0, self._clock() - self._progress_at) if is_busy else 0.0,
            failure=self._failure,
        )

    def snapshot(self, timeout: float = 1.0) -> EngineSnapshot:
        """Return the engine's state between two steps, or the last one known where that takes too long."""
        asked = _Snapshot()
        if self._send(asked):
            try:
                self._last_snapshot = asked.answer.result(timeout)
            except NotInTime:
                return self._last_snapshot
        return self._last_snapshot

    def close(self, timeout: float) -> None:
        """End what runs, stop the thread and free the engine; where a step hangs its memory stays."""
        self._send(_Stop())
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return
        self._on_close()

    def _send(self, command: _Command) -> bool:
        with self._gate:
            if not self._has_ended:
                if not self._is_busy and self._commands.empty():
                    self._progress_at = self._clock()  # the thread rested; the command does not wait since then
                self._commands.put(command)
            return not self._has_ended

    def _run(self) -> None:
        try:
            while self._take_commands():
                self._tell(self._engine.step())
                self._progress_at = self._clock()
            self._abort_all()
        except Exception as error:  # noqa: BLE001 - nobody is above this thread: whatever ends it has to be told here
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            self._end()

    def _take_commands(self) -> bool:
        """Carry out the commands that wait, and wait for more while there is nothing to step; False: to end."""
        while True:
            self._is_busy = self._engine.has_work
            try:
                command = self._commands.get(block=not self._is_busy)
            except Empty:
                return True
            if not self._is_busy:  # work begins now: what came before was rest, not a stall
                self._progress_at = self._clock()
            if isinstance(command, _Stop):
                return False
            self._carry_out(command)

    def _carry_out(self, command: _Add | _Cancel | _Snapshot | _Embed) -> None:
        match command:
            case _Add(request):
                self._add(request)
            case _Cancel(request_id):
                self._tell(self._engine.abort(request_id))
            case _Snapshot(answer):
                answer.set_result(self._engine.snapshot())
            case _Embed(texts, answer):
                self._engine.embedder.add(texts, answer)

    def _add(self, request: Request) -> None:
        choices = self._open.setdefault(request.request_id, set())
        is_new = not choices
        choices.update(range(request.params.n) if is_new else ())  # before the engine: should it die, they are told
        try:
            self._engine.add(request)
        except ParadraftError as error:
            if is_new:
                del self._open[request.request_id]
            self._deliver(endings(request.request_id, range(request.params.n), str(error)))

    def _tell(self, events: list[TokenEvent]) -> None:
        for event in events:
            if event.finish_reason is not None:
                self._close_choice(event)
        if events:
            self._deliver(events)

    def _close_choice(self, event: TokenEvent) -> None:
        choices = self._open.get(event.request_id, set())
        choices.discard(event.index)
        if not choices:
            self._open.pop(event.request_id, None)

    def _abort_all(self) -> None:
        for request_id in list(self._open):
            self._tell(self._engine.abort(request_id))

    def _end(self) -> None:
        """Give a last event to everybody who has had none: those who run, and those whose command came too late."""
        with self._gate:
            self._has_ended = True
        self._is_busy = False
        why = self._failure or STOPPED
        for request_id, choices in self._open.items():
            self._deliver(endings(request_id, sorted(choices), why))
        self._open.clear()
        self._engine.embedder.fail_all(stopped(self._failure))
        while not self._commands.empty():
            match self._commands.get():
                case _Add(request):
                    self._deliver(endings(request.request_id, range(request.params.n), why))
                case _Snapshot(answer):
                    answer.set_result(self._last_snapshot)
                case _Embed(_, embeddings):
                    embeddings.set_exception(stopped(self._failure))
