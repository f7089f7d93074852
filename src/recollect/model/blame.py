"""Replay the history of a file and keep, for each line, the change that wrote it.

The history is what sessions report: the states they saw and the changes they made. What differs between the state
after one report and the state before the next was done by others, so those lines are unknown. The last step is the
file as it is now. A line that a session changed in part is that session's; a line it wrote again as it was is not.

A file that returns to an earlier state (a rewind, a checkout) returns to its owners. Other places of the same file
(before its directory was renamed, another worktree) have histories of their own; their lines are recognised where
they arrive.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from recollect.model.files.history import FileStep, reported_text
from recollect.model.files.reports import FileChange
from recollect.model.files.text_edits import edited, undone

UNKNOWN = -1  # written by no change that is known: a person, or a program
UNCERTAIN = -2  # written by one of several
NEW = -3  # not in the text before
# Lines between two fixed points, old times new, above which matching takes too long.
_MOST_PAIRS = 250_000
_FEW_LETTERS = 8
_FEW_LINES = 5


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def carried(old: Sequence[str], owners: Sequence[int], new: Sequence[str], author: int) -> list[int]:
    """The owners of ``new``, which ``author`` made out of ``old``."""
    before = {line: at for at, line in enumerate(old)}
    once = {line for line, count in Counter(old).items() if count == 1 and not is_trivial(line)}
    once &= {line for line, count in Counter(new).items() if count == 1}
    found = [owners[before[line]] if line in once else author for line in new]
    fixed = [(before[line], at) for at, line in enumerate(new) if line in once]
    for (i, end_i), (j, end_j) in _gaps(_in_order(fixed), len(old), len(new)):
        rows = [at for at in range(i, end_i) if old[at] not in once]
        places = [at for at in range(j, end_j) if new[at] not in once]
        for at, possible in zip(places, _partners(old, rows, new, places), strict=True):
            known = {author if one is None else owners[one] for one in possible}
            is_sure = None in possible or any(
                _is_recognised(old, one, new, at) for one in possible if one is not None
            )
            found[at] = next(iter(known)) if len(known) == 1 and is_sure else UNCERTAIN
    return found


def is_trivial(line: str) -> bool:
    """Whether a line says too little to be recognised by itself, as a bracket or ``else:``."""
    return sum(map(str.isalnum, line)) < _FEW_LETTERS


def _is_recognised(old: Sequence[str], i: int, new: Sequence[str], j: int) -> bool:
    """Whether a new line can be an old one: a trivial line is recognised by the lines around it."""
    return not is_trivial(new[j]) or _is_known(old, i, new, j, 1) or _is_known(old, i, new, j, -1)


def _is_known(old: Sequence[str], i: int, new: Sequence[str], j: int, step: int) -> bool:
    """Whether the next line that says something is the same in both texts."""
    for _ in range(_FEW_LINES):
        i, j = i + step, j + step
        if not (0 <= i < len(old) and 0 <= j < len(new)) or old[i] != new[j]:
            return False
        if not is_trivial(new[j]):
            return True
    return False


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, given by their second number, in which both numbers grow."""
    tails: list[int] = []
    ends: list[int] = []
    links: list[int] = []
    for number, (old, _) in enumerate(pairs):
        place = bisect.bisect_left(tails, old)
        tails[place : place + 1] = [old]
        ends[place : place + 1] = [number]
        links.append(ends[place - 1] if place else -1)
    chosen: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = links[number]
    return chosen[::-1]


