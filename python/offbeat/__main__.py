# SPDX-License-Identifier: BSD-3-Clause
"""The ``offbeat`` command. It collects the verbs and turns every error into one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from offbeat import __version__
from offbeat.commands import COMMANDS, standard_output
from offbeat.errors import BAD_INPUT, CommandError, printable

# Packages that only some commands need, and the extra that has them. A plain installation does not have them.
_EXTRAS = {"numpy": "report", "plotly": "report", "kaleido": "report", "scipy": "calibrate"}

app = typer.Typer(
    name="offbeat",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"offbeat {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def offbeat(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Make MPI collectives fast when ranks do not arrive together, without changing the program."""
    if context.invoked_subcommand is None:
        print(context.get_help())


for _command in COMMANDS:
    _command.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    standard_output.make_robust()
    try:
        result = app(
            list(sys.argv[1:] if arguments is None else arguments), prog_name="offbeat", standalone_mode=False
        )
        sys.stdout.flush()
    except CommandError as error:
        return _stop(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        return _stop(f"this needs {package}: pip install 'offbeat[{_EXTRAS[package]}]'", BAD_INPUT)
    except typer.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # typer's usage errors have no common public base class, but all of them have format_message().
        if not hasattr(error, "format_message"):
            raise
        return _stop(" ".join(error.format_message().split()), BAD_INPUT)
    return result if isinstance(result, int) else 0


def _stop(message: str, exit_code: int) -> int:
    print(f"offbeat: {printable(message)}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
