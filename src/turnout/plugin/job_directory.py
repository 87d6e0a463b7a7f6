"""The directory that jobs share with who submits them (see `job_script`), as it is used from here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Dict, List, Mapping, Sequence, Set, Tuple

from turnout.plugin.job_script import pack
from turnout.plugin.provider import Failure, Handle
from turnout.plugin.pythons import REQUIRE, to_try
from turnout.plugin.transport import ARGUMENTS, SOCKET, Transport, listed

_NO_PROGRAM = 44
_FOLDERS = "orders batches ended cancelled"
#: What nothing happened to for 60 days goes. Directories of agents are looked into only if they look so old.
_TIDY = (
    f"find {_FOLDERS} -type f -mtime +60 -exec rm -f {{}} +; find nodes -mindepth 1 -maxdepth 1 -type d -mtime +60 "
    """-exec sh -c 'for each do [ -n "$(find "$each" -mtime -60 | head -n 1)" ] || """
    """{ chmod -R u+w "$each"; rm -rf "$each"; }; done' sh {} +"""
)
#: $1 = the program's file, if it has to be there already, else its file as it comes, $2 = where that goes.
_UNPACK = (
    f'mkdir -p {_FOLDERS} nodes && {{ [ -n "$2" ] || [ -e "$1" ] || exit {_NO_PROGRAM}; }} && tar xof - && '
    f'{{ [ -z "$2" ] || mv "$1" "$2"; }} || exit 1; {{ {_TIDY}; }} 2>/dev/null; true'
)
_CLEAR = 'here="$PWD"; cd / && chmod -R u+w "$here" && rm -rf "$here"'
#: The tokens of launches whose jobs did not end by themselves, as far as is known here.
_OPEN = 'for each in orders/*.json; do [ -e "$each" ] && basename "$each" .json; done; true'
#: How jobs ended by their own account, and which of them we ended.
_RECORDS = f'{ARGUMENTS}; cd ended && grep -H "" -- "$@" 2>/dev/null; cd ../cancelled && ls -- "$@" 2>/dev/null; true'
_MARK = f'{ARGUMENTS}; mkdir -p cancelled && cd cancelled && touch -- "$@"'
#: $1 = a token: its batches, with its number and how many are in there, and the handles under which it ended.
_TRACES = (
    'grep -lx -- "$1" batches/* 2>/dev/null | while read -r each; do echo "batch ${each#batches/} '
    '$(grep -nx -- "$1" "$each" | cut -d: -f1) $(grep -c "" "$each")"; done; '
    'grep -l "^$1 " ended/* 2>/dev/null | while read -r each; do echo "ended ${each#ended/}"; done; true'
)
#: The arguments are Pythons to try; the relay's order comes by standard input. Nothing happens while one is there.
_RELAY = (
    "command -v flock >/dev/null && ! flock -n relay.lock true && exit 0; program=$(ls -t agent-*.pyz | head -n 1); "
    f"order=$(cat); {REQUIRE}; "
    'printf %s "$order" | PYTHONPATH="$PWD/$program" setsid "$python" -m turnout.agent relay >> relay.log 2>&1 &'
)


@dataclass(frozen=True)
class Record:
    """What a job wrote of its end. `said`: that it was warned, or what went wrong."""

    code: int
    said: str


class JobDirectory:
    """Reached over a transport. Every method may raise as that does."""

    def __init__(self, transport: Transport) -> None:
        self._over = transport

    def bring(self, files: Mapping[str, bytes], name: str, program: bytes) -> None:
        """These files are there, and under its name the program, which is sent only if it was not. Failure when there
        is no room."""
        told = self._over.ask(_UNPACK, name, "", given=pack(files))
        if told.code == _NO_PROGRAM:
            fresh = f"{name}.{min(files).replace('/', '.')}"
            told = self._over.ask(_UNPACK, fresh, name, given=pack({**files, fresh: program}))
        if told.code != 0:
            raise Failure(f"nothing could be put into {self._over.enter()}: {told.complaint}")

    def records(self, handles: Sequence[Handle]) -> Tuple[Dict[Handle, Record], Set[Handle]]:
        """What jobs wrote of their end, and which were cancelled by us."""
        records, cancelled = {}, set()
        for line in self._over.run(_RECORDS, given=listed(handles)).splitlines():
            handle, is_record, text = line.partition(":")
            if is_record:
                _, code, said = text.split(" ", 2)
                records[handle] = Record(int(code), said)
            else:
                cancelled.add(handle)
        return records, cancelled

    def mark_cancelled(self, handles: Sequence[Handle]) -> None:
        """That they are to be ended by us."""
        self._over.run(_MARK, given=listed(handles))

    def traces(self, token: str) -> Tuple[List[Tuple[str, int, int]], List[Handle]]:
        """Of a launch: the batches it is in (name, its number there, how many are in it), and the handles under which
        it ended."""
        batches, ended = [], []
        for kind, name, *numbers in (line.split(" ") for line in self._over.run(_TRACES, token).splitlines()):
            if kind == "batch":
                batches.append((name, int(numbers[0]), int(numbers[1])))
            else:
                ended.append(name)
        return batches, ended

    def open_tokens(self) -> List[str]:
        """The launches whose jobs wait, run, or were ended by somebody else."""
        return self._over.run(_OPEN).split()

    def clear(self) -> None:
        """Nothing of it is left."""
        self._over.run(_CLEAR)

    def check_relay(self, python: str = "") -> None:
        """Failure when there is nothing to run a relay with."""
        self._over.run(REQUIRE, *to_try(python))

    def keep_relay(self, listen: str, identity: str, python: str = "") -> None:
        """A relay is there that listens for nodes, and shows this identity of the hub's."""
        order = {"identity": identity, "listen": listen, "socket": SOCKET}
        self._over.run(_RELAY, *to_try(python), given=json.dumps(order).encode())
