"""Statements: the STREAM TABLE part of the language, as data. Everything else is Spark's and passes through.

The grammar works on tokens, so comments and keywords inside strings mean nothing, and the query after AS is kept to
the letter.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from trickle.errors import Position, UserError
from trickle.sql.tokens import position, tokenize

MODES = ("AUTO", "DIFFERENTIAL", "FULL", "IMMEDIATE")


@dataclass(frozen=True)
class Create:
    name: str
    query: str
    schedule: str | None = None
    mode: str = "AUTO"
    comment: str | None = None
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class Alter:
    """One change to a stream table; exactly one field beside the name is set."""

    name: str
    schedule: str | None = None
    mode: str | None = None
    query: str | None = None
    suspend: bool = False
    resume: bool = False
    rename_to: str | None = None


@dataclass(frozen=True)
class Drop:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Refresh:
    """`name` None means all of them, in one tick."""

    name: str | None = None
    full: bool = False


@dataclass(frozen=True)
class Explain:
    name: str


@dataclass(frozen=True)
class Show:
    pass


@dataclass(frozen=True)
class Describe:
    name: str


@dataclass(frozen=True)
class History:
    name: str | None = None


Statement = Create | Alter | Drop | Refresh | Explain | Show | Describe | History


def parse_statement(text: str) -> Statement | None:
    """The stream table statement in a text, or None where the text is Spark's business."""
    try:
        tokens = tokenize(text)
    except SqlglotError:
        return None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    words = _Words(text, tokens)
    for opening, read in _STATEMENTS:
        if words.starts(opening):
            return read(words)
    return None


def split_statements(text: str) -> list[str]:
    """The statements of a script, each to the letter, without empty ones."""
    try:
        tokens = tokenize(text)
    except SqlglotError:
        return [text.strip()] if text.strip() else []
    statements: list[str] = []
    first: Token | None = None
    last: Token | None = None
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if first and last:
                statements.append(text[first.start : last.end + 1])
            first = last = None
            continue
        first, last = first or token, token
    if first and last:
        statements.append(text[first.start : last.end + 1])
    return statements


