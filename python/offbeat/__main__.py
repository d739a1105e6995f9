# SPDX-License-Identifier: BSD-3-Clause
"""The ``offbeat`` command. It turns every error into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from offbeat.commands import standard_output
from offbeat.commands.root import ROOT
from offbeat.errors import BAD_INPUT, CANNOT_START, FAILED, INTERRUPTED, CommandError, printable

# Packages that a plain installation does not have, and the extra that brings each.
_EXTRA_OF_MODULE = {"plotly": "report", "kaleido": "report", "scipy": "calibrate", "otf2": "otf2"}
# They become another program, whose exit codes are its own.
_VERBS_THAT_START_PROGRAMS = ("run", "trace")


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
        if "_OFFBEAT_COMPLETE" in os.environ:
            from offbeat.commands import shell_completion

            print(*shell_completion.completions(ROOT, words), sep="\n")
            return 0
        code = ROOT.call(words)
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
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OSError, MemoryError) as error:  # the machine lacks something: files, memory, processes
        named = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return _stop(f"{named}{why}", FAILED, words)
    return code


def _stop(message: str, exit_code: int, words: Sequence[str]) -> int:
    print(f"offbeat: {printable(message)}", file=sys.stderr)
    return CANNOT_START if words and words[0] in _VERBS_THAT_START_PROGRAMS else exit_code


if __name__ == "__main__":
    sys.exit(main())
