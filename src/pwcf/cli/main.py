"""``pwcf``: a command is a file in ``commands``, which imports what it needs when it runs: ``pwcf show`` is quick."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import pwcf
from pwcf._common.errors import UserError
from pwcf._common.text import brief, one_line, printable
from pwcf.cli import commands
from pwcf.cli.console import INTERRUPTED

CLOSED = 141
"""exit code where nobody reads on: 128 + SIGPIPE, as shells have it for programs that this signal ends"""
TRACEBACK = "PWCF_TRACEBACK"
"""a variable: where an unforeseen error came from is shown"""

app = typer.Typer(
    name="pwcf",
    help="How robust is a classifier really?",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in commands.modules():
    module.add_to(app)


@app.callback()
def _front(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=lambda v: _version(v)),
    ] = False,
) -> None:
    """How robust is a classifier really?"""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pwcf {pwcf.__version__}")
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return the exit code.

    0: done. 1: done, and something is wrong (points that do not hold, a failed check). 2: it cannot be done as asked.
    130: Ctrl-C. 141: whoever read the output has gone, as ``head`` does.
    """
    if sys.stdout is None:  # closed by who started this
        sys.stdout = io.StringIO()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()  # here, where it can be answered: what is left would be written as Python ends
    except BrokenPipeError:
        _drop_output()
        return CLOSED
    except OSError as error:  # a full disk
        _drop_output()
        return _say(_sentence(error), 2)
    return code


def _drop_output() -> None:
    """What is left to be printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _run(words: list[str]) -> int:
    try:
        code = app(words, standalone_mode=False)
    except BrokenPipeError:
        raise
    except SystemExit as end:  # how other libraries end a command, a good one too
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except GeneratorExit:
        return _say("the user's own code raised GeneratorExit; let it raise an error, or return", 2)
    except Exception as error:
        if type(error).__name__ == "Abort":  # what the library makes of Ctrl-C
            return _say("interrupted", INTERRUPTED)
        if type(error).__name__ == "NoArgsIsHelpError":
            return 2  # the help was shown
        return _say(_sentence(error), 2)
    return code if isinstance(code, int) else 0


def _sentence(error: Exception) -> str:
    """One line. What nobody has foreseen is named by its kind."""
    if isinstance(error, UserError):
        text = str(error)
    elif hasattr(error, "format_message"):  # a word that is no option, a value that is no number
        text = f"{error.format_message()} ({_help(getattr(error, 'ctx', None))})"
    elif isinstance(error, OSError) and error.filename and error.strerror:  # a name too long, a disk that fails
        text = f"{brief(str(error.filename))}: {error.strerror}; check the name and the disk"
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        text = "standard output cannot be written to: the disk is full; free some space"
    else:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        text = f"{type(error).__name__}: {one_line(error)} ({TRACEBACK}=1 shows where)"
    return " ".join(text.split())


def _help(context: Any) -> str:
    """Where the options are explained: those of a command by its own help."""
    return f"pwcf {context.info_name} --help" if getattr(context, "parent", None) else "pwcf --help"


def _say(sentence: str, code: int) -> int:
    with contextlib.suppress(OSError):  # nobody can be told; the exit code says it
        print(f"pwcf: {printable(sentence)}", file=sys.stderr, flush=True)
    return code