class _Words:
    """A cursor over tokens that knows where in the text it stands."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._at = 0

    def starts(self, words: str) -> bool:
        """Whether the text opens with these words."""
        opening = self._tokens[: len(words.split())]
        return " ".join(token.text.upper() for token in opening) == words

    def accept(self, *words: str) -> bool:
        """Steps over the words if they come next."""
        following = self._tokens[self._at : self._at + len(words)]
        if len(following) == len(words) and all(
            token.text.upper() == word and token.token_type is not TokenType.STRING
            for token, word in zip(following, words, strict=True)
        ):
            self._at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.unexpected(f"expected {' '.join(words)}")

    def name(self) -> str:
        """A possibly qualified name, to the letter."""
        start = self._token("a name").start
        while True:
            token = self._token("a name")
            if not _is_name(token):
                raise self.unexpected("expected a name")
            self._at += 1
            following = self._peek()
            if following is None or following.token_type is not TokenType.DOT:
                return self.text[start : token.end + 1]
            self._at += 1

    def string(self) -> str:
        token = self._token("a quoted text")
        if token.token_type is not TokenType.STRING:
            raise self.unexpected("expected a quoted text")
        self._at += 1
        return token.text

    def rest(self) -> str:
        """All that follows, to the letter."""
        start = self._token("a query").start
        end = self._tokens[-1].end
        self._at = len(self._tokens)
        return self.text[start : end + 1]

    def end(self) -> None:
        if self._peek():
            raise self.unexpected("expected the end of the statement")

    def unexpected(self, wanted: str) -> UserError:
        token = self._peek()
        if token:
            place = position(self.text, token)
            return UserError("syntax-error", f'{wanted}, found "{token.text}"', sql=self.text, position=place)
        lines = self.text.rstrip().split("\n")
        return UserError(
            "syntax-error", f"{wanted}, found the end", sql=self.text, position=Position(len(lines), len(lines[-1]) + 1)
        )

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _token(self, wanted: str) -> Token:
        token = self._peek()
        if token is None:
            raise self.unexpected(f"expected {wanted}")
        return token


def _is_name(token: Token) -> bool:
    if token.token_type is TokenType.STRING:
        return False
    return token.token_type is TokenType.IDENTIFIER or token.text[:1].isalnum() or token.text[:1] == "_"


def _create(words: _Words) -> Create:
    words.expect("CREATE")
    replace = words.accept("OR", "REPLACE")
    words.expect("STREAM")
    words.expect("TABLE")
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.name()
    options: dict[str, str] = {}
    while not words.accept("AS"):
        if words.accept("SCHEDULE"):
            options["schedule"] = _schedule(words)
        elif words.accept("REFRESH", "MODE"):
            options["mode"] = _mode(words)
        elif words.accept("COMMENT"):
            options["comment"] = words.string()
        else:
            raise words.unexpected("expected SCHEDULE, REFRESH MODE, COMMENT or AS")
    return Create(
        name,
        words.rest(),
        options.get("schedule"),
        options.get("mode", "AUTO"),
        options.get("comment"),
        replace,
        if_not_exists,
    )


def _schedule(words: _Words) -> str:
    return "CALCULATED" if words.accept("CALCULATED") else words.string()


def _mode(words: _Words) -> str:
    for mode in MODES:
        if words.accept(mode):
            return mode
    raise words.unexpected(f"expected one of {', '.join(MODES)}")


def _alter(words: _Words) -> Alter:
    words.expect("ALTER")
    words.expect("STREAM")
    words.expect("TABLE")
    name = words.name()
    if words.accept("AS"):
        return Alter(name, query=words.rest())
    result: Alter | None = None
    if words.accept("SET", "SCHEDULE"):
        result = Alter(name, schedule=_schedule(words))
    elif words.accept("SET", "REFRESH", "MODE"):
        result = Alter(name, mode=_mode(words))
    elif words.accept("SUSPEND"):
        result = Alter(name, suspend=True)
    elif words.accept("RESUME"):
        result = Alter(name, resume=True)
    elif words.accept("RENAME", "TO"):
        result = Alter(name, rename_to=words.name())
    if result is None:
        raise words.unexpected("expected SET SCHEDULE, SET REFRESH MODE, AS, SUSPEND, RESUME or RENAME TO")
    words.end()
    return result


def _drop(words: _Words) -> Drop:
    words.expect("DROP")
    words.expect("STREAM")
    words.expect("TABLE")
    if_exists = words.accept("IF", "EXISTS")
    name = words.name()
    cascade = words.accept("CASCADE")
    words.end()
    return Drop(name, if_exists, cascade)


def _refresh(words: _Words) -> Refresh:
    words.expect("REFRESH")
    words.expect("STREAM")
    if words.accept("TABLES"):
        words.end()
        return Refresh()
    words.expect("TABLE")
    name = words.name()
    full = words.accept("FULL")
    words.end()
    return Refresh(name, full)


def _explain(words: _Words) -> Explain:
    return Explain(_named(words, "EXPLAIN"))


def _describe(words: _Words) -> Describe:
    return Describe(_named(words, "DESCRIBE"))


def _named(words: _Words, verb: str) -> str:
    words.expect(verb)
    words.expect("STREAM")
    words.expect("TABLE")
    name = words.name()
    words.end()
    return name


def _show(words: _Words) -> Show:
    words.expect("SHOW")
    words.expect("STREAM")
    words.expect("TABLES")
    words.end()
    return Show()


def _history(words: _Words) -> History:
    words.expect("SHOW")
    words.expect("REFRESH")
    words.expect("HISTORY")
    name = words.name() if words.accept("FOR") else None
    words.end()
    return History(name)


_STATEMENTS = (
    ("CREATE STREAM", _create),
    ("CREATE OR REPLACE STREAM", _create),
    ("ALTER STREAM", _alter),
    ("DROP STREAM", _drop),
    ("REFRESH STREAM", _refresh),
    ("EXPLAIN STREAM", _explain),
    ("DESCRIBE STREAM", _describe),
    ("SHOW STREAM", _show),
    ("SHOW REFRESH", _history),
)
