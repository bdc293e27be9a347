"""Trees to and from Newick text."""

import heapq
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bregjax.hierarchy import _walk

__all__ = ["newick", "newick_names", "parse_newick"]

_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9.+-]+")
# A quoted name, the begin of a comment, a sign, a name or number without quotes; blanks
# between.
_WORD = re.compile(r"\s*('(?:[^']|'')*'|[\[(),:;]|[^\s(),:;'\[\]]+)")
_SIGNS = frozenset("(),:;")


def newick(
    children: np.ndarray,
    heights: np.ndarray,
    num_leaves: int,
    names: Sequence[object] | None,
) -> str:
    """One line of Newick text for each tree, leaves at height 0."""
    if names is None:
        names = [str(leaf) for leaf in range(num_leaves)]
    else:
        names = [_quoted(name) for name in newick_names(names)]
    all_heights = np.concatenate([np.zeros(num_leaves), heights])
    above = all_heights[_walk.parents(children, num_leaves)]
    roots = _walk.roots(children, num_leaves).tolist()
    suffix = [f":{length!r}" for length in (above - all_heights).tolist()]
    for root in roots:
        suffix[root] = ";"
    pairs = children.tolist()
    words: list[str] = []
    waiting: list[int | str] = []
    for root in reversed(roots):
        waiting += [root] if root == roots[-1] else ["\n", root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            words.append(item)
        elif item < num_leaves:
            words.append(names[item] + suffix[item])
        else:
            left, right = pairs[item - num_leaves]
            words.append("(")
            waiting.extend([")" + suffix[item], right, ",", left])
    return "".join(words)


def newick_names(names: Iterable[object]) -> list[str]:
    """Names of one line, each once: where one comes again it ends in .1, .2, …."""
    names = [" ".join(str(name).splitlines()) for name in names]
    known = set(names)
    if len(known) == len(names):
        return names
    used: set[str] = set()
    number: dict[str, int] = {}
    for leaf, name in enumerate(names):
        if name in used:
            count = number.get(name, 0) + 1
            while f"{name}.{count}" in known:
                count += 1
            number[name], names[leaf] = count, f"{name}.{count}"
            known.add(names[leaf])
        used.add(names[leaf])
    return names


def _quoted(name: str) -> str:
    """A Newick name; an underscore outside quotes would be read as a blank."""
    if _NEEDS_NO_QUOTES.fullmatch(name):
        return name
    return "'" + name.replace("'", "''") + "'"


class _Parsed(NamedTuple):
    """Trees as they stand in a text, every node behind its children.

    Attributes:
        parts: The two children of a node; none of a leaf.
        lengths: Of the branch above each node; None where there is none.
        names: Of each node, perhaps empty.
    """

    parts: list[tuple[int, ...]]
    lengths: list[float | None]
    names: list[str]


def parse_newick(
    text: str, names: Iterable[object] | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The children, heights and names of leaves of Newick text; see `from_newick`.

    Raises:
        TypeError: If it is no string.
        ValueError: If it is no such text, or its names are others.
    """
    parsed = _parsed(text)
    leaves = [node for node, parts in enumerate(parsed.parts) if not parts]
    found = [parsed.names[leaf] for leaf in leaves]
    if names is not None:
        order = _order(found, newick_names(names))
        leaves = [leaves[place] for place in order]
        found = [found[place] for place in order]
    heights = _heights(parsed)
    number = [-1] * len(heights)
    for leaf, node in enumerate(leaves):
        number[node] = leaf
    merges = _merge_order(parsed.parts, heights)
    for step, node in enumerate(merges, start=len(leaves)):
        number[node] = step
    children = [[number[part] for part in parsed.parts[node]] for node in merges]
    children = np.asarray(children, dtype=np.int32).reshape(-1, 2)
    return children, np.asarray([heights[node] for node in merges], float), found


def _parsed(text: str) -> _Parsed:
    """Read the text by a stack of open parentheses."""
    if not isinstance(text, str):
        remedy = "Read the file first: path.read_text()"
        if isinstance(text, bytes | bytearray):
            remedy = "Decode it first: text.decode()"
        raise TypeError(
            f"`text` must be a string in Newick format; got {type(text).__name__}. "
            f"{remedy}."
        )
    parts, lengths, names = [], [], []
    open_: list[list[int]] = [[]]
    last = ""  # the sign, or the kind of word, before this one

    def add(children: tuple[int, ...]) -> None:
        parts.append(children)
        lengths.append(None)
        names.append("")
        open_[-1].append(len(parts) - 1)

    place, end = 0, len(text.rstrip())
    while place < end:
        match = _WORD.match(text, place)
        if match is None:
            raise _fault(text, place, "a quote or bracket that is never closed")
        word, start, place = match[1], match.start(1), match.end()
        if word == "[":
            place = _end_of_comment(text, start)
            continue
        if word in _SIGNS and last in "(,;" and word in ",);":
            if last == ";" or not last:
                raise _fault(text, start, f"{word!r} where a tree should begin")
            add(())  # a leaf without a name
            last = "leaf"
        if word == "(":
            if last not in "(,;":
                raise _fault(text, start, "'(' without a comma before it")
            open_.append([])
        elif word == ",":
            if len(open_) == 1:
                raise _fault(text, start, "',' outside of parentheses")
        elif word == ")":
            if len(open_) == 1:
                raise _fault(text, start, "')' that closes nothing")
            children = tuple(open_.pop())
            if len(children) != 2:
                raise _fault(
                    text,
                    start,
                    f"a node of {len(children)} children. Make the tree binary first, "
                    "as R's ape::multi2di does (ape::root an unrooted one before)",
                )
            add(children)
        elif word == ";":
            if len(open_) > 1:
                raise _fault(text, start, "';' inside of parentheses")
        elif last == ":":
            lengths[-1] = _length(text, start, word)
            word = "length"
        elif word == ":":
            if last == "length":
                raise _fault(text, start, "a second length of a branch")
            if last in "(,;":
                add(())
        elif last == ")":
            names[-1] = word  # of an inner node: read over
            word = "name"
        elif last in "(,;":
            add(())
            names[-1] = _unquoted(word)
            word = "leaf"
        else:
            raise _fault(text, start, f"{word!r} after another name")
        last = word
    if last != ";":
        raise _fault(text, end, "no ';' at the end")
    return _Parsed(parts, lengths, names)


def _end_of_comment(text: str, start: int) -> int:
    """The place after a comment, which may have others inside."""
    depth = 0
    for bracket in re.compile(r"[\[\]]").finditer(text, start):
        depth += 1 if bracket[0] == "[" else -1
        if not depth:
            return bracket.end()
    raise _fault(text, start, "a quote or bracket that is never closed")


def _length(text: str, place: int, word: str) -> float:
    try:
        # Python reads 1_0 as 10.
        length = np.nan if "_" in word else float(word)
    except ValueError:
        length = np.nan
    if not np.isfinite(length):
        raise _fault(text, place, f"{word!r} where the length of a branch should be")
    return length


def _unquoted(word: str) -> str:
    if word[0] == "'":
        return word[1:-1].replace("''", "'")
    return word.replace("_", " ")


def _fault(text: str, place: int, what: str) -> ValueError:
    around = " ".join(text[max(place - 10, 0) : place + 20].split())
    return ValueError(
        f"`text` must be binary trees in Newick format; got {what} at character "
        f"{place}, in {around!r}."
    )


def _heights(parsed: _Parsed) -> list[float]:
    """The greatest distance from each node to a leaf below it."""
    below = [part for parts in parsed.parts for part in parts]
    lengths = parsed.lengths
    missing = [node for node in below if lengths[node] is None]
    if missing and len(missing) < len(below):
        raise ValueError(
            f"`text` must give each branch a length, or none; {len(missing)} of "
            f"{len(below)} have none, the first that of "
            f"node {parsed.names[missing[0]]!r}. Write 0 where one is 0."
        )
    known = [1.0 if length is None else length for length in lengths]
    heights: list[float] = []
    for parts in parsed.parts:
        ways = [heights[part] + known[part] for part in parts]
        heights.append(max(ways, default=0.0))
    return heights


def _merge_order(parts: list[tuple[int, ...]], heights: list[float]) -> list[int]:
    """Inner nodes, the lowest first of those whose children are there.

    Of equal ones the first in the text.
    """
    above = {part: node for node, pair in enumerate(parts) for part in pair}
    waiting = {
        node: sum(1 for part in pair if parts[part])
        for node, pair in enumerate(parts)
        if pair
    }
    ready = [(heights[node], node) for node, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        parent = above.get(node)
        if parent is not None:
            waiting[parent] -= 1
            if not waiting[parent]:
                heapq.heappush(ready, (heights[parent], parent))
    return order


def _order(found: list[str], names: list[str]) -> list[int]:
    """Where each name stands among those that were found."""
    place = {name: number for number, name in enumerate(found)}
    if len(place) < len(found):
        twice = next(n for i, n in enumerate(found) if place[n] != i)
        raise ValueError(
            f"`text` must name each leaf once for `names` to order them; got {twice!r} "
            "twice. Leave `names` out."
        )
    if place.keys() != set(names) or len(names) != len(found):
        other = next(iter(place.keys() ^ set(names)), None)
        raise ValueError(
            f"`names` must be those of the {len(found)} leaves of the text; got "
            f"{len(names)}, and {other!r} stands in one of them alone."
        )
    return [place[name] for name in names]
