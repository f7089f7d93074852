"""The commands below ``team`` that send and fetch: sessions to and from a team server."""

from __future__ import annotations

import datetime as dt
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path

from recollect.agents.homes import kept_out
from recollect.cli import sync_login
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import add_apply, add_json, add_session, command, flag, option, own_data
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import counted, shortened, size, visible
from recollect.errors import Busy, UsageError
from recollect.model.text import timespan
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.install import Installer, InstallPlan, installed_instead
from recollect.share.sync.pull import Pull
from recollect.share.sync.push import Push, PushResult
from recollect.share.sync.sync import SyncClient, session_named
from recollect.share.sync.wire import ends_soon
from recollect.store.home import ClaudeHome
from recollect.store.own_settings import SyncLogin, load_login, login_file
from recollect.system.paths import CLAUDE

_SHOWN = 20
_EVERY, _SHORTEST = 5.0, 0.2


def add_login_options(parser: ArgumentParser) -> None:
    parser.add_argument("address", metavar="URL", help="the server")
    parser.add_argument(
        "--sso",
        nargs="?",
        const="",
        metavar="ORGANISATION",
        help="sign in at the organisation's identity provider",
    )
    parser.add_argument("--machine", metavar="NAME", help="name of this machine on the server")
    flag(parser, "--plain-http", "allow a token over unencrypted http")
    flag(parser, "--no-redact", "send secrets unchanged from now on")
    flag(parser, "--encrypt", "encrypt from now on, with a key that stays here")
    add_json(parser)


def add_push_options(parser: ArgumentParser) -> None:
    add_session(parser, "*")
    flag(parser, "--no-redact", "do not replace secrets")
    flag(parser, "--encrypt", "encrypt with a key that stays here")
    add_json(parser)


def add_pull_options(parser: ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="ID", nargs="*", help="with --into-home: only these sessions")
    flag(parser, "--mine", "only sessions that you created")
    parser.add_argument("--repo", metavar="NAME", help="only of this repository (host/owner/name)")
    parser.add_argument("--since", metavar="DATE", help="only those that changed since then")
    parser.add_argument("--session", metavar="ID", help="only this session, by its id or the beginning")
    flag(parser, "--into-home", "also into the Claude home, for `claude --resume`")
    parser.add_argument(
        "--directory", metavar="DIR", type=Path, help="with --into-home: the sessions' directory here"
    )
    add_apply(parser)


def add_status_options(parser: ArgumentParser) -> None:
    add_json(parser)


def add_watch_options(parser: ArgumentParser) -> None:
    flag(parser, "--no-redact", "do not replace secrets")
    flag(parser, "--encrypt", "encrypt with a key that stays here")
    parser.add_argument(
        "--every",
        type=float,
        default=_EVERY,
        metavar="SECONDS",
        help=f"time between checks (default {_EVERY:g})",
    )


def add_rotate_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--overlap",
        type=int,
        default=24,
        metavar="HOURS",
        help="how long the old token still works (default 24)",
    )
    add_json(parser)


def add_tokens_options(parser: ArgumentParser) -> None:
    add_json(parser)


def add_revoke_options(parser: ArgumentParser) -> None:
    parser.add_argument("token", metavar="TOKEN", help="its id, or the beginning of it")


def _exchange(options: Namespace) -> SyncClient:
    login = load_login()
    warn_of_expiry(login)
    return SyncClient(login, own_data(options))


def warn_of_expiry(login: SyncLogin) -> None:
    """Tell the owner of a token that it ends soon. The end is known from the login: nothing is asked."""
    if login.expires is None:
        return

    now = time.time_ns() // 1_000_000
    if not ends_soon(login.expires, now):
        return
    days = (login.expires - now) // 86_400_000
    when = (
        "has expired"
        if login.expires <= now
        else f"expires in {counted(days, 'day')}"
        if days
        else "expires today"
    )
    step = "`recollect team login` again" if login.expires <= now else "`recollect team rotate` replaces it"
    output.note(f"your token {when}: {step}")


def _homes(options: Namespace) -> list[Path]:
    return [home.path for home in chosen_homes(options.homes) if home.exists]


