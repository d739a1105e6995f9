# SPDX-License-Identifier: BSD-3-Clause
"""What a shell completes. It calls offbeat with VARIABLE and the words up to the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from offbeat.commands.command_line import Command, Group, Parameter
from offbeat.errors import CommandError

VARIABLE = "_OFFBEAT_COMPLETE"
# Each falls back to the names of files.
_SCRIPTS = {
    "bash": f"""\
_offbeat() {{ local IFS=$'\\n'; \
COMPREPLY=($({VARIABLE}=1 "$1" "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)); }}
complete -o default -F _offbeat offbeat""",
    "zsh": f"""\
_offbeat() {{ local found=(${{(f)"$({VARIABLE}=1 ${{words[1]}} "${{(@)words[2,CURRENT]}}" 2>/dev/null)"}}); \
if (( $#found )); then compadd -a found; else _files; fi; }}
compdef _offbeat offbeat""",
    "fish": f"""\
complete -c offbeat -a '({VARIABLE}=1 offbeat (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'""",
}


def script(shell: str) -> str:
    """What teaches a shell to complete."""
    if shell not in _SCRIPTS:
        raise CommandError(f"--show-completion {shell}: write one of {', '.join(_SCRIPTS)}")
    return _SCRIPTS[shell]


def completions(command: Command, words: Sequence[str]) -> list[str]:
    """How the last of these words may go on."""
    *before, begun = words or [""]
    if isinstance(command, Group):
        verb = next((index for index, word in enumerate(before) if not word.startswith("-")), None)
        if verb is not None:
            return completions(command.named([before[verb]])[0], [*before[verb + 1 :], begun])
        if not begun.startswith("-"):
            return _beginning(begun, command.names)
    waiting = command.option(before[-1]) if before else None
    if waiting is not None and waiting.takes_value:
        return _values(waiting, begun)
    if begun.startswith("-"):
        return _beginning(begun, [spelling for each in command.options for spelling in each.spellings])
    return [value for argument in command.arguments for value in _values(argument, begun)]


def _values(parameter: Parameter, begun: str) -> list[str]:
    complete = parameter.declared.complete
    return list(complete(begun)) if complete is not None else _beginning(begun, parameter.choices)


def _beginning(begun: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(begun)]
