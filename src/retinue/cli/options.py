"""Options that many commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The database; else RETINUE_DATABASE_URL, DATABASE_URL or .retinue/retinue.db.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning or end of it.")]
TicketId = Annotated[str, typer.Argument(metavar="TICKET", help="A ticket's id, or the beginning or end of it.")]
Message = Annotated[str, typer.Option("--message", metavar="TEXT", help="Why.", show_default=False)]
Detach = Annotated[bool, typer.Option("--detach", help="Only store it: a worker runs it.")]
After = Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Begin after this event.")]
Tree = Annotated[bool, typer.Option("--tree", help="Also all that runs below it.")]


def commands(about: str, *lines: str) -> typer.Typer:
    """A group of commands, with examples. Without one of them it says which there are."""
    group = typer.Typer(
        help=about,
        epilog=examples(*lines) if lines else None,
        rich_markup_mode=None,
        add_completion=False,
        invoke_without_command=True,
        context_settings=SETTINGS,
    )

    @group.callback()
    def say_which(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return group


def single() -> typer.Typer:
    """A command of its own."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=SETTINGS)


SETTINGS = {"help_option_names": ["-h", "--help"]}


def examples(*lines: str) -> str:
    """The end of a help text: a line each, as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
