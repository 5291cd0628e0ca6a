"""Storage: what a stream table keeps, how all of it is computed, and how it changes.

Two kinds. *Groups* have an identity, the grouping key, and may carry state. *Rows* are a plain multiset; some of them
have all that they were computed from beside them. All answer the same two questions as trees: `contents`, everything
that is stored, and `change`, the consolidated difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from trickle.algebra.aggregate import Aggregate, consolidated, keys_of
from trickle.algebra.differentiate import Window, differentiate
from trickle.algebra.expand import Expand
from trickle.algebra.expressions import (
    Output,
    call,
    case,
    cast,
    column,
    conjuncts,
    is_not_null,
    number,
    passing,
    references,
    substitute,
)
from trickle.algebra.filter import Filter
from trickle.algebra.left_join import Kind, LeftJoin, affected_rows, changed_matches, matched_anew
from trickle.algebra.normalise import rejects_null, split_root
from trickle.algebra.opaque import Opaque
from trickle.algebra.operator import Operator
from trickle.algebra.over import Over
from trickle.algebra.project import Project, exactly, weighted
from trickle.algebra.restrict import restrict
from trickle.algebra.scan import Scan
from trickle.algebra.semi_join import Without, restrict_here
from trickle.algebra.state import Recipe, Settings, StateColumn, argument, if_any, recipe
from trickle.algebra.technique import compared_whole
from trickle.algebra.union_all import UnionAll
from trickle.names import COUNT, VISIBLE, WEIGHT, hidden

STORED = "__trickle_stored"
"""The source name under which a program reads the stream table's own stored rows."""

TypesOf = Callable[[Operator], Mapping[str, str]]
"""Answers the column types of a tree: Spark's, never guessed."""


