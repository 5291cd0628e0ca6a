"""Determinism: a query that gives another answer each time has no delta, and is refused unless refreshed FULL."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from sqlglot.tokens import Token, TokenType

from trickle.errors import Position, UserError
from trickle.sql.functions import NONDETERMINISTIC, ORDER_DEPENDENT, WITHOUT_PARENTHESES
from trickle.sql.tokens import position, tokenize


def refuse_nondeterministic(name: str, query: str, analysed: DataFrame) -> None:
    """Raises UserError where the query calls a function whose value depends on when or where it is evaluated."""
    found = _call(query)
    if found:
        function, place = found
        raise _error(name, f"{function}() gives another value each time it is evaluated.", query, place)
    plan: Any = analysed._jdf.queryExecution().analyzed()
    if not plan.deterministic() and not _orders_rows(query):
        raise _error(name, "Spark says that an expression of this query is not deterministic.", query, None)


def refuse_nondeterministic_view(name: str, view: str, text: str) -> None:
    """The same for the text of a view that the query reads."""
    found = _call(text)
    if found:
        raise _error(name, f"the view {view} calls {found[0]}(), which gives another value each time.", text, found[1])


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
    tokens = tokenize(query)
    for index, token in enumerate(tokens):
        word = token.text.lower()
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        called = following is not None and following.token_type is TokenType.L_PAREN
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) or _is_qualified(tokens, index):
            continue
        if (called and word in NONDETERMINISTIC) or _is_bare_call(token, word, called):
            return word, position(query, token)
        if called and word == "unix_timestamp" and _closes(tokens, index + 2):
            return word, position(query, token)
        if word == "tablesample":
            return word, position(query, token)
    return None


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
