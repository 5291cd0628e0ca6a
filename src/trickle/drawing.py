"""Drawing: the dependency graph as a tree for a terminal, and in the languages of Graphviz and Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trickle.catalog.model import StreamTable
from trickle.errors import UserError
from trickle.graph import Graph


@dataclass(frozen=True)
class Drawing:
    """Names and who reads whom, by name."""

    tables: tuple[StreamTable, ...]
    reads: dict[str, tuple[str, ...]]
    """Name of a stream table → the names it reads, stream tables and others."""

    @staticmethod
    def of(graph: Graph) -> Drawing:
        tables = tuple(graph.shown(table) for table in sorted(graph.visible(), key=lambda table: table.name))
        return Drawing(tables, {table.name: tuple(dict.fromkeys(table.sources)) for table in tables})

    @property
    def sources(self) -> list[str]:
        """What is read and is no stream table."""
        return sorted({name for names in self.reads.values() for name in names} - self.reads.keys())

    @property
    def edges(self) -> Iterator[tuple[str, str]]:
        """(what is read, who reads it)."""
        return ((source, name) for name, sources in self.reads.items() for source in sources)


def draw(graph: Graph, form: str = "tree") -> str:
    """Raises UserError for a form that is not known."""
    if form not in FORMS:
        raise UserError("bad-format", f'"{form}" is not a way to draw a graph', hint=f"{', '.join(FORMS)}.")
    return FORMS[form](Drawing.of(graph))


def _tree(drawing: Drawing) -> str:
    """From what nobody reads down to the sources; what was shown before is not taken apart again."""
    if not drawing.tables:
        return "no stream tables yet"
    told = {table.name: _told(table) for table in drawing.tables}
    read = {source for source, _ in drawing.edges}
    shown: set[str] = set()

    def lines(name: str, head: str, tail: str) -> Iterator[str]:
        below = drawing.reads.get(name, ())
        again = name in shown and bool(below)
        yield f"{head}{name}{told.get(name, '')}{' …' if again else ''}"
        shown.add(name)
        for number, source in enumerate(() if again else below):
            last = number == len(below) - 1
            yield from lines(source, tail + ("└─ " if last else "├─ "), tail + ("   " if last else "│  "))

    return "\n".join(line for table in drawing.tables if table.name not in read for line in lines(table.name, "", ""))


def _told(table: StreamTable) -> str:
    words = [table.mode.value, table.schedule or "by hand", *(["SUSPENDED"] if table.status == "SUSPENDED" else [])]
    return f"  ({', '.join(words)})"


def _dot(drawing: Drawing) -> str:
    def quoted(name: str) -> str:
        return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return _block(
        "digraph trickle {",
        [
            "rankdir=LR;",
            "node [shape=box];",
            *(f"{quoted(name)} [shape=cylinder];" for name in drawing.sources),
            *(f"{quoted(table.name)} [style=rounded];" for table in drawing.tables),
            *(f"{quoted(source)} -> {quoted(name)};" for source, name in drawing.edges),
        ],
        "}",
    )


def _mermaid(drawing: Drawing) -> str:
    names = [*drawing.sources, *(table.name for table in drawing.tables)]
    ids = {name: f"n{number}" for number, name in enumerate(names)}

    def quoted(name: str) -> str:
        return '"' + name.replace("#", "#35;").replace('"', "#quot;") + '"'

    return _block(
        "graph LR",
        [
            *(f"{ids[name]}[({quoted(name)})]" for name in drawing.sources),
            *(f"{ids[table.name]}({quoted(table.name)})" for table in drawing.tables),
            *(f"{ids[source]} --> {ids[name]}" for source, name in drawing.edges),
        ],
    )


def _block(opening: str, lines: Iterable[str], closing: str | None = None) -> str:
    return "\n".join([opening, *(f"  {line}" for line in lines), *([closing] if closing else [])])


FORMS: dict[str, Callable[[Drawing], str]] = {"tree": _tree, "dot": _dot, "mermaid": _mermaid}