@dataclass(frozen=True)
class Storage:
    """A multiset of rows: the user's columns, duplicates and all, no identity."""

    public: tuple[str, ...]
    contents: Operator

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The stored columns that name a row, or None where equal rows may repeat."""
        return None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.contents.columns

    @property
    def digest(self) -> str:
        """Of all that a change is computed from: the same program serves two storages that have the same."""
        return f"{type(self).__name__} {self.contents.digest}"

    @property
    def technique(self) -> str:
        return "delta rows"

    @property
    def reads_stored(self) -> bool:
        """Whether a change is computed from what is stored."""
        return False

    @property
    def opaque(self) -> Opaque | None:
        """The query itself, where it has no rules at all."""
        _, _, below = split_root(self.contents)
        return below if isinstance(below, Opaque) else None

    def change(self, window: Window) -> Operator | None:
        """The consolidated difference of the stored rows over a window; None where nothing can have changed."""
        delta = differentiate(self.contents, window)
        return delta and consolidated(delta)

    def difference(self, new: Operator, old: Operator) -> Operator:
        """The change from old stored rows to new ones."""
        return consolidated(UnionAll((weighted(new, +1), weighted(old, -1))))

    def replacement(self) -> Operator:
        """The change from what is stored to the full contents."""
        return self.difference(self.contents, stored(self.columns))


@dataclass(frozen=True)
class Compared(Storage):
    """Rows whose only rule is after − before: what was before is stored, so one evaluation is enough."""

    @property
    def technique(self) -> str:
        return "recomputed and compared"

    @property
    def reads_stored(self) -> bool:
        return True

    def change(self, window: Window) -> Operator | None:
        """q(X′) − stored."""
        return self.replacement() if differentiate(self.contents, window) else None


@dataclass(frozen=True)
class Partitions(Storage):
    """Rows of window functions that have beside them all that these are computed from.

    What was there before the change is read from the stored rows, whatever it once took to find it in the sources.
    """

    over: Over
    outputs: tuple[Output, ...]
    """All stored columns over the columns of `over`."""
    kept: Mapping[str, str] = field(hash=False)
    """Column of the input of `over` → stored column."""

    @property
    def technique(self) -> str:
        return "partitions recomputed from stored rows"

    @property
    def reads_stored(self) -> bool:
        return True

    def change(self, window: Window) -> Operator | None:
        """ω(X° ⋉ K + ΔX) − stored ⋉ K, where X° ⋉ K = π(stored ⋉ K)."""
        columns = self.over.input.columns
        delta = differentiate(self.over.input, window)
        if delta is None:
            return None
        keys = keys_of(delta, self.over.partition)
        old = restrict_here(stored(self.columns), keys.renamed(dict(self.kept)))
        before = Project(old, tuple(Output(name, column(self.kept[name])) for name in columns))
        after = consolidated(UnionAll((weighted(before, +1), exactly(delta, (*columns, WEIGHT)))))
        new = self.over.with_inputs((exactly(Expand(after), columns),))
        return self.difference(Project(new, self.outputs), old)


@dataclass(frozen=True)
class Padded(Storage):
    """Rows of an outer join that show all of the left, and whether there is a match.

    While only the right changes, it is not asked: of which rows of the left there was a match is told by what is
    stored, and of which there is one now by how many come and go.
    """

    join: LeftJoin
    outputs: tuple[Output, ...]
    """All stored columns over the columns of `join`."""
    kept: Mapping[str, str] = field(hash=False)
    """Column of the left → stored column."""
    match: str
    """The stored column that is NULL where there was no match, and only there."""

    @property
    def technique(self) -> str:
        return "delta rows, matches told from stored rows"

    @property
    def reads_stored(self) -> bool:
        return True

    def change(self, window: Window) -> Operator | None:
        """A ⋈ ΔR + pad(A ▷ H′) − pad(A ▷ H°), where H° = π(σ(stored ⋉ A)) and H′ = H° + π(A ⋈ ΔR)."""
        join, right = self.join, differentiate(self.join.right, window)
        is_left_changed = differentiate(join.left, window) is not None
        if right is None or is_left_changed or not window.is_smaller(STORED, join.right):
            return super().change(window)
        affected, left = affected_rows(join, right), join.left.columns
        # Rows of the left that agree in these are looked at together, which is more than need be and sooner found.
        compared = tuple(name for name in left if name in references(join.condition))
        keys = keys_of(affected, compared or left)
        rows = restrict_here(stored((*self.kept.values(), self.match)), keys.renamed(dict(self.kept)))
        held = Filter(rows, is_not_null(column(self.match)))
        then = Project(held, tuple(Output(name, column(self.kept[name])) for name in left))
        moved = exactly(changed_matches(join, affected, right), (*left, WEIGHT))
        now = consolidated(UnionAll((weighted(then, +1), moved)))
        pairs = tuple((name, name) for name in left)
        lone = (Without(affected, matched, pairs, null_safe=True) for matched in (now, then))
        delta = matched_anew(join, affected, right, *lone)
        return consolidated(Project(delta, (*self.outputs, *passing([WEIGHT]))))


def stored(columns: tuple[str, ...]) -> Scan:
    return Scan(STORED, tuple((name, name) for name in columns))


@dataclass(frozen=True)
class Groups(Storage):
    """One row per group, found again by its key; the result is a projection of an aggregate."""

    aggregate: Aggregate
    outputs: tuple[Output, ...]
    """All stored columns over the aggregate's columns."""
    key_names: Mapping[str, str] = field(hash=False)
    """Grouping key of the aggregate → stored column."""

    @property
    def identity(self) -> tuple[str, ...]:
        return tuple(self.key_names[key] for key in self.aggregate.keys)

    @property
    def technique(self) -> str:
        return "groups recomputed by key"

    @property
    def reads_stored(self) -> bool:
        return True

    def change(self, window: Window) -> Operator | None:
        """γ(X′ ⋉ K) − stored ⋉ K: the old rows are at hand, so the old input is not read at all.

        A restriction may let whole groups outside of K through; nothing stored stands against them, so they go.
        """
        delta = differentiate(self.aggregate.input, window)
        if delta is None:
            return None
        if not self.aggregate.keys:
            return self.replacement()
        keys = keys_of(delta, self.aggregate.keys)
        group = self.aggregate.with_inputs((restrict(self.aggregate.input, keys),))
        touched = restrict_here(group, keys)
        return self.difference(Project(touched, self.outputs), self.touched_groups(delta))

    def touched_groups(self, delta: Operator) -> Operator:
        """The stored rows of the groups a change touches; where there is no key, the one row there is."""
        if not self.aggregate.keys:
            return stored(self.columns)
        keys = keys_of(delta, self.aggregate.keys)
        return restrict_here(stored(self.columns), keys.renamed(dict(self.key_names)))


