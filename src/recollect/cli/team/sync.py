"""Share sessions between machines, through a team server or a shared folder.

  login URL|DIR   choose the server or folder; asks for the token, or reads it
                  from stdin
  push            send new lines of every session, without credentials
  pull            fetch sessions of other machines into recollect's own store
  status          what is to be sent, and where to
  watch           push whenever something changes, until interrupted
  rotate          replace the token by a new one; the old one works for a day
                  more (--overlap HOURS)
  tokens          your tokens on the server, and the browsers you signed in with
  revoke TOKEN    end one of them at once, such as that of a lost machine

login --sso signs in at the organisation's identity provider, in a browser on
any machine. From two weeks before a token expires, these commands say so.

Sends only sessions: logs, sub-agents, tool results, file backups, tasks and
todos. Never sends credentials, settings or the prompt history. [sync] allow and
deny in config.toml choose the directories whose sessions are sent. A session
that was continued on two machines becomes two sessions.

pull --mine, --repo, --since and --session fetch only those sessions. pull
--into-home also puts sessions where `claude --resume` finds them: in the
directory with the same repository on this machine. Sessions of other agents
stay in the store. It prints a plan; --apply carries it out.

Example:
  recollect sync login https://recollect.example.org
  recollect sync push
  recollect sync pull --into-home --apply
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import command, option, own_data
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.text import counted, shortened, size, visible
from recollect.errors import UsageError
from recollect.services.sync.session_names import session_named
from recollect.services.sync.sync import SyncClient, is_server
from recollect.storage.config.sync_settings import SyncLogin, load_login, login_file
from recollect.system.paths import CLAUDE

if TYPE_CHECKING:
    from recollect.services.sync.install import InstallPlan
    from recollect.services.sync.pull import PullFilter
    from recollect.services.sync.push import PushResult

_ACTIONS = ("login", "push", "pull", "status", "watch", "rotate", "tokens", "revoke")
_OF_TOKENS = ("login", "rotate", "tokens", "revoke")
_SHOWN = 20
_EVERY, _SHORTEST = 5.0, 0.2


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=_ACTIONS, help="see above")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="login: the address; push: only these sessions; revoke: the token",
    )
    parser.add_argument(
        "--sso",
        nargs="?",
        const="",
        metavar="ORGANISATION",
        help="login: at the identity provider of the organisation",
    )
    parser.add_argument(
        "--overlap",
        type=int,
        default=24,
        metavar="HOURS",
        help="rotate: how long the old token still works (default 24)",
    )
    parser.add_argument("--machine", metavar="NAME", help="login: name of this machine on the server")
    parser.add_argument(
        "--plain-http", action="store_true", help="login: allow a token over unencrypted http"
    )
    parser.add_argument(
        "--no-redact", action="store_true", help="push: do not replace secrets; login: from now on"
    )
    parser.add_argument(
        "--encrypt", action="store_true", help="push: encrypt with a key that stays here; login: from now on"
    )
    parser.add_argument("--mine", action="store_true", help="pull: only sessions that you created")
    parser.add_argument("--repo", metavar="NAME", help="pull: only of this repository (host/owner/name)")
    parser.add_argument("--since", metavar="DATE", help="pull: only those that changed since then")
    parser.add_argument("--session", metavar="ID", help="pull: only this session, by its id or the beginning")
    parser.add_argument(
        "--into-home", action="store_true", help="pull: also into the Claude home, for `claude --resume`"
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        help="pull --into-home: the sessions' directory on this machine",
    )
    parser.add_argument("--apply", action="store_true", help="pull --into-home: carry out the plan")
    parser.add_argument(
        "--every",
        type=float,
        default=_EVERY,
        metavar="SECONDS",
        help=f"watch: time between checks (default {_EVERY:g})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    if options.words and options.action not in ("login", "push", "pull", "revoke"):
        raise UsageError(
            f"sync {options.action}: takes no arguments", hint="`recollect sync --help` shows them"
        )
    if options.action in _OF_TOKENS:
        from recollect.cli.team import sync_login

        of_tokens = {
            "login": sync_login.login,
            "rotate": sync_login.rotate,
            "tokens": sync_login.tokens,
            "revoke": sync_login.revoke,
        }
        return of_tokens[options.action](options)
    actions = {"push": _push, "pull": _pull, "status": _status, "watch": _watch}
    return actions[options.action](options)


def _exchange(options: Namespace) -> SyncClient:
    login = load_login()
    warn_of_expiry(login)
    return SyncClient(login, own_data(options))


def warn_of_expiry(login: SyncLogin) -> None:
    """Tell the owner of a token that it ends soon. The end is known from the login: nothing is asked."""
    if login.expires is None:
        return
    from recollect.sync.wire import ends_soon

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
    step = "`recollect sync login` again" if login.expires <= now else "`recollect sync rotate` replaces it"
    output.note(f"your token {when}: {step}")


def _homes(options: Namespace) -> list[Path]:
    return [home.path for home in chosen_homes(options.homes) if home.exists]


def _push(options: Namespace) -> int:
    exchange = _exchange(options)
    only = None
    if options.words:
        from recollect.cli.terminal.homes import open_home

        home = open_home(options.homes)
        only = [home.own_session(word).id for word in options.words]
    push = exchange.push(
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
    for one in done.branches:
        output.note(
            f"{one.session} was also continued elsewhere; this machine's version is stored there as {one.branch}"
        )
    for session in done.ahead:
        output.note(f"{visible(session)}: was continued elsewhere; `recollect sync pull` fetches it")
    for session in done.gone:
        output.note(f"{visible(session)}: was deleted on the server and is not sent again")
    _say_problems(done.problems)
    for note in done.notes:
        output.note(note)


def _say_problems(problems: list[tuple[str, str]]) -> None:
    for path, why in problems[:_SHOWN]:
        output.note(f"not sent: {visible(path)}: {visible(why)}")
    if len(problems) > _SHOWN:
        output.note(f"and {len(problems) - _SHOWN:,} more")


def _pull(options: Namespace) -> int:
    exchange = _exchange(options)
    remote = exchange.connected()
    try:
        pull = exchange.pull(remote)
        only, among = options.words or None, None
        if options.session:
            session = session_named(remote, options.session)
            done = pull.one(session)
            # One that this machine sent is in its home already, and was not fetched.
            only = [*options.words, *({session} & exchange.kept.load().pulled.keys())]
        else:
            wanted = _wanted(options, exchange)
            done = pull.run(wanted)
            among = None if wanted is None else frozenset(done.listed)
        planned = None
        if options.into_home:
            planned = _into_home(options, exchange, remote, only, among)
    finally:
        remote.close()
    if options.json:
        from recollect.services.documents.sync import pull_document

        output.print_json(pull_document(done, str(pull.root), planned, applied=options.apply))
        return 1 if done.problems else 0
    if done.sessions:
        fetched = f"{counted(done.lines, 'line')}, {counted(done.files, 'file')}, {size(done.bytes)}"
        output.say(f"Fetched {counted(len(done.sessions), 'session')}: {fetched}.")
        output.say(f"They are in {pull.root}: read them with --home {pull.root}")
    else:
        output.say("Nothing new to fetch.")
    if not options.session and not done.listed and (asked := visible(" ".join(_chosen(options)))):
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


def _wanted(options: Namespace, exchange: SyncClient) -> PullFilter | None:
    if not (options.mine or options.repo or options.since):
        return None
    from recollect.model import timespan
    from recollect.services.sync.pull import PullFilter

    person = machine = None
    if options.mine and is_server(exchange.login.address):
        person = exchange.server().whoami().user_name
    elif options.mine:
        machine = exchange.login.machine
    now = dt.datetime.now(dt.UTC)
    since = timespan.since(options.since, now, dt.UTC) if options.since else None
    return PullFilter(person, machine, options.repo, None if since is None else int(since.timestamp() * 1000))


def _into_home(
    options: Namespace,
    exchange: SyncClient,
    remote: object,
    only: list[str] | None,
    among: Collection[str] | None,
) -> InstallPlan:
    from typing import cast

    from recollect.storage.home import ClaudeHome
    from recollect.sync.remote import Remote

    roots = [home for home in chosen_homes(options.homes) if home.exists and home.agent == CLAUDE]
    if len(roots) != 1:
        raise UsageError(
            f"sync pull --into-home: there are {len(roots)} homes, choose one",
            hint="name one with --home DIR before sync",
        )
    directory = options.directory
    if directory is not None:
        directory = directory.expanduser().resolve()
        if not directory.is_dir():
            raise UsageError(
                f"{directory}: no such directory", hint="name the directory of the sessions on this machine"
            )
    home = ClaudeHome(roots[0].path, roots[0].config_file)
    install = exchange.install(home, cast("Remote", remote), directory)
    planned = install.planned(only, among)
    if options.apply and planned.sessions:
        options.change = install.carry_out(planned, exchange.data).id
    return planned


def _say_installed(options: Namespace, planned: InstallPlan, store: Path) -> None:
    for one in planned.sessions:
        output.say(f"  {one.how:<6}  {one.name}  {visible(shortened(one.directory, 70))}")
    for session, why in planned.left:
        if session not in planned.foreign:
            output.note(f"not pulled: {visible(session)}: {visible(why)}")
    if planned.foreign:
        from recollect.services.foreign.unrecorded import kept_out
        from recollect.services.sync.install import installed_instead

        output.note(visible(kept_out(planned.foreign.values(), installed_instead(store))))
    if not planned.sessions:
        output.say("Nothing to put into the home.")
    elif options.apply:
        output.say(f"Undo with: {command(options, 'undo', options.change, '--apply')}")
    else:
        where = [] if options.directory is None else ["--directory", str(options.directory)]
        again = command(
            options, "sync", "pull", *options.words, *_chosen(options), "--into-home", *where, "--apply"
        )
        output.say(output.styled(f"The home was not changed. Do it with: {again}", "dim"))


def _status(options: Namespace) -> int:
    exchange = _exchange(options)
    login = exchange.login
    push = exchange.push(_homes(options), redact=login.redact, encrypt=False)
    waiting = push.waiting()
    state = exchange.kept.load()
    if options.json:
        from recollect.services.documents.sync import SyncStatusDocument, WaitingSessionDocument

        output.print_json(
            SyncStatusDocument(
                address=login.address,
                machine=login.machine,
                redact=login.redact,
                encrypt=login.encrypt,
                token_expires=login.expires,
                waiting=[WaitingSessionDocument(session, count) for session, count in waiting],
                sent_logs=len(state.logs),
                pulled_sessions=len(state.pulled),
                problems=push.done.problems,
            )
        )
        return 0
    how = "secrets replaced" if login.redact else "secrets unchanged"
    output.say(f"To        {visible(login.address)} as {visible(login.machine or 'this machine')}")
    output.say(f"How       {how}{', encrypted' if login.encrypt else ''}; login in {login_file()}")
    output.say(
        f"There     {counted(len(state.logs), 'log')} sent, {counted(len(state.pulled), 'session')} fetched"
    )
    total = sum(count for _, count in waiting)
    output.say(
        f"Waiting   {counted(len(waiting), 'session')}, {size(total)}" if waiting else "Waiting   nothing"
    )
    return 0


def _watch(options: Namespace) -> int:
    if options.every < _SHORTEST:
        raise UsageError(f"--every {options.every:g}: too often", hint=f"at least {_SHORTEST:g} seconds")
    exchange = _exchange(options)
    from recollect.errors import Busy

    while True:
        push = exchange.push(
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
