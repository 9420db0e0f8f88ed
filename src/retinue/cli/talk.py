"""A conversation in a terminal: one thread, one leaf at a time, and what can be done with it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import difflib
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from retinue.app import Retinue
from retinue.cli.answer import Answer
from retinue.cli.attend import Rest, say_what_is_left, until_rest
from retinue.cli.database import command, opened
from retinue.cli.decide import Person, decide
from retinue.cli.show import clean, failure, one_line, say, status_code
from retinue.cli.threads import summary, tree_lines
from retinue.core.messages import File, Text
from retinue.core.outcome import Status
from retinue.core.target import Target
from retinue.errors import BadInput, RetinueError
from retinue.service import OnBusy, Request, Said, Say, ThreadMessage
from retinue.service.threads import ROOT

T = TypeVar("T")
WAITING = 3
COMMANDS = {
    "/retry": "have the last answer given anew, beside the one that there is",
    "/fork [MESSAGE]": "go back: what you say next branches off after that message (else before your last question)",
    "/file PATH|URL": "attach a file, a folder, an archive or a page to what you say next",
    "/tree": "show the whole thread, with where you are",
    "/model [NAME]": "who answers from now on; without a name, who answers now",
    "/help": "this",
    "/quit": "end the chat (or Ctrl-D)",
}


class Talk:
    """The loop runs on a thread of its own, so that Ctrl-C comes to whoever waits here, and nothing else stops."""

    def __init__(self, db: str | None, target: str | None, thread: str | None, owner: str) -> None:
        self._db, self._wanted, self._owner = db, thread, owner
        self._target = target
        self._thread_id: str | None = None
        self._leaf: str | None = None
        self._files: list[File] = []
        self.person: Person | None = None
        """Who decides what is asked meanwhile, if somebody sits here."""
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._runner = Thread(target=self._loop.run_forever, name="retinue-chat", daemon=True)

    def __enter__(self) -> Self:
        self._runner.start()
        try:
            self._do(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._do(self._stack.aclose())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._runner.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T], interrupted: Callable[[], None] | None = None) -> T:
        """Wait for something on the loop. Ctrl-C calls `interrupted` and goes on waiting; a second one gives up."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:
                if interrupted is None:
                    future.cancel()
                    raise
                interrupted()
                interrupted = None
            except concurrent.futures.CancelledError:
                raise KeyboardInterrupt from None

    async def _open(self) -> None:
        self._app: Retinue = await self._stack.enter_async_context(opened(self._db, create=True, code=True))
        if self._wanted:
            thread = await self._app.service.threads.named(self._wanted)
            self._thread_id, self._owner = thread.id, thread.owner
            branch = await self._app.service.threads.branch(thread.id)
            self._leaf = branch[-1].id if branch else None
            said_by = [message.participant for message in branch if message.run_id]
            self._target = self._target or (said_by[-1] if said_by else None)
        self._target = self._target or self._app.default_target
        self._app.services.runners.of(Target.parse(self._target)).describe(Target.parse(self._target))

    # At the prompt

    def prompt(self) -> str:
        return "› "

    def greet(self) -> None:
        say((f"{self._target}", "bold"), ("   /help shows what else can be done, Ctrl-D ends", "dim"))

    def bye(self) -> None:
        if self._thread_id:
            say(("  go on later:  ", "dim"), command(f"chat --thread {self._thread_id}", self._db))

    def take(self, line: str) -> int:
        """Do what a line says; the exit code that it would have as a command of its own."""
        try:
            return self._take(line)
        except RetinueError as error:
            say((f"  {' '.join(str(error).split())}", "red"))
            return 2 if isinstance(error, BadInput) else 1
        except KeyboardInterrupt:
            say(("  left as it is", "dim"))
            return 130

    def _take(self, line: str) -> int:
        if not line.startswith("/"):
            return self._ask(self._say(line))
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        match name:
            case "/retry":
                return self._ask(self._retry())
            case "/fork":
                self._do(self._fork(rest))
            case "/file":
                self._do(self._attach(rest))
            case "/tree":
                self._do(self._show_tree())
            case "/model":
                self._do(self._model(rest))
            case "/help":
                for usage, about in COMMANDS.items():
                    say(f"  {usage:16}", (about, "dim"))
            case _:
                names = [usage.partition(" ")[0] for usage in COMMANDS]
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"Did you mean {near[0]}?" if near else "See /help."
                raise BadInput(problem=f"There is no {name}. {hint}")
        return 0

    # What is done

    def _ask(self, saying: Coroutine[Any, Any, Said]) -> int:
        said = self._do(saying)
        (answering,) = said.answers
        self._thread_id = said.thread_id
        run_id = answering.run_id
        answer = Answer(run_id, decides=self.person is not None)
        while self._do(self._listen(run_id, answer), lambda: self._stop(run_id)) is Rest.LEFT:
            if not self._decide(run_id):
                self._do(self._say_what_is_left(run_id))
                return WAITING
        self._leaf = answering.message_id
        return self._do(self._ended(run_id))

    def _stop(self, run_id: str) -> None:
        asyncio.run_coroutine_threadsafe(self._app.service.cancel(run_id, message="Ctrl-C"), self._loop)

    def _decide(self, run_id: str) -> bool:
        """Let whoever sits here decide what is asked. False when nobody does, or nothing is asked."""
        tickets = self._do(self._app.service.tickets(root_id=run_id))
        if self.person is None or not tickets:
            return False
        for ticket in tickets:
            try:
                decide(ticket, self.person, self._close)
            except KeyboardInterrupt:
                self._do(self._app.service.cancel(run_id, message="Ctrl-C"))
                break
            except EOFError:
                say()
                return False
        return True

    def _close(self, ticket_id: str, decision: str, value: object, message: str) -> None:
        self._do(self._app.service.answer(ticket_id, value, decision=decision, message=message))

    async def _say(self, text: str) -> Said:
        return await self._app.service.threads.say(
            Say(
                targets=(self._target or "",),
                parts=(*self._take_files(), Text(text=text)),
                thread_id=self._thread_id,
                parent_id=self._leaf or (ROOT if self._thread_id else None),
                on_busy=OnBusy.QUEUE,
                request=Request(target="", owner=self._owner),
            )
        )

    async def _listen(self, run_id: str, answer: Answer) -> Rest:
        """Work on the answer here, and show it as it comes, until it is there or somebody is asked something."""
        with answer:
            async with self._app.working(root_id=run_id, grace=0):
                rest = await until_rest(self._app, run_id, answer)
            if rest is Rest.ENDED:
                answer.give((await self._app.service.outcome(run_id)).output)
        return rest

    async def _ended(self, run_id: str) -> int:
        outcome = await self._app.service.outcome(run_id)
        if outcome.status is not Status.COMPLETED:
            why = failure(outcome.error) if outcome.error else outcome.reason.value
            say((f"  {outcome.status.value.replace('_', ' ')}: {clean(why)}", "yellow"))
        return status_code(outcome.status)

    async def _say_what_is_left(self, run_id: str) -> None:
        await say_what_is_left(self._app, await self._app.service.run(run_id), as_json=False, db=self._db)

    async def _retry(self) -> Said:
        if self._leaf is None:
            raise BadInput(problem="There is no answer yet.")
        return await self._app.service.threads.regenerate(self._leaf, target=self._target, owner=self._owner)

    async def _fork(self, message: str) -> None:
        messages = await self._messages()
        by_id = {one.id: one for one in messages}
        if message:
            found = [one for one in messages if one.id == message or one.id.endswith(message)]
            if len(found) != 1:
                many = "More than one" if found else "No"
                raise BadInput(problem=f"{many} message ends with {message}: see /tree.")
            at: ThreadMessage | None = found[0]
        else:
            at = by_id.get(self._leaf or "")
            while at is not None and at.run_id:  # an answer: what it answers, and before that
                at = by_id.get(at.parent_id or "")
            at = by_id.get(at.parent_id or "") if at else None
        self._leaf = at.id if at else None
        where = f"after: {one_line(summary(at), 60)}" if at else "at the beginning"
        say((f"  what you say next branches off {where}", "dim"))

    async def _attach(self, source: str) -> None:
        if not source:
            raise BadInput(problem="Say what: a path or a URL.")
        gathered = await self._app.attach(source, owner=self._owner)
        self._files += gathered.parts
        for part in gathered.parts:
            say((f"  {clean(part.name)} ({part.media_type}) goes with what you say next", "dim"))
        for note in gathered.notes:
            say((f"  {clean(note)}", "yellow"))

    def _take_files(self) -> list[File]:
        files, self._files = self._files, []
        return files

    async def _show_tree(self) -> None:
        for line in tree_lines(await self._messages(), self._leaf):
            say("  ", line)

    async def _messages(self) -> list[ThreadMessage]:
        if self._thread_id is None:
            raise BadInput(problem="Nothing was said yet.")
        return await self._app.service.threads.messages(self._thread_id)

    async def _model(self, name: str) -> None:
        if name:
            text = name if name.partition(":")[0] in ("model", "agent", "graph") else f"model:{name}"
            target = Target.parse(text)
            self._app.services.runners.of(target).describe(target)
            self._target = str(target)
        say((f"  {self._target} answers", "dim"))