@dataclass(frozen=True)
class StatefulGroups(Groups):
    """Groups whose aggregates can all be undone: the change is added to the stored state."""

    states: Mapping[str, StateColumn] = field(hash=False, default_factory=dict)
    types: Mapping[str, str] = field(hash=False, default_factory=dict)

    @property
    def digest(self) -> str:
        # The tree does not say them: a sum is written the same over integers and over decimals.
        return f"{super().digest} {sorted(self.types.items())}"

    @property
    def technique(self) -> str:
        return "state + change"

    def change(self, window: Window) -> Operator | None:
        """new = old state + Δstate; a group goes when its count reaches zero, the one global row never does.

        Where little is stored, nothing is added to most of it: that costs less than to know beforehand.
        """
        delta = differentiate(self.aggregate.input, window)
        if delta is None:
            return None
        keys, names = self.aggregate.keys, tuple(self.states)
        signed = tuple(Output(name, self.states[name].signed) for name in names)
        added = Aggregate(Expand(exactly(delta, (*self._used(), WEIGHT))), keys, signed)
        old = stored(self.columns) if window.is_small(STORED) else self.touched_groups(added)
        held = Project(old, tuple(Output(key, column(self.key_names[key])) for key in keys) + passing(names))
        sums = tuple(Output(name, cast(call("sum", column(name)), self.types[name])) for name in names)
        new: Operator = Aggregate(UnionAll((held, added)), keys, sums)
        if keys:
            new = Filter(new, exp.GT(this=column(COUNT), expression=number(0)))
        return self.difference(Project(new, self.outputs), old)

    def _used(self) -> tuple[str, ...]:
        """The input columns that keys and state read."""
        used = frozenset(self.aggregate.keys).union(*(references(state.full) for state in self.states.values()))
        return tuple(name for name in self.aggregate.input.columns if name in used)


def plan_storage(tree: Operator, types_of: TypesOf, settings: Settings) -> Storage:
    """How the result of a normalised tree, whose columns have the user's names, is stored."""
    outputs, condition, below = split_root(tree)
    if compared_whole(below):
        return Compared(tree.columns, tree)
    if isinstance(below, Over) and condition is None:
        return _partitions(tree, below, outputs) or Storage(tree.columns, tree)
    if isinstance(below, LeftJoin) and condition is None:
        return _padded(tree, below, outputs, types_of) or Storage(tree.columns, tree)
    if not isinstance(below, Aggregate):
        return Storage(tree.columns, tree)
    key_names = {output.source: output.name for output in reversed(outputs) if output.source in below.keys}
    unnamed = [key for key in below.keys if key not in key_names]
    key_names |= {key: hidden("key", number) for number, key in enumerate(unnamed, start=1)}
    kept = tuple(Output(key_names[key], column(key)) for key in unnamed)
    if condition is not None:
        # A condition that is NULL hides the row just as FALSE does.
        kept += (Output(VISIBLE, case(condition, exp.true(), exp.false())),)
    recipes = _recipes(below, types_of, settings)
    if recipes is None:
        stored_outputs = outputs + kept
        contents = Project(below, stored_outputs)
        return Groups(tree.columns, contents, below, stored_outputs, key_names)
    return _stateful(tree.columns, below, outputs + kept, key_names, recipes, types_of)