def run_push(options: Namespace) -> int:
    exchange = _exchange(options)
    only = None
    if options.sessions:
        home = open_home(options.homes)
        only = [home.own_session(word).id for word in options.sessions]
    push = Push(
        exchange,
        _homes(options),
        redact=exchange.login.redact and not options.no_redact,
        encrypt=exchange.login.encrypt or options.encrypt,
    )
    with output.progress_bar("sending") as progress:
        done = push.run(only, progress)
    if options.json:
        output.print_json(done)
    else:
        _say_pushed(done)
    return 1 if done.problems else 0


def _say_pushed(done: PushResult) -> None:
    if not done.sessions and not done.problems:
        output.say("Nothing new to send.")
    else:
        sent = f"{counted(done.lines, 'line')}, {counted(done.files, 'file')}, {size(done.bytes)}"
        output.say(f"Sent {counted(done.sessions, 'session')}: {sent}.")
    if done.replaced:
        output.note(f"{counted(done.replaced, 'secret')} replaced; --no-redact sends them unchanged")
    if done.denied:
        output.note(f"{counted(done.denied, 'session')} not sent, because of allow or deny in config.toml")
    for session, branch in done.branches:
        output.note(
            f"{session} was also continued elsewhere; this machine's version is stored there as {branch}"
        )
    for session in done.ahead:
        output.note(f"{visible(session)}: was continued elsewhere; `recollect team pull` fetches it")
    for session in done.gone:
        output.note(f"{visible(session)}: was deleted on the server and is not sent again")
    for path, why in done.problems[:_SHOWN]:
        output.note(f"not sent: {visible(path)}: {visible(why)}")
    if len(done.problems) > _SHOWN:
        output.note(f"and {len(done.problems) - _SHOWN:,} more")
    for note in done.notes:
        output.note(note)


def run_pull(options: Namespace) -> int:
    exchange = _exchange(options)
    remote = exchange.connected()
    try:
        pull = Pull(exchange, remote)
        only, among = options.sessions or None, None
        if options.session:
            session = session_named(remote, options.session)
            done = pull.one(session)
            # One that this machine sent is in its home already, and was not fetched.
            only = [*options.sessions, *({session} & exchange.kept.load().pulled.keys())]
        else:
            since, filters = _wanted(options, exchange)
            done = pull.run(since, **filters)
            among = frozenset(pull.listed) if filters or since is not None else None
        planned = None
        if options.into_home:
            planned = _into_home(options, exchange, remote, only, among)
            done.into_home, done.left, done.applied = planned.sessions, planned.left, options.apply
    finally:
        remote.close()
    if options.json:
        output.print_json(done)
        return 1 if done.problems else 0
    if done.sessions:
        fetched = f"{counted(done.lines, 'line')}, {counted(done.files, 'file')}, {size(done.bytes)}"
        output.say(f"Fetched {counted(len(done.sessions), 'session')}: {fetched}.")
        output.say(f"They are in {pull.root}: read them with --home {pull.root}")
    else:
        output.say("Nothing new to fetch.")
    if not options.session and not pull.listed and (asked := visible(" ".join(_chosen(options)))):
        output.note(f"no session there fits {asked}; `recollect team list` shows how they are named")
    for session, place in done.moved:
        output.note(
            f"{visible(session)} is a different log on the server now; it is stored as {visible(place)}"
        )
    for session, why in done.problems[:_SHOWN]:
        output.note(f"not fetched: {visible(session)}: {visible(why)}")
    if planned is not None:
        _say_installed(options, planned, pull.root)
    return 1 if done.problems else 0


def _chosen(options: Namespace) -> list[str]:
    """The options that choose sessions, as they were given."""
    given = ((f"--{name}", text) for name in ("session", "repo", "since") if (text := getattr(options, name)))
    return [*(["--mine"] if options.mine else []), *(word for pair in given for word in option(*pair))]


def _wanted(options: Namespace, exchange: SyncClient) -> tuple[int | None, dict[str, str]]:
    """Since when, in milliseconds, and by which filters of the server."""
    person = exchange.server().whoami().user_name if options.mine else None
    since = timespan.since(options.since, dt.datetime.now(dt.UTC), dt.UTC) if options.since else None
    asked = {"person": person, "repository": options.repo}
    filters = {name: text for name, text in asked.items() if text}
    return None if since is None else int(since.timestamp() * 1000), filters


