"""Sentences of documents and of code, their lengths, and words for which the field has others."""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator

LONGEST = 40
AVERAGE = 20
LONGEST_OF_CODE = 30

DIALECT = re.compile(
    r"\b(?:told|lookout|who(?:m)?ever|dear(?:er)?|merely|thereof|in vain|to be had|anew"
    r"|(?<!progress )bars?|hears? of|for dead(?! \w)"
    r"|com(?:e|es|ing) to(?= (?:the same|what|be|an? |its|one|\d|nothing|`))|came to"
    r"|(?:goes|go|gone|went) away|(?:is|are) of(?! use)|stands?(?! (?:for|by|in|still)\b)|stood(?! still))\b",
    re.IGNORECASE,
)
"""Words and phrases that the field has others for: reported, becomes, exists, is removed, belongs to, expensive."""

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NO_PROSE = re.compile(r"^(?: {4}.*|#.*|<!--.*|!\[.*)$", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[*_)\"]*\s+(?=[\"'(*_`\[]*[A-Z0-9`\[])")
WORD = re.compile(r"[\w'’`./:<>=@-]*\w[\w'’`./:<>=@-]*")


def passages(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each paragraph, item of a list and cell of a table, with whether it is a cell."""
    text = NO_PROSE.sub("", FENCED.sub("", text))
    text = re.sub(r"`[^`]*`", "`code`", re.sub(r"\]\([^)]*\)", "]", text))
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith("|"):
            yield from ((True, cell.strip()) for row in block.splitlines() for cell in row.split("|") if cell.strip())
        else:
            items = re.split(r"^(?:[-*]|\d+\.) ", block, flags=re.MULTILINE)
            yield from ((False, " ".join(item.split())) for item in items)


def sentences(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each sentence, with whether it is in a table."""
    for is_cell, passage in passages(text):
        yield from ((is_cell, found) for found in END.split(passage) if WORD.search(found))


def length(sentence: str) -> int:
    """Count the words of a sentence; a piece of code is one."""
    return len(WORD.findall(sentence))


def faults(text: str) -> list[str]:
    """Say what a page breaks of the limits of sentences and words.

    The average is that of the sentences outside of tables, whose cells are often single words.
    """
    found = [(is_cell, sentence, length(sentence)) for is_cell, sentence in sentences(text)]
    plain = [words for is_cell, _, words in found if not is_cell]
    average = sum(plain) / max(len(plain), 1)
    return [
        *(f"{words} words: {sentence}" for _, sentence, words in found if words > LONGEST),
        *([f"{average:.1f} words on average"] if average > AVERAGE else []),
        *(f"dialect: {word[0]}: {sentence}" for _, sentence, _ in found for word in DIALECT.finditer(sentence)),
    ]


SECTION = re.compile(r"^(?:Args|Returns|Raises|Yields|Example|Examples):$")
ITEM = re.compile(r"^ {4}(?:\*{0,2}\w+|[\w., ]+): (?=\S)")
COLUMNS = re.compile(r"\S {2,}\S")
CLAUSE = re.compile(rf"{END.pattern}|; ")
VAGUE = re.compile(r"^(?:It|They|Which|What|The same)\.$")


def paragraphs(docstring: str) -> Iterator[str]:
    """Yield each paragraph of a docstring, and the text of each item of a section, without its name.

    Indented lines that belong to no item are code. Lines with gaps or a `|` are a table. Both are left out.
    """
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        found: list[list[str]] = [[]]
        in_section = False
        for line in block.splitlines():
            if SECTION.match(line):
                in_section = True
                found.append([])
            elif in_section and (item := ITEM.match(line)):
                found.append([line[item.end() :]])
            elif in_section or not (line.startswith(("  ", "|")) or COLUMNS.search(line)):
                found[-1].append(line.strip())
        yield from (" ".join(lines) for lines in found if lines)


def texts_of_code(source: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph of docstrings, each comment and each string with a blank in it, with its line.

    Comments on lines that follow each other are one text. The values in an f-string are left out.
    """
    tree = [*ast.walk(ast.parse(source))]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in tree if isinstance(node, documented) and node.body]
    docstrings = {id(node.value) for node in first if isinstance(node, ast.Expr)}
    parts = {id(part) for node in tree if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in tree:
        if isinstance(node, ast.JoinedStr):
            pieces = (str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield node.lineno, "".join(pieces)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            if id(node) in docstrings:
                yield from ((node.lineno, found) for found in paragraphs(node.value))
            elif " " in node.value:
                yield node.lineno, node.value
    if "#" in source:  # to split a source into tokens takes long
        yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != last + 1:
                yield last, " ".join(lines)
                lines = []
            lines.append(token.string.lstrip("# "))
            last = token.start[0]
    if lines:
        yield last, " ".join(lines)


SQL_COMMENT = re.compile(r"^\s*-- (.*)$")
SIGNATURE = re.compile(r"^\w+\(.*\)")
BESIDE_SQL = re.compile(r"^\s*(?!--)\S.*\s-- (.*)$")
STORED_COMMENT = re.compile(r"^comment on .* is '(.*)';$")
WIDEST = 120


def texts_of_sql(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment, with its first line: own lines that follow each other, ends of lines, stored comments.

    Tables and the signature of a query are left out.
    """
    lines: list[str] = []
    first = 0
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if text := _prose_of_sql(line):
            first = first if lines else number
            lines.append(text)
            continue
        if lines:
            yield first, " ".join(lines)
            lines = []
        if found := BESIDE_SQL.search(line) or STORED_COMMENT.match(line):
            yield number, found[1]


def faults_of_sql(source: str) -> list[str]:
    """Say which comments of an SQL file have words of the dialect, and which of their own lines are too long."""
    found = list(texts_of_sql(source))
    return [
        *(f"line {line}: dialect: {word[0]}: {text}" for line, text in found for word in DIALECT.finditer(text)),
        *(
            f"line {number}: {len(line)} characters"
            for number, line in enumerate(source.splitlines(), 1)
            if len(line) > WIDEST and _prose_of_sql(line)
        ),
    ]


def _prose_of_sql(line: str) -> str | None:
    """The text of a line that is a comment, but no line of a table and no signature."""
    found = SQL_COMMENT.match(line)
    if found and not (found[1].startswith(" ") or COLUMNS.search(found[1]) or SIGNATURE.match(found[1])):
        return found[1]
    return None


def faults_of_code(source: str) -> list[str]:
    """Say which texts of a module have words of the dialect, document nothing, or are too long.

    Texts of several lines, such as those of `--help`, hold tables and examples: their sentences are not counted.
    """
    found = list(texts_of_code(source))
    return [
        *(f"line {line}: dialect: {word[0]}: {text}" for line, text in found for word in DIALECT.finditer(text)),
        *(f"line {line}: documents nothing: {text}" for line, text in found if VAGUE.match(text)),
        *(
            f"line {line}: {length(sentence)} words: {sentence}"
            for line, text in found
            if "\n" not in text
            for sentence in CLAUSE.split(text)
            if length(sentence) > LONGEST_OF_CODE
        ),
    ]