def _gaps(
    fixed: Iterable[tuple[int, int]], old: int, new: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    i = j = 0
    for at_old, at_new in (*fixed, (old, new)):
        if j < at_new:
            yield (i, at_old), (j, at_new)
        i, j = at_old + 1, at_new + 1


def _partners(
    old: Sequence[str], rows: Sequence[int], new: Sequence[str], places: Sequence[int]
) -> list[set[int | None]]:
    """For each new line the old ones that it may be by a longest common subsequence; None: it may be none of them."""
    texts, lines = [old[at] for at in rows], [new[at] for at in places]
    if texts == lines:
        return [{at} for at in rows]
    if not rows or not places:
        return [{None} for _ in places]
    if len(rows) * len(places) > _MOST_PAIRS:
        return [{None, *(at for at in rows if old[at] == line)} for line in lines]
    ahead, behind = _lengths(texts, lines), _lengths(texts[::-1], lines[::-1])
    n, m = len(texts), len(lines)
    found: list[set[int | None]] = []
    for j, line in enumerate(lines):
        possible: set[int | None] = {
            rows[i]
            for i, text in enumerate(texts)
            if text == line and ahead[i][j] + 1 + behind[n - i - 1][m - j - 1] == ahead[n][m]
        }
        if any(ahead[i][j] + behind[n - i][m - j - 1] == ahead[n][m] for i in range(n + 1)):
            possible.add(None)
        found.append(possible)
    return found


def _lengths(old: Sequence[str], new: Sequence[str]) -> list[list[int]]:
    """Lengths of the longest common subsequence for every pair of beginnings."""
    table = [[0] * (len(new) + 1)]
    for line in old:
        above, row = table[-1], [0]
        for j, other in enumerate(new):
            row.append(above[j] + 1 if line == other else max(above[j + 1], row[j]))
        table.append(row)
    return table


# Earlier states that a file may return to.
_MOST_STATES = 200
_MARK = "\ufeff"


class FileReplay:
    """Replays steps in the order of time; between two of them it can be asked about any text."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._histories = {path: _PathHistory()}

    def take(self, one: FileStep) -> None:
        history = self._histories.setdefault(one.path, _PathHistory())
        history.take(one, self._others(history))

    def owners(self, text: str) -> list[int]:
        """For each line of a text of the file the change that wrote it."""
        main = self._histories[self._path]
        return main.owners_of(plain(text), self._others(main))

    def _others(self, one: _PathHistory) -> list[_PathHistory]:
        return [other for other in reversed(self._histories.values()) if other is not one]

    def is_present(self, text: str) -> bool:
        """Whether the file has exactly this text after the last step."""
        return self._histories[self._path].text == plain(text)


def line_owners(steps: Iterable[FileStep], path: str, present: str) -> list[int]:
    """For each line of ``present`` the change that wrote it. ``steps`` are in the order of time."""
    replay = FileReplay(path)
    for one in completed(list(steps), path, present):
        replay.take(one)
    return replay.owners(present)


def plain(text: str) -> str:
    """A text as it is compared: one kind of line end, no byte-order mark."""
    return text.replace("\r\n", "\n").removeprefix(_MARK)


class _PathHistory:
    """One path: its present state with the owner of each line, and the states before."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.owners: list[int] = []
        self._states: dict[str, list[int]] = {}
        self._written: dict[str, int] = {}

    def take(self, one: FileStep, others: Sequence[_PathHistory]) -> None:
        version, change = one.version, one.change
        text = _text_of(one)
        if change is None:
            if text is not None:
                self.seen(text, others)
            return
        if text is None:
            self._written |= dict.fromkeys(_put_in(change), one.author)
            return
        base = _base_of(one, self.text)
        if base is None or not version.existed:
            self.seen(text, others)  # what of it was there before is not known
            return
        self.seen(base, others)
        self._set(text, _owners_after(base, self.owners, change, text, one.author))

    def seen(self, text: str, others: Sequence[_PathHistory]) -> None:
        """The file had this text: what is new was written by no change that is known here."""
        self._set(text, self.owners_of(text, others))

    def owners_of(self, text: str, others: Sequence[_PathHistory]) -> list[int]:
        """For each line who wrote it, by this history, and by the others, newest first, where it came from there."""
        found = self.explained(text)
        for other in others:
            if NEW in found:
                # Once the file is here, a bracket that is new does not come from elsewhere: anyone writes those.
                takes_all = self.text is None
                found = [
                    new if old == NEW and (takes_all or not is_trivial(line)) else old
                    for old, new, line in zip(found, other.explained(text), lines_of(text), strict=True)
                ]
        return [UNKNOWN if owner == NEW else owner for owner in found]

    def explained(self, text: str) -> list[int]:
        if text == self.text:
            return self.owners
        if text in self._states:
            return self._states[text]
        lines = lines_of(text)
        return self._back(lines, carried(*self._nearest(lines), lines, NEW))

    def _back(self, lines: Sequence[str], owners: Sequence[int]) -> list[int]:
        """A line that was in the file before, and is back as the only one of its kind, has its owner back."""
        once = Counter(lines)
        return [
            self._written.get(line, NEW) if owner == NEW and once[line] == 1 else owner
            for line, owner in zip(lines, owners, strict=True)
        ]

    def _set(self, text: str, owners: list[int]) -> None:
        self.text, self.owners = text, owners
        self._written |= {
            line: owner
            for line, owner in zip(lines_of(text), owners, strict=True)
            if owner != UNKNOWN and not is_trivial(line)
        }
        self._states.pop(text, None)
        self._states[text] = owners
        if len(self._states) > _MOST_STATES:
            del self._states[next(iter(self._states))]

    def _nearest(self, lines: Sequence[str]) -> tuple[list[str], list[int]]:
        """The state it came from: an earlier one where all that changed since is undone, else the last.

        A bracket that is back proves nothing.
        """
        if self.text is None:
            return [], []
        now, last = Counter(lines), Counter(lines_of(self.text))
        for text, owners in reversed(list(self._states.items())):
            state = Counter(lines_of(text))
            gone = state - last
            if (
                not all(map(is_trivial, gone))
                and all(now[line] >= state[line] for line in gone)
                and all(now[line] <= state[line] for line in last - state)
            ):
                return lines_of(text), owners
        return lines_of(self.text), self.owners


def completed(steps: Sequence[FileStep], path: str, present: str | None) -> list[FileStep]:
    """The steps, with contents that only a later state shows: an edit is undone in the text that follows it."""
    after: dict[str, str | None] = {path: None if present is None else plain(present)}
    found: list[FileStep] = []
    for one in reversed(steps):
        change, text = one.change, _text_of(one)
        known = after.get(one.path)
        before = None
        if change is not None and text is None and known is not None:
            before = undone(known, change.replacements, change.hunks)
        if change is not None and before is not None and known is not None:
            after_it = structs.replace(one.version, content=known, existed=True)
            before_it = structs.replace(after_it, content=before)
            found += [structs.replace(one, version=after_it), FileStep(before_it, None, one.path)]
            after[one.path] = before
        else:
            found.append(one)
            after[one.path] = text if change is None else change.original
    return found[::-1]


def _text_of(step: FileStep) -> str | None:
    """The text of a state; a file that is not there has none of it, and binary content is no text."""
    if not step.version.existed:
        return ""
    text = reported_text(step.version.content)
    return None if text is None or "\0" in text else plain(text)


def _base_of(step: FileStep, last: str | None) -> str | None:
    """The text before a change."""
    change = step.change
    if change is None or change.original is not None:
        return None if change is None or change.original is None else plain(change.original)
    if change.created:
        return ""
    text = _text_of(step)
    if change.hunks and text is not None:
        before = undone(text, change.replacements, change.hunks)
        return last if before is None else before
    return last


def _owners_after(base: str, owners: Sequence[int], change: FileChange, text: str, author: int) -> list[int]:
    found = _by_replacements(base, owners, change, text, author)
    if found is None:
        old, new = lines_of(base), lines_of(text)
        if change.is_notebook:  # all of it is written again, with the client's indents
            old, new = [line.strip() for line in old], [line.strip() for line in new]
        found = carried(old, owners, new, author)
    if change.proposed is None:
        return found
    # A person altered it: only lines that the model had proposed are its own.
    proposed = change.proposed if isinstance(change.proposed, str) else edited(base, change.proposed, ())
    asked = set(lines_of(proposed or ""))
    return [
        UNKNOWN if owner == author and line not in asked else owner
        for owner, line in zip(found, lines_of(text), strict=True)
    ]


# ---- replacements: where they stand is known, so that equal lines elsewhere are not mistaken ----------------


def _by_replacements(
    base: str, owners: Sequence[int], change: FileChange, text: str, author: int
) -> list[int] | None:
    """The owners after replacements one after the other; None where they do not lead to the text."""
    now, found = base, list(owners)
    for step in change.replacements:
        if not step.old:
            return None
        places = list(_places(now, step.old))
        if not step.everywhere:
            fitting = [p for p in places if now[:p] + step.new + now[p + len(step.old) :] == text]
            places = fitting[:1] if len(change.replacements) == 1 else places[:1] if len(places) == 1 else []
        if not places:
            return None
        spans = [(place, place + len(step.old)) for place in places]
        now, found = _replaced(now, found, spans, step.new, author)
    return found if now == text and change.replacements else None


def _places(text: str, wanted: str) -> Iterator[int]:
    place = text.find(wanted)
    while place >= 0:
        yield place
        place = text.find(wanted, place + len(wanted))


def _replaced(
    text: str, owners: Sequence[int], spans: Sequence[tuple[int, int]], new: str, author: int
) -> tuple[str, list[int]]:
    starts = [0, *(at + 1 for at in _places(text, "\n"))]
    result, found, done = "", list[int](), 0
    for first, last, inside in _regions(starts, spans, new):
        begin, end = starts[first], starts[last + 1] if last + 1 < len(starts) else len(text)
        region, at = "", begin
        for start, stop in inside:
            region, at = region + text[at:start] + new, stop
        region += text[at:end]
        result += text[starts[done] if done < len(starts) else len(text) : begin] + region
        found += owners[done:first]
        found += carried(lines_of(text[begin:end]), owners[first : last + 1], lines_of(region), author)
        done = last + 1
    rest = starts[done] if done < len(starts) else len(text)
    return result + text[rest:], [*found, *owners[done:]]


def _regions(
    starts: Sequence[int], spans: Sequence[tuple[int, int]], new: str
) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """The lines that replacements touch: first, last, and the replacements in them."""
    waiting: tuple[int, int, list[tuple[int, int]]] | None = None
    for start, end in spans:
        first, last = bisect.bisect_right(starts, start) - 1, bisect.bisect_right(starts, end) - 1
        is_whole = new.endswith("\n") or (not new and start == starts[first])
        if last > first and end == starts[last] and is_whole:
            last -= 1  # it ends with its line; the next one is not touched
        if waiting is not None and first <= waiting[1]:
            waiting = waiting[0], max(last, waiting[1]), [*waiting[2], (start, end)]
            continue
        if waiting is not None:
            yield waiting
        waiting = first, last, [(start, end)]
    if waiting is not None:
        yield waiting


def _put_in(change: FileChange) -> set[str]:
    """The lines that a change put into a file whose text is not known, as far as they say something."""
    new = {line for step in change.replacements for line in lines_of(plain(step.new))}
    old = {line for step in change.replacements for line in lines_of(plain(step.old))}
    new |= {line[1:] for hunk in change.hunks for line in hunk.lines if line[:1] == "+"}
    old |= {line[1:] for hunk in change.hunks for line in hunk.lines if line[:1] in (" ", "-")}
    return {line for line in new - old if not is_trivial(line)}
