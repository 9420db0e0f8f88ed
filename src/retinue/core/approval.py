"""What a person decided about a call, and what follows from it: pure.

The value that goes with a decision is `{"arguments": {...}, "remember": true}`, both optional.
"""

from __future__ import annotations

import msgspec

from retinue.core.policy import Action, Decision, Policy, Remembered, decide
from retinue.core.tool import Listed

APPROVED, DENIED, ANSWERED, EXPIRED = "approved", "denied", "answered", "expired"


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What goes with a decision: other arguments (with a refusal: those that would be fine), and whether the decision
    holds for the rest of the run."""

    arguments: dict[str, object] | None = None
    remember: bool = False

    @classmethod
    def of(cls, value: object) -> Approval:
        """Raises `ValueError` for what nobody can have meant."""
        try:
            return cls() if value is None else msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    @property
    def value(self) -> dict[str, object] | None:
        """As it is sent and stored."""
        return msgspec.to_builtins(self) or None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a call that people were asked about. `remembered` is what holds from now on."""

    allowed: bool
    arguments: object
    edited: bool = False
    remembered: tuple[Remembered, ...] = ()
    why: str = ""
    """For the model, when it is refused."""


def settle(
    policy: Policy, tool: Listed, arguments: object, decision: str, value: object = None, message: str = ""
) -> Verdict:
    """What a closed ticket says of the call that it was about.

    A value that makes no sense, and a decision that is none, refuse: nothing is done that nobody approved. Nor is
    an edit a way around a rule that denies. What was said about other calls is left aside: whoever decided about
    this one meant this one, whichever of them was heard first.
    """
    policy = Policy(layers=policy.layers)
    asked = decide(policy, tool, arguments)
    if decision == EXPIRED:
        allowed = (asked.at_expiry if asked.action is Action.ASK else asked.action) is Action.ALLOW
        return Verdict(allowed=allowed, arguments=arguments, why="" if allowed else "nobody decided in time")
    try:
        said = Approval.of(value)
    except ValueError:
        return Verdict(allowed=False, arguments=arguments, why="the decision could not be understood")
    if decision != APPROVED:
        remembered = _remembered(asked, tool, Action.DENY) if said.remember and decision == DENIED else ()
        return Verdict(allowed=False, arguments=arguments, remembered=remembered, why=_refusal(said, message))
    meant = arguments if said.arguments is None else said.arguments
    if decide(policy, tool, meant).action is Action.DENY:
        return Verdict(allowed=False, arguments=arguments, why="the arguments that it was approved with are forbidden")
    return Verdict(
        allowed=True,
        arguments=meant,
        edited=meant != arguments,
        remembered=_remembered(asked, tool, Action.ALLOW) if said.remember else (),
    )


def _remembered(asked: Decision, tool: Listed, action: Action) -> tuple[Remembered, ...]:
    return tuple(Remembered(tool=tool.name, action=action, asked_by=rule) for rule in asked.asking)


def _refusal(said: Approval, message: str) -> str:
    why = f"a person refused it: {message}" if message.strip() else "a person refused it"
    if said.arguments is not None:
        why += f"; these arguments would be fine: {msgspec.json.encode(said.arguments).decode()}"
    return why
