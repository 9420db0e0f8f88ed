"""What a run asks in the middle of a conversation, decided by whoever sits there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from retinue.cli.show import asks, clean, facts, one_line, say
from retinue.core.approval import ANSWERED, APPROVED, DENIED, Approval
from retinue.errors import BadInput
from retinue.service import TicketRow

LONGEST_ARGUMENT = 1000
HOW = "yes, no, always, other arguments as JSON; anything else refuses it in your words"

Person = Callable[[str], str]
"""Gives what somebody types after a prompt."""
Close = Callable[[str, str, object, str], None]
"""Closes a ticket: its id, the decision, the value, the message."""


def decide(ticket: TicketRow, person: Person, close: Close) -> None:
    """Ask until there is an answer that makes sense."""
    approval = ticket.kind == "approval"
    say(("  " + asks(ticket), "bold"))
    facts((f"  {name}", text) for name, text in arguments(msgspec.json.decode(ticket.data).get("arguments")))
    if approval:
        say((f"    {HOW}", "dim"))
    while True:
        text = person("  decide › " if approval else "  answer › ").strip()
        if not text:
            continue
        try:
            decision, value, message = _meant(text) if approval else (ANSWERED, as_asked(ticket, text), "")
            close(ticket.id, decision, value, message)
            return
        except BadInput as error:
            say((f"  {' '.join(str(error).split())}", "red"))


def _meant(text: str) -> tuple[str, object, str]:
    """A decision, what goes with it, and the words to it. What is not clearly a yes is a no."""
    match text.lower():
        case "y" | "yes":
            return APPROVED, None, ""
        case "a" | "always":
            return APPROVED, Approval(remember=True).value, ""
        case "n" | "no":
            return DENIED, None, ""
    if text.startswith("{"):
        try:
            return APPROVED, Approval(arguments=msgspec.json.decode(text, type=dict[str, object])).value, ""
        except (msgspec.DecodeError, UnicodeError) as error:
            raise BadInput(problem=f"These arguments are no JSON: {error}.") from None
    return DENIED, None, text


def as_asked(ticket: TicketRow, text: str) -> object:
    """What is typed as text may be meant as a number, a list and so on: what the ticket's schema asks for decides."""
    asked = (msgspec.json.decode(ticket.data).get("schema") or {}).get("type", "string")
    if asked == "string" or (isinstance(asked, list) and "string" in asked):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def arguments(given: object) -> Iterator[tuple[str, str]]:
    """One a line. What is cut says so: nobody should approve what they have not seen."""
    named = given if isinstance(given, dict) else {} if given is None else {"with": given}
    for name, value in named.items():
        text = one_line(value, LONGEST_ARGUMENT)
        more = " (cut; --json shows all)" if text.endswith("…") else ""
        yield clean(str(name)), (text or '""') + more