def _partitions(tree: Operator, over: Over, outputs: tuple[Output, ...]) -> Partitions | None:
    """The result of window functions, if all that they are computed from is stored as it is."""
    used = frozenset(over.partition).union(*(references(item.expression) for item in (*outputs, *over.outputs)))
    # Rows that an order leaves equal are told apart by all columns there are.
    needed = tuple(name for name in over.input.columns if over.total or name in used)
    kept = {output.source: output.name for output in reversed(outputs) if output.source is not None}
    if not kept.keys() >= {*needed}:
        return None
    narrow = over.with_inputs((exactly(over.input, needed),))
    return Partitions(tree.columns, tree, narrow, outputs, {name: kept[name] for name in needed})


def _padded(tree: Operator, join: LeftJoin, outputs: tuple[Output, ...], types_of: TypesOf) -> Padded | None:
    """The result of an outer join, if its rows show all of the left as it is, and whether there is a match."""
    if join.kind is not Kind.OUTER:
        return None
    shown = {output.source: output.name for output in reversed(outputs) if output.source is not None}
    conditions = conjuncts(join.condition)
    if isinstance(join.right, Filter):
        conditions += conjuncts(join.right.condition)
    matches = (
        shown[name]
        for name in join.right.columns
        if name in shown and any(rejects_null(part, (name,)) for part in conditions)
    )
    match = next(matches, None)
    if match is None or not join.left.columns or not shown.keys() >= {*join.left.columns}:
        return None
    if not all(_EQUAL_ALIKE.fullmatch(type_) for type_ in types_of(join.left).values()):
        return None
    return Padded(tree.columns, tree, join, outputs, {name: shown[name] for name in join.left.columns}, match)


_EQUAL_ALIKE = re.compile(r"(tiny|small|big)?int|decimal\(.*\)|string|binary|boolean|date|timestamp(_ntz)?")
"""Types of which equal values are alike in everything; 0.0 and -0.0 are not."""


def _recipes(aggregate: Aggregate, types_of: TypesOf, settings: Settings) -> dict[str, Recipe] | None:
    """A recipe for every aggregate, or None if one of them has none."""
    results = types_of(aggregate)
    values = {out.name: value for out in aggregate.aggregates if (value := argument(out.expression)) is not None}
    arguments: Mapping[str, str] = {}
    if values:
        arguments = types_of(Project(aggregate.input, tuple(Output(name, value) for name, value in values.items())))
    recipes: dict[str, Recipe] = {}
    for output in aggregate.aggregates:
        found = recipe(output.expression, arguments.get(output.name, ""), results[output.name], settings)
        if found is None:
            return None
        recipes[output.name] = found
    return recipes


def _stateful(
    public: tuple[str, ...],
    aggregate: Aggregate,
    outputs: tuple[Output, ...],
    key_names: Mapping[str, str],
    recipes: Mapping[str, Recipe],
    types_of: TypesOf,
) -> StatefulGroups:
    names: dict[StateColumn, str] = {_COUNT_STATE: COUNT}
    finished: dict[str, exp.Expr] = {}
    for output_name, item in recipes.items():
        for state in item.states:
            names.setdefault(state, hidden("state", len(names)))
        finished[output_name] = item.finish(tuple(column(names[state]) for state in item.states))
    states = {name: state for state, name in names.items()}
    with_state = Aggregate(
        aggregate.input, aggregate.keys, tuple(Output(name, state.full) for name, state in states.items())
    )
    stored_outputs = tuple(Output(out.name, substitute(out.expression, finished)) for out in outputs)
    stored_outputs += tuple(Output(name, _held(state, names)) for name, state in states.items())
    return StatefulGroups(
        public,
        Project(with_state, stored_outputs),
        with_state,
        stored_outputs,
        key_names,
        states,
        types_of(with_state),
    )


def _held(state: StateColumn, names: Mapping[StateColumn, str]) -> exp.Expr:
    """A state as it is stored, the same after a full load and after any number of changes."""
    own = column(names[state])
    return own if state.present is None else if_any(column(names[state.present]), own)


_COUNT_STATE = StateColumn(exp.Count(this=exp.Star(), big_int=True), call("sum", column(WEIGHT)))