def _into_home(
    options: Namespace,
    exchange: SyncClient,
    remote: HttpRemote,
    only: list[str] | None,
    among: Collection[str] | None,
) -> InstallPlan:
    roots = [home for home in chosen_homes(options.homes) if home.exists and home.agent == CLAUDE]
    if len(roots) != 1:
        raise UsageError(
            f"team pull --into-home: there are {len(roots)} homes, choose one",
            hint="name one with --home DIR",
        )
    directory = options.directory
    if directory is not None:
        directory = directory.expanduser().resolve()
        if not directory.is_dir():
            raise UsageError(
                f"{directory}: no such directory", hint="name the directory of the sessions on this machine"
            )
    home = ClaudeHome(roots[0].path, roots[0].config_file)
    install = Installer(exchange, home, remote, directory)
    planned = install.planned(only, among)
    if options.apply and planned.sessions:
        options.change = install.carry_out(planned).id
    return planned


def _say_installed(options: Namespace, planned: InstallPlan, store: Path) -> None:
    for one in planned.sessions:
        output.say(f"  {one.how:<6}  {one.name}  {visible(shortened(one.directory, 70))}")
    for session, why in planned.left:
        if session not in planned.foreign:
            output.note(f"not pulled: {visible(session)}: {visible(why)}")
    if planned.foreign:
        output.note(visible(kept_out(planned.foreign.values(), installed_instead(store))))
    if not planned.sessions:
        output.say("Nothing to put into the home.")
    elif options.apply:
        output.say(f"Undo with: {command(options, 'undo', options.change, '--apply')}")
    else:
        where = [] if options.directory is None else ["--directory", str(options.directory)]
        again = command(
            options, "team", "pull", *options.sessions, *_chosen(options), "--into-home", *where, "--apply"
        )
        output.say(f"The home was not changed. Do it with: {again}", "dim")


def run_status(options: Namespace) -> int:
    exchange = _exchange(options)
    login = exchange.login
    push = Push(exchange, _homes(options))
    waiting = push.waiting()
    state = exchange.kept.load()
    if options.json:
        return output.print_json(
            {
                "address": login.address,
                "machine": login.machine,
                "redact": login.redact,
                "encrypt": login.encrypt,
                "token_expires": login.expires,
                "waiting": [{"session": name, "bytes": count} for name, count in waiting.items()],
                "sent_logs": len(state.logs),
                "pulled_sessions": len(state.pulled),
                "problems": push.done.problems,
            }
        )
    how = "secrets replaced" if login.redact else "secrets unchanged"
    output.say(f"To        {visible(login.address)} as {visible(login.machine or 'this machine')}")
    output.say(f"How       {how}{', encrypted' if login.encrypt else ''}; login in {login_file()}")
    output.say(
        f"There     {counted(len(state.logs), 'log')} sent, {counted(len(state.pulled), 'session')} fetched"
    )
    total = sum(waiting.values())
    output.say(
        f"Waiting   {counted(len(waiting), 'session')}, {size(total)}" if waiting else "Waiting   nothing"
    )
    return 0


def run_watch(options: Namespace) -> int:
    if options.every < _SHORTEST:
        raise UsageError(f"--every {options.every:g}: too often", hint=f"at least {_SHORTEST:g} seconds")
    exchange = _exchange(options)

    while True:
        push = Push(
            exchange,
            _homes(options),
            redact=exchange.login.redact and not options.no_redact,
            encrypt=exchange.login.encrypt or options.encrypt,
        )
        try:
            done = push.run()
        except Busy as problem:
            output.note(f"{visible(problem.message)}; trying again")
        else:
            if done.sessions or done.problems or done.branches:
                _say_pushed(done)
        sys.stdout.flush()
        time.sleep(options.every)


run_login, run_rotate = sync_login.login, sync_login.rotate
run_tokens, run_revoke = sync_login.tokens, sync_login.revoke
