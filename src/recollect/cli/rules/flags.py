"""Show the client's cached feature flags: gates and dynamic configs.

Reads the cache below statsig/ in the home; fetches nothing. The cache may store
a gate under the hash of its name; NAME finds it either way. A cache older than
a day has expired; it is shown with a note. The client keeps one cache per user;
--user HASH chooses one, otherwise the newest is shown.

Exit status: 0 the cache is valid, 1 it has expired or is missing, 3 there is no
flag NAME.

Example:
  recollect flags
  recollect flags my_gate
  recollect flags --json
  recollect flags --user 1d2e3f40
"""

from __future__ import annotations

import datetime as dt
import json
from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import output
from recollect.cli.terminal.homes import directories
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.errors import NotFound
from recollect.model.settings.flag_values import looked_up
from recollect.services.documents.settings import FlagsDocument
from recollect.services.settings.flags import FeatureFlags, newest
from recollect.storage.config.flag_cache import flag_cache


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="only this gate or config")
    parser.add_argument("--user", metavar="HASH", help="the cache of this user, by the end of its file name")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    homes = directories(options.homes)
    if not homes:
        raise NotFound("flags: no Claude home was found", hint="name one with --home DIR")
    found = newest([flag_cache(home) for home in homes], dt.datetime.now(dt.UTC), user_hash=options.user)
    gates, configs = _chosen(found, options.name)
    if options.json:
        output.print_json(
            FlagsDocument(
                gates=gates,
                configs=configs,
                age_seconds=found.age_seconds,
                valid=found.valid,
                why=found.why,
                file=found.file,
                user=found.user_hash,
            )
        )
        return 0 if found.valid else 1
    for name, value in gates.items():
        output.say(f"gate    {visible(name)} = {output.styled('on', 'green') if value else 'off'}")
    for name, config in configs.items():
        shown = shortened(visible(json.dumps(config, ensure_ascii=False)), 100)
        output.say(f"config  {visible(name)} = {shown}")
    age = "" if found.age_seconds is None else f", {found.age_seconds / 3600:.1f} h old"
    state = "valid" if found.valid else visible(found.why)
    output.say(f"{counted(len(gates), 'gate')}, {counted(len(configs), 'config')}{age}: {state}")
    return 0 if found.valid else 1


def _chosen(found: FeatureFlags, name: str | None) -> tuple[dict[str, bool], dict[str, object]]:
    if name is None:
        return found.gates, dict(found.configs)
    gate = looked_up(found.gates, name, found.hash_used)
    config = looked_up(found.configs, name, found.hash_used)
    if gate is None and config is None and found.file is not None:
        raise NotFound(f"flag {name!r}: not in {found.file}", hint="`recollect flags` lists all flags")
    return ({} if gate is None else {name: gate}), ({} if config is None else {name: config})
