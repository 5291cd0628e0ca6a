"""Tokens of Spark SQL, with their places. Unlike sqlglot's own tokenizer this one does not swallow whole commands."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.tokens import Token, TokenType

from trickle.dialect import SparkSql
from trickle.errors import Position


class _Tokenizer(SparkSql.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()


def tokenize(text: str) -> list[Token]:
    """Raises sqlglot.errors.TokenError where the text has no end, such as an open string."""
    return _Tokenizer(dialect=SparkSql).tokenize(text)


def mentioned(text: str) -> set[str]:
    """Every word that could be a name, in lower case."""
    return {token.text.lower() for token in tokenize(text) if token.token_type is not TokenType.STRING}


def position(text: str, token: Token) -> Position:
    return Position.of(text, token.start, token.end)
