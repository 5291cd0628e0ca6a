"""Tally: what was checked, and how much of SQL that was."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from laws.features import ALL_PAIRS, FEATURES, Pair, features, pairs


@dataclass
class Tally:
    """Queries by what they use and what their trees need; refreshes that ran a program, and what they did."""

    queries: int = 0
    refreshes: int = 0
    effective: int = 0
    """Refreshes that changed the result."""
    techniques: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)
    recomputed: Counter[str] = field(default_factory=Counter)
    """Queries with a node that has no rule but after − before, by the reason."""
    not_modelled: Counter[str] = field(default_factory=Counter)
    """Queries that have no tree at all, by the reason."""
    laws: Counter[str] = field(default_factory=Counter)
    """How often each law was checked."""

    def meet(self, query: str) -> None:
        """Counts a query by what it uses."""
        found = features(query)
        self.queries += 1
        self.features.update(found)
        self.pairs.update(pairs(found))

    def add(self, other: Tally) -> None:
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, item.name, mine + theirs)

    @property
    def by_rule(self) -> float:
        """The share of queries that are maintained by rules alone."""
        others = sum(self.recomputed.values()) + sum(self.not_modelled.values())
        return 1 - others / max(1, self.queries)

    @property
    def unseen_features(self) -> list[str]:
        return [feature for feature in FEATURES if not self.features[feature]]

    @property
    def unseen_pairs(self) -> list[Pair]:
        return sorted(pair for pair in ALL_PAIRS if not self.pairs[pair])

    @property
    def pair_coverage(self) -> float:
        return 1 - len(self.unseen_pairs) / len(ALL_PAIRS)

    def summary(self) -> str:
        """All of it in a few lines."""
        unseen = self.unseen_pairs
        lines = [
            f"{self.queries} queries, {self.refreshes} refreshes, {self.effective} of them changed the result",
            f"laws: {_listed(self.laws)}",
            f"techniques: {_listed(self.techniques)}",
            f"maintained by rule: {self.by_rule:.1%} of the queries",
            f"after − before: {_listed(self.recomputed) or 'none'}",
            f"not modelled: {_listed(self.not_modelled) or 'none'}",
            f"features: {len(FEATURES) - len(self.unseen_features)} of {len(FEATURES)}",
            f"pairs of features: {len(ALL_PAIRS) - len(unseen)} of {len(ALL_PAIRS)} ({self.pair_coverage:.1%})",
        ]
        if unseen:
            lines.append("unseen: " + "; ".join(f"{first} + {second}" for first, second in unseen[:_SHOWN]))
        return "\n".join(lines)

    def matrix(self) -> str:
        """How often each pair of features was met, as a triangle."""
        width = max(map(len, FEATURES))
        lines = []
        for place, feature in enumerate(FEATURES):
            counts = (self.pairs[other, feature] for other in FEATURES[:place])
            lines.append(f"{place:2} {feature:{width}} " + " ".join(f"{count:4}" for count in counts))
        return "\n".join(lines)


_SHOWN = 60


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
