"""Near: the rows of a join's inputs that a change of another input can meet.

Changed rows ask their neighbours in the join graph for the rows that match them, and those ask on, away from where the
question came from. The graph may have circles; a tree in it is enough, for a combination satisfies all equalities. So
every input is asked once from each side, however many of them changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from trickle.algebra.expressions import Expression
from trickle.algebra.operator import Operator
from trickle.algebra.project import exactly
from trickle.algebra.restrict import Keys, restrict
from trickle.algebra.semi_join import Without, restrict_exactly
from trickle.algebra.ties import are_tied, arrive, keys_from
from trickle.algebra.union_all import union


@dataclass(frozen=True)
class Near:
    """The inputs of a join, and the changes of some of them."""

    members: tuple[Operator, ...]
    conditions: tuple[Expression, ...]
    deltas: Mapping[int, Operator]
    sizes: tuple[int, ...]
    """How large each input is, roughly."""

    @cached_property
    def groups(self) -> list[list[int]]:
        """The inputs by what equalities hold together, each group in an order in which one leads to the next."""
        found: list[list[int]] = []
        for start in (*self.deltas, *range(len(self.members))):
            if not any(start in group for group in found):
                found.append(list(self._walk(start, None)))
        return sorted(found, key=min)

    def rows(self, place: int) -> Operator:
        """The rows of an input, after the change, that a change elsewhere in its group can meet."""
        asked = [self._asked(other, place) for other in self._changed_beyond(place, None)]
        known = [keys for keys in asked if keys]
        whole = self.members[place]
        return whole if len(known) < len(asked) or not known else _matching_any(whole, known)

    def _asked(self, source: int, target: int) -> Keys | None:
        """What changes on the side of `source` ask for in `target`; None where they may ask for anything."""
        seen = self._seen(source, target)
        return keys_from(seen, self.members[target].columns, self.conditions) if seen else None

    def _seen(self, place: int, target: int) -> Operator | None:
        """The rows of an input that changed, or that a change beyond it meets; None where these may be all."""
        member = self.members[place]
        parts = [exactly(self.deltas[place], member.columns)] if place in self.deltas else []
        for other in self._changed_beyond(place, target):
            keys = self._asked(other, place)
            if keys is None:
                return None
            parts.append(restrict(member, keys))
        return union(parts)

    def _changed_beyond(self, place: int, but: int | None) -> Iterator[int]:
        """The neighbours of an input, one excepted, behind which something changed."""
        for other in self._tree[place]:
            if other != but and not self.deltas.keys().isdisjoint(self._walk(other, place)):
                yield other

    def _walk(self, place: int, origin: int | None) -> Iterator[int]:
        yield place
        for other in self._tree[place]:
            if other != origin:
                yield from self._walk(other, place)

    @cached_property
    def _tree(self) -> dict[int, list[int]]:
        """Neighbours in a spanning tree of the join graph, made of the best ties.

        A way over a small input is a bad one: two rows of large ones that agree on a nation have little to do with
        each other. One to the result of an aggregate is worse: all of its groups would have to be computed.
        """
        tied = [pair for pair in combinations(range(len(self.members)), 2) if self._is_tied(*pair)]
        tied.sort(key=lambda pair: (self._is_open(*pair), sorted(self.sizes[place] for place in pair)), reverse=True)
        tree: dict[int, list[int]] = {place: [] for place in range(len(self.members))}
        part_of = {place: {place} for place in tree}
        for one, other in tied:
            if other in part_of[one]:
                continue
            tree[one].append(other)
            tree[other].append(one)
            part_of[one] |= part_of[other]
            for place in part_of[one]:
                part_of[place] = part_of[one]
        return tree

    def _is_tied(self, one: int, other: int) -> bool:
        return are_tied(self.conditions, self.members[one].columns, self.members[other].columns)

    def _is_open(self, one: int, other: int) -> bool:
        """Whether no key from one of two inputs stops above what the other one reads."""
        return self._leads(one, other) and self._leads(other, one)

    def _leads(self, source: int, target: int) -> bool:
        keys = keys_from(self.members[source], self.members[target].columns, self.conditions)
        return keys is None or arrive(keys, self.members[target])


def _matching_any(whole: Operator, asked: Iterable[Keys]) -> Operator:
    """The rows that match one of several sets of keys, each once."""
    first, *others = asked
    if not others:
        return restrict(whole, first)
    parts, earlier = [restrict_exactly(whole, first)], [first]
    for keys in others:
        part = restrict_exactly(whole, keys)
        for done in earlier:
            part = Without(part, done.relation, done.pairs, done.null_safe)
        parts.append(part)
        earlier.append(keys)
    found = union(parts)
    assert found is not None
    return found
