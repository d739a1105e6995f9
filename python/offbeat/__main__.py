# SPDX-License-Identifier: BSD-3-Clause
"""The ``offbeat`` command. It collects the verbs and turns every error into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from offbeat import __version__
from offbeat.commands import help_pages, standard_output
from offbeat.errors import BAD_INPUT, CANNOT_START, FAILED, INTERRUPTED, CommandError, printable

# Packages that a plain installation does not have, and the extra that brings each.
_EXTRA_OF_MODULE = {"plotly": "report", "kaleido": "report", "scipy": "calibrate", "otf2": "otf2"}
# They become another program, whose exit codes are its own.
_VERBS_THAT_START_PROGRAMS = ("run", "trace")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"offbeat {__version__}")
        raise typer.Exit()


def offbeat(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Make MPI collectives fast when ranks do not arrive together, without changing the program.

    `offbeat COMMAND --help` explains a command. --install-completion teaches your shell the options.

    offbeat run -n 4 -- ./program arguments
    offbeat trace -n 4 -o run.trace -- ./program arguments
    offbeat report run.trace
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def make_app(verbs: Sequence[str] = help_pages.ALL_VERBS) -> typer.Typer:
    """The command line with these verbs. To import the modules of all verbs takes 0.1 s."""
    app = help_pages.App(
        name="offbeat",
        cls=help_pages.Verbs,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(offbeat)
    for verb in verbs:
        import_module(f"offbeat.commands.{verb}").register(app)
    return app


def _verbs_needed(words: Sequence[str]) -> Sequence[str]:
    need_all = "_OFFBEAT_COMPLETE" in os.environ or not set(words[:1]) & set(help_pages.ALL_VERBS)
    return help_pages.ALL_VERBS if need_all else words[:1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    standard_output.make_robust()
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = BAD_INPUT
    try:
        code = _run(words)
    finally:
        if code != 0 and _is_evaluated(words):
            print("false")  # so that eval "$(offbeat env ...)" fails, too
    return code


def _is_evaluated(words: Sequence[str]) -> bool:
    """Whether a shell evaluates what the command line prints."""
    options = words[: words.index("--")] if "--" in words else words
    return words[:1] == ["env"] and not {"json", "--json", "--shell=json"} & set(options)


def _run(words: Sequence[str]) -> int:
    try:
        app = make_app(_verbs_needed(words))
        result = app(words, prog_name="offbeat", standalone_mode=False)
        sys.stdout.flush()
    except CommandError as error:
        return _stop(str(error), error.exit_code, words)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA_OF_MODULE:
            raise
        return _stop(
            f"this needs {package}: pip install 'offbeat[{_EXTRA_OF_MODULE[package]}]'", BAD_INPUT, words
        )
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (OSError, MemoryError) as error:  # the machine lacks something: files, memory, processes
        named = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return _stop(f"{named}{why}", FAILED, words)
    except Exception as error:
        # typer's usage errors have no common public base class, but all of them have format_message().
        if not hasattr(error, "format_message"):
            raise
        return _stop(_usage(error, error.format_message()), BAD_INPUT, words)
    return result if isinstance(result, int) else 0


def _usage(error: Exception, text: str) -> str:
    """A usage error of typer in one line, which names the value that is wrong."""
    text = " ".join(text.split())
    # typer checks values by pydantic, whose messages leave the value out.
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return text
    found = details()[0]
    kind, said = str(found["type"]), str(found["msg"])
    value = f"'{found['input']}'"
    if kind.startswith(("float_", "int_")):
        said_better = f"{value} is not a {'whole ' if kind.startswith('int_') else ''}number"
    else:
        said_better = said.removeprefix("Value error, ")
        if value not in said_better:
            said_better = f"{value}: {said_better}"
    return text.replace(said, said_better)


def _stop(message: str, exit_code: int, words: Sequence[str]) -> int:
    print(f"offbeat: {printable(message)}", file=sys.stderr)
    return CANNOT_START if words and words[0] in _VERBS_THAT_START_PROGRAMS else exit_code


if __name__ == "__main__":
    sys.exit(main())
