"""Everything that Retinue raises.

    RetinueError
    ├── BadInput                what was asked cannot be done as it was said; nothing was stored
    │   ├── UnknownRun  UnknownTicket  UnknownTarget  UnknownThread  UnknownMessage  BrokenThread
    │   ├── UnknownModel  KeyMissing    nothing answers to that name; its key is not set
    │   ├── BadFile  BadAddress     a file or URL that is not taken, and why
    │   ├── BadSettings             a settings file is wrong, and where
    │   ├── BadDefinition           an agent is declared wrongly, and where
    │   ├── BadTemplate  NamesMissing   a template is wrong, or needs more than it is given
    │   ├── WrongInput              the input is not what the target takes
    │   ├── ThreadBusy              the branch has a run under way, and on_busy is reject
    │   ├── BadTarget           the target exists and is not something that can run
    │   ├── NotStorable         a value that JSON cannot hold
    │   ├── IdempotencyConflict the same key, another request
    │   ├── AmbiguousId             several ids begin or end like that
    │   ├── ExtraMissing            an optional package that is needed is not installed
    │   ├── RunEnded  TicketEnded  ChildRefused
    │   └── NotSupported        the target's platform cannot do what was asked
    ├── StoreError              the database said no
    │   ├── DatabaseMissing  NotADatabase  DatabaseReadOnly  DatabaseFull
    │   ├── DatabaseLocked  DatabaseNewer  DatabaseUnavailable
    │   ├── FileMissing  FilesUnavailable   a stored file, or all of them
    │   └── StoreClosed
    ├── PullFailed              a local model was not fetched
    ├── JournalError
    │   ├── Fenced              somebody else has claimed the run: stop at once
    │   ├── IllegalEvent        the event cannot follow what is recorded
    │   └── NewerEvent          a newer release has written an event that this one does not know
    ├── ModelError              a model gave no answer
    │   ├── ModelRefused            the caller's mistake: neither retried nor counted against the model
    │   ├── ModelBusy               too many requests, or no quota: later
    │   ├── ModelUnavailable        it cannot be reached, or says that it is broken
    │   ├── ModelBroken             its answer makes no sense, or broke off
    │   └── CircuitOpen             it failed too often just now; nobody asks it for a while
    ├── ToolFailed              a tool says that it failed, in words for the model
    └── RunError                what the code of a run sees
        ├── StepFailed  ChildFailed  TicketRefused
        ├── OutcomeUnknown      a write step was interrupted and nobody can tell whether it took effect
        └── RuleBroken          the code broke a rule of durable functions: the run ends as failed/invalid
            └── ReplayMismatch  NestedStep  ParkedSwallowed

An exception's docstring is its message; the facts in it are attributes. Waiting, cancelling and
retrying are outcomes, not errors: `Unwind` and its kinds are how code is left that does not go on here.
"""

from __future__ import annotations


