"""Determinism: a query that gives another answer each time has no delta, and is refused unless refreshed FULL."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from sqlglot.tokens import Token, TokenType

from trickle.errors import Position, UserError
from trickle.sql.functions import NONDETERMINISTIC, ORDER_DEPENDENT, WITHOUT_PARENTHESES
from trickle.sql.tokens import position, tokenize

_MOMENTS = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
"""Types whose literals may be relative to the present."""


def nondeterministic(name: str, query: str, analysed: DataFrame) -> UserError | None:
    """What is wrong with a query that has an expression whose value depends on when or where it is evaluated."""
    found = _call(query)
    if found:
        function, place = found
        return _error(name, f"{function} gives another value each time it is evaluated.", query, place)
    plan: Any = analysed._jdf.queryExecution().analyzed()
    if not plan.deterministic() and not _orders_rows(query):
        return _error(name, "Spark says that an expression of this query is not deterministic.", query, None)
    return None


def nondeterministic_view(name: str, view: str, text: str) -> UserError | None:
    """The same for the text of a view that the query reads."""
    found = _call(text)
    if found:
        return _error(name, f"the view {view} has {found[0]}, which gives another value each time.", text, found[1])
    return None


def _orders_rows(query: str) -> bool:
    """Whether the query uses aggregates that Spark calls not deterministic for the order of their rows alone."""
    return any(token.text.lower() in ORDER_DEPENDENT for token in tokenize(query))


def _error(name: str, detail: str, query: str, place: Position | None) -> UserError:
    return UserError(
        "nondeterministic-function",
        f'stream table "{name}" cannot be refreshed differentially',
        detail=detail,
        hint="create it with REFRESH MODE FULL, or compute the value in the source.",
        sql=query,
        position=place,
    )


def _call(query: str) -> tuple[str, Position] | None:
    """The first word of a query that stands for something else each time, as people write it, and where it is."""
    tokens = tokenize(query)
    for index, token in enumerate(tokens):
        word = token.text.lower()
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        called = following is not None and following.token_type is TokenType.L_PAREN
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or _is_qualified(tokens, index):
            continue
        if (called and word in NONDETERMINISTIC) or _is_bare_call(token, word, called):
            return f"{word}()", position(query, token)
        if called and word == "unix_timestamp" and _closes(tokens, index + 2):
            return f"{word}()", position(query, token)
        if word in _MOMENTS and following is not None and _is_moment(following):
            return f"{word.upper()} '{following.text}'", position(query, token)
        if word == "tablesample":
            return word, position(query, token)
    return None


def _is_moment(token: Token) -> bool:
    """`DATE 'today'`, also with a time zone behind it."""
    first = token.text.strip().partition(" ")[0].lower()
    return token.token_type is TokenType.STRING and first in {"now", "today", "tomorrow", "yesterday"}


def _is_qualified(tokens: list[Token], index: int) -> bool:
    """`t.user` and `AS user` name a column, not the function."""
    before = tokens[index - 1] if index else None
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    return bool(
        (before and before.token_type in (TokenType.DOT, TokenType.ALIAS))
        or (after and after.token_type is TokenType.DOT)
    )


def _is_bare_call(token: Token, word: str, called: bool) -> bool:
    # `user` alone is far more often a column; Spark's own check decides about it.
    return not called and word in WITHOUT_PARENTHESES - {"user"} and token.token_type is not TokenType.VAR


def _closes(tokens: list[Token], index: int) -> bool:
    return index < len(tokens) and tokens[index].token_type is TokenType.R_PAREN
