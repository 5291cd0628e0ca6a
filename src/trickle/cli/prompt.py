"""The prompt of `trickle sql`: statements over several lines, with history, colours and completion.

Spark starts in the background while the first statement is being typed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer, PygmentsLexer
from rich.text import Text
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

import trickle
from trickle.cli.command import Invocation, as_trickle_error
from trickle.sql.statements import split_statements
from trickle.sql.tokens import tokenize

Handler = Callable[[Invocation, str], None]
"""Runs one statement and shows what it returns; raises what stopped it."""

HISTORY_FILE = "sql_history"
LEAVING = frozenset({"\\q", "exit", "quit"})
HELP = """\
Statements end with ; and may take several lines. Everything Spark SQL knows works, and:

  CREATE [OR REPLACE] STREAM TABLE [IF NOT EXISTS] name
      [SCHEDULE '1m'] [REFRESH MODE AUTO | DIFFERENTIAL | FULL] [COMMENT '…'] AS SELECT …;
  REFRESH STREAM TABLE name [FULL];       REFRESH STREAM TABLES;
  EXPLAIN STREAM TABLE name;              DESCRIBE STREAM TABLE name;
  SHOW STREAM TABLES;                     SHOW REFRESH HISTORY [FOR name];
  ALTER STREAM TABLE name SET SCHEDULE '…' | SET REFRESH MODE … | AS SELECT …
                          | SUSPEND | RESUME | RENAME TO …;
  DROP STREAM TABLE [IF EXISTS] name [CASCADE];

  \\?  this help      \\q, exit or Ctrl-D  leave      Ctrl-C  give up the statement"""

KEYWORDS = tuple(
    """ALTER AND AS AUTO BETWEEN BY CASE CAST COMMENT COUNT CREATE CROSS DELETE DESCRIBE DIFFERENTIAL DISTINCT DROP ELSE
    END EXCEPT EXISTS EXPLAIN FROM FULL GROUP HAVING HISTORY IF IN INNER INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT
    MAX MERGE MIN MODE NOT NULL ON OR ORDER OUTER OVER PARTITION REFRESH REPLACE RESUME RIGHT SCHEDULE SELECT SET SHOW
    STREAM SUM SUSPEND TABLE TABLES THEN TRUNCATE UNION UPDATE USING VALUES VIEW WHEN WHERE WITH""".split()
)


def run_prompt(run: Invocation, handle: Handler) -> int:
    """Asks for statements until the user leaves. An error ends its statement, not the session."""
    t = run.connect()
    warm = _Background(lambda: t.spark)
    session: PromptSession[str] = PromptSession(
        message=FormattedText([("bold fg:ansigreen", "trickle> ")]),
        history=_history(run.root),
        lexer=_lexer(),
        completer=_Names(t),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        multiline=Condition(lambda: not is_complete(session.default_buffer.text)),
        prompt_continuation=lambda width, *_: " " * width,
        key_bindings=_keys(),
    )
    run.console.say(
        Text(f"trickle {trickle.__version__}, warehouse {run.root}; \\? for help, \\q to leave", style="dim")
    )
    while True:
        try:
            text = session.prompt().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if text.rstrip(";").strip().lower() in LEAVING:
            return 0
        if text.rstrip(";").strip() == "\\?":
            run.console.say(Text(HELP))
            continue
        _run(run, text, handle, warm)


def _run(run: Invocation, text: str, handle: Handler, warm: _Background) -> None:
    for statement in split_statements(text):
        try:
            with run.console.working("starting Spark…"):
                warm.wait()
            handle(run, statement)
        except KeyboardInterrupt:
            run.console.say(Text("given up", style="dim"))
            return
        except Exception as error:
            if run.debug:
                raise
            run.console.error(as_trickle_error(error))
            return
        finally:
            run.console.finish()


def is_complete(text: str) -> bool:
    """Whether Enter ends the input: nothing typed, a command of the prompt, or a statement with its semicolon.

    >>> is_complete("SELECT ';'"), is_complete("SELECT ';';"), is_complete("SELECT 1 -- ;"), is_complete("exit")
    (False, True, False, True)
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in LEAVING:
        return True
    try:
        tokens = tokenize(stripped)
    except SqlglotError:
        return False  # a text or a comment is still open
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


class _Background:
    """Something slow, done while the user is typing; a failure is raised where the result is needed."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._do, daemon=True)
        self._thread.start()

    def _do(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error

    def wait(self) -> None:
        while self._thread.is_alive():
            self._thread.join(0.1)  # in slices, or Ctrl-C would have to wait too
        if self._error is not None:
            raise self._error


class _Names(Completer):
    """Keywords, stream tables and their sources."""

    def __init__(self, t: trickle.Trickle) -> None:
        self._t = t

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        word = document.get_word_before_cursor()
        if not word:
            return
        tables = self._t.stream_tables()
        names = {name for table in tables for name in (table.name, *table.sources)}
        for candidate in (*sorted(names), *KEYWORDS):
            if candidate.lower().startswith(word.lower()):
                yield Completion(candidate, start_position=-len(word))


def _history(root: str) -> History:
    try:
        return FileHistory(str(Path(root) / HISTORY_FILE))
    except OSError:
        return InMemoryHistory()


def _lexer() -> Lexer | None:
    """Colours, where pygments is there to make them."""
    try:
        from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped] # noqa: PLC0415
    except ImportError:
        return None
    return PygmentsLexer(SqlLexer)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        """Alt-Enter sends what is there, semicolon or not."""
        event.current_buffer.validate_and_handle()

    return keys