class RetinueError(Exception):
    """Something went wrong."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(" ".join((type(self).__doc__ or "").split()).format(**facts))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.facts)


def _rebuild(kind: type[RetinueError], facts: dict[str, object]) -> RetinueError:
    return kind(**facts)


class BadInput(RetinueError):
    """{problem}"""

    problem: str


class UnknownRun(BadInput):
    """There is no run {run_id}. `retinue runs list` shows those that exist."""

    run_id: str


class AmbiguousId(BadInput):
    """{given} is the beginning or the end of several ids: {found}. Say more of it."""

    given: str
    found: str


class ExtraMissing(BadInput):
    """{what} needs packages that are not installed: pip install 'retinue[{extra}]'"""

    what: str
    extra: str


class UnknownTicket(BadInput):
    """There is no ticket {ticket_id}. `retinue approvals list` shows the open ones."""

    ticket_id: str


class UnknownTarget(BadInput):
    """Nothing answers to {target}: {problem}"""

    target: str
    problem: str


class UnknownThread(BadInput):
    """There is no thread {thread_id}. `retinue threads list` shows those that exist."""

    thread_id: str


class UnknownMessage(BadInput):
    """There is no message {message_id} in thread {thread_id}. `retinue threads show` has those that are there."""

    message_id: str
    thread_id: str


class BrokenThread(BadInput):
    """The branch of message {message_id} cannot be read: {problem}"""

    message_id: str
    problem: str


class ThreadBusy(BadInput):
    """Run {run_id} is under way on this branch. Wait for it, or say on_busy queue, interrupt or parallel."""

    run_id: str


class UnknownModel(BadInput):
    """There is no model {name}: {problem}"""

    name: str
    problem: str


class KeyMissing(BadInput):
    """{name} needs a key: set {variable}, or `api_key` under [providers.{provider}] in retinue.toml."""

    name: str
    provider: str
    variable: str


class BadFile(BadInput):
    """{name} cannot be used: {problem}"""

    name: str
    problem: str


class BadAddress(BadInput):
    """{url} is not fetched: {problem}"""

    url: str
    problem: str


class BadSettings(BadInput):
    """{where}: {problem}"""

    where: str
    problem: str


class BadDefinition(BadInput):
    """{what} is not declared rightly: {problem}"""

    what: str
    problem: str


class BadTemplate(BadInput):
    """A template cannot be used: {problem} (line {line})."""

    problem: str
    line: int


class NamesMissing(BadInput):
    """A template needs what is not there: {missing}. There is only: {available}."""

    missing: str
    available: str


class WrongInput(BadInput):
    """{target} does not take this input: {problem}"""

    target: str
    problem: str


class BadTarget(BadInput):
    """{target} cannot run: {problem}"""

    target: str
    problem: str


class NotStorable(BadInput):
    """{what} cannot be stored as JSON: {problem}. Use strings, numbers,
    booleans, None, lists and dicts with string keys."""

    what: str
    problem: str


class IdempotencyConflict(BadInput):
    """The idempotency key {key} was used for another request (run {run_id}). Use a new key, or send
    the same request."""

    key: str
    run_id: str


class RunEnded(BadInput):
    """Run {run_id} is already {status}; it takes no more signals. Retry or fork it to go on."""

    run_id: str
    status: str


class TicketEnded(BadInput):
    """Ticket {ticket_id} is already closed ({decision})."""

    ticket_id: str
    decision: str


class ChildRefused(BadInput):
    """Run {run_id} may start no child: {problem}"""

    run_id: str
    problem: str


class NotSupported(BadInput):
    """{target} runs on the platform {platform}, which cannot {ability}."""

    target: str
    platform: str
    ability: str


class StoreError(RetinueError):
    """The database failed: {problem}"""

    problem: str


class DatabaseMissing(StoreError):
    """There is no database at {url}: {problem}. Check the folder or the URL."""

    url: str
    problem: str


class NotADatabase(StoreError):
    """{url} is not a Retinue database: {problem}. Point RETINUE_DATABASE_URL at another file."""

    url: str
    problem: str


class DatabaseReadOnly(StoreError):
    """The database {url} cannot be written: {problem}. Check the permissions: of the file and
    its folder, or of the user that connects."""

    url: str
    problem: str


class DatabaseFull(StoreError):
    """The database {url} has no room: {problem}. Free some disk space; what was accepted before is safe."""

    url: str
    problem: str


class DatabaseLocked(StoreError):
    """The database {url} was locked by another process for {seconds} s. Find the process that holds it."""

    url: str
    seconds: float


class DatabaseNewer(StoreError):
    """The database {url} has schema {found}, this Retinue knows up to {known}. Upgrade Retinue."""

    url: str
    found: str
    known: str


class DatabaseUnavailable(StoreError):
    """The database {url} cannot be reached: {problem}"""

    url: str
    problem: str


class FileMissing(StoreError):
    """The stored file {uri} is not there any more. Restore it, or retry the run with --fresh."""

    uri: str


class FilesUnavailable(StoreError):
    """The file store {place} cannot be used: {problem}"""

    place: str
    problem: str


class StoreClosed(StoreError):
    """The store is closed."""


class PullFailed(RetinueError):
    """{name} was not pulled: {problem}"""

    name: str
    problem: str


class JournalError(RetinueError):
    """The journal refused an event."""


class Fenced(JournalError):
    """Run {run_id} is no longer held by attempt {attempt}: another worker has it, or it has ended."""

    run_id: str
    attempt: int


class IllegalEvent(JournalError):
    """Event {seq} ({type}) cannot follow: {problem}"""

    seq: int
    type: str
    problem: str


class NewerEvent(JournalError):
    """Run {run_id} has an event of a newer release: {type}. Upgrade Retinue here too."""

    run_id: str
    type: str


class ModelError(RetinueError):
    """{model} gave no answer: {problem}"""

    model: str
    problem: str
    too_late: bool = False
    """It would have been tried again, but for the deadline of the request."""


class ModelRefused(ModelError):
    """{model} refused the request: {problem}"""


class ModelBusy(ModelError):
    """{model} takes no more requests now: {problem}"""

    retry_after: float | None = None
    no_quota: bool = False
    """What was paid for is used up: trying again is of no use."""


class ModelUnavailable(ModelError):
    """{model} cannot be reached: {problem}"""

    retry_after: float | None = None


class ModelBroken(ModelError):
    """{model} gave an answer that makes no sense: {problem}"""


class CircuitOpen(ModelError):
    """{model} failed too often just now and is left alone for {retry_after} s more. The last problem: {problem}"""

    retry_after: int


class ToolFailed(RetinueError):
    """{message}"""

    message: str

    def __init__(self, message: str) -> None:
        super().__init__(message=message)


class RunError(RetinueError):
    """The run cannot go on."""


class StepFailed(RunError):
    """Step {call_id} failed: {kind}: {message}"""

    call_id: str
    kind: str
    message: str


class OutcomeUnknown(RunError):
    """Step {call_id} was interrupted and may or may not have taken effect (idempotency key {key}).
    Declare effect="idempotent" if repeating is safe, or give the step a check."""

    call_id: str
    key: str


class ChildFailed(RunError):
    """Child {run_id} ({call_id}) ended as {status}/{reason}: {message}"""

    call_id: str
    run_id: str
    status: str
    reason: str
    message: str


class TicketRefused(RunError):
    """Ticket {ticket_id} ({call_id}) was closed without an answer: {decision}"""

    call_id: str
    ticket_id: str
    decision: str


class RuleBroken(RunError):
    """{problem}"""

    problem: str


class ReplayMismatch(RuleBroken):
    """Step {call_id} was recorded with {recorded} and is now called with {called}. What steps are given must
    follow from the input and from earlier steps; did the code change, or does it read the clock or
    chance outside a step?"""

    call_id: str
    recorded: str
    called: str


class NestedStep(RuleBroken):
    """Step {call_id} was called inside step {outer}. A step is one unit: call it from the function itself."""

    call_id: str
    outer: str


class ParkedSwallowed(RuleBroken):
    """The code went on after it was parked ({where}). Let Parked pass: do not catch BaseException,
    and do not use ctx in finally."""

    where: str


class Unwind(BaseException):
    """Raised through a run's code to leave it; the code is replayed later. Never catch it."""


class Parked(Unwind):
    """The run waits: it is left now and goes on when what it waits for is there."""


class Released(Unwind):
    """The worker lets the run go: another one goes on with it."""


class Lost(Unwind):
    """The journal can not be written any more: what this attempt does counts no longer."""
