"""The command `retinue`: which commands there are, and what becomes of errors.

A command's module is loaded when the command is used, so that `retinue --help` does not wait for what it does not need.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from retinue.errors import BadInput, RetinueError

FAILED, USAGE, INTERRUPTED = 1, 2, 130

COMMANDS = {
    "init": ("retinue.cli.init", "Write a small project to begin with."),
    "run": ("retinue.cli.run", "Run something and watch it until it has ended."),
    "chat": ("retinue.cli.chat", "Talk in a thread."),
    "threads": ("retinue.cli.threads", "Look at conversations."),
    "models": ("retinue.cli.models", "Look at models, and fetch local ones."),
    "demo": ("retinue.cli.demo", "See a real model answer in spite of a crash."),
    "worker": ("retinue.cli.worker", "Work on what is queued."),
    "runs": ("retinue.cli.runs", "Look at runs and talk to them."),
    "agents": ("retinue.cli.agents", "Look at the agents of a project, and check them."),
    "graphs": ("retinue.cli.graphs", "Look at the graphs of a project, check and draw them."),
    "approvals": ("retinue.cli.approvals", "Decide and answer what runs wait for."),
    "db": ("retinue.cli.db", "Look after the database."),
    "doctor": ("retinue.cli.doctor", "Say what is set up, what is missing and how to fix it."),
    "version": ("retinue.cli.version", "Say which version this is."),
}
EXAMPLES = """\b
Examples:
  retinue init
  retinue run model:test "Hello"
  retinue run function:shop:order --input-json '{"item": "tea"}'
  retinue worker
  retinue runs list --status failed
  retinue runs explain 3f8k2

Exit codes: 0 completed, 1 failed, 2 usage, 3 waiting, 130 cancelled."""

UsageError = typer.BadParameter.__mro__[1]  # typer has no public names for these two
ClickError: type[Exception] = UsageError.__mro__[1]


class Commands(TyperGroup):
    """The commands by name, each loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(COMMANDS[cmd_name][0]).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"There is no command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXAMPLES,
)


@app.callback()
def retinue(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from. May stand anywhere.")] = False,
) -> None:
    """AI agents and plain async functions as durable background work.

    What you start is stored before it begins, and each step as it happens: a crash loses nothing and repeats nothing.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command that the arguments say, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign gets a question mark
    arguments, debug = _take_debug(sys.argv[1:])
    _set_up_logging(debug=debug)
    code = run(arguments, debug=debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
    sys.exit(code)


def run(arguments: Sequence[str], *, debug: bool = False) -> int:
    """Run a command; give its exit code. Errors become one line each."""
    try:
        command: Any = typer.main.get_command(app)
        with command.make_context("retinue", list(arguments)) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as end:
        return end.exit_code
    except ClickError as error:
        return _refuse(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _fail(error, debug=debug)


def _refuse(error: Any) -> int:
    _say(f"error: {error.format_message()}")
    if context := getattr(error, "ctx", None):
        _say(f"`{context.command_path} --help` shows how it is used.")
    return USAGE


def _fail(error: Exception, *, debug: bool) -> int:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case RetinueError():
            _say(f"error: {' '.join(str(error).split())}")
            return USAGE if isinstance(error, BadInput) else FAILED
        case OSError(filename=str(name), strerror=str(why)):
            _say(f"error: {name}: {why}")
        case _:
            more = "" if debug else " To see where, run again with --debug."
            _say(f"error: unexpected {type(error).__name__}: {' '.join(str(error).split())}.{more}")
    return FAILED


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """`--debug` may stand anywhere: one adds it to a command that has just failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [given for given in arguments[:end] if given != "--debug"]
    return kept + arguments[end:], len(kept) < end


def _abandon_stdout() -> None:
    """Nobody reads it any more: what is left in it must not complain at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Lines(logging.Handler):
    """Log records as lines on whatever is stderr just then; where they come from only with --debug."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info and self.level <= logging.DEBUG:
            traceback.print_exception(*record.exc_info)


def _set_up_logging(*, debug: bool) -> None:
    logging.basicConfig(level=logging.WARNING, handlers=[_Lines(logging.DEBUG if debug else logging.WARNING)])


if __name__ == "__main__":
    main()
