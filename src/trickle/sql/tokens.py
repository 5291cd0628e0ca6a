"""Tokens of Spark SQL, with their places. Unlike sqlglot's own tokenizer this one does not swallow whole commands."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from trickle.errors import Position


class _Tokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()


def tokenize(text: str) -> list[Token]:
    """Raises sqlglot.errors.TokenError where the text has no end, such as an open string."""
    return _Tokenizer(dialect="spark").tokenize(text)


def position(text: str, token: Token) -> Position:
    line = text.count("\n", 0, token.start) + 1
    column = token.start - (text.rfind("\n", 0, token.start) + 1) + 1
    return Position(line, column, token.end - token.start + 1)
