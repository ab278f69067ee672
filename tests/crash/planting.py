"""How bugs are planted in a copy of the checkout."""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Replaced:
    """A function, a method or a constant of Python that is replaced; no constant that the tests import too.

    Attributes:
        name: What the bug breaks.
        target: What is replaced, as it is imported: module, class if there is one, and name.
        wrong: Statements that define `wrong`, in the namespace of the module; `right` is the original.
        tests: What finds it: files, or test ids.
    """

    name: str
    target: str
    wrong: str
    tests: tuple[str, ...]

    def plant(self, copy: Path) -> None:
        """Replace it at the end of its module, so that every process of the copy has the bug."""
        path, name = self._place()
        with (copy / path).open("a", encoding="utf-8") as module:
            module.write(f"\n\nright = {name}\n{self.wrong}\n{name} = wrong\n")

    def trouble(self) -> str | None:
        """Why it cannot be planted; None if it can."""
        path, name = self._place()
        module = importlib.import_module(".".join(path.with_suffix("").parts))
        found: object = module
        for part in name.split("."):
            found = getattr(found, part, None)
            if found is None:
                return f"{path} has no {name}"
        return None

    def _place(self) -> tuple[Path, str]:
        """The module's file, and the name within it."""
        words = self.target.split(".")
        for length in range(len(words) - 1, 0, -1):
            path = Path(*words[:length]).with_suffix(".py")
            if (CHECKOUT / path).exists():
                return path, ".".join(words[length:])
        raise LookupError(f"there is no module of {self.target}")


@dataclass(frozen=True)
class ReplacedSql:
    """A function of sql/functions that is replaced.

    Attributes:
        name: What the bug breaks.
        target: The function's name.
        wrong: The function as it is created instead, with the same arguments.
        tests: What finds it: files, or test ids.
    """

    name: str
    target: str
    wrong: str
    tests: tuple[str, ...]

    def plant(self, copy: Path) -> None:
        """Create the function again after the right one."""
        with (copy / self._files()[0]).open("a", encoding="utf-8") as file:
            file.write(f"\ncreate or replace function asyncq.{self.target}{self.wrong};\n")

    def trouble(self) -> str | None:
        """Why it cannot be planted; None if it can."""
        files = self._files()
        if len(files) != 1:
            return f"sql/functions creates {self.target} in {len(files)} files"
        head = self.wrong.partition(" returns ")[0]
        created = " ".join((CHECKOUT / files[0]).read_text("utf-8").split())
        is_same = f"function asyncq.{self.target}{head} returns " in created
        return None if is_same else f"{self.target} has other arguments than {head}"

    def _files(self) -> list[Path]:
        """The files that create the function."""
        created = re.compile(rf"^create or replace function asyncq\.{self.target}\(", re.MULTILINE)
        paths = sorted((CHECKOUT / "sql" / "functions").rglob("*.sql"))
        return [path.relative_to(CHECKOUT) for path in paths if created.search(path.read_text("utf-8"))]


@dataclass(frozen=True)
class Changed:
    """A bug that changes a piece of text, where there is no function to replace; see changed.py.

    Attributes:
        name: What the bug breaks.
        path: The file, from the top of the checkout.
        right: A piece of its text, which occurs once.
        wrong: What it becomes.
        tests: What finds it: files, or test ids.
    """

    name: str
    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def plant(self, copy: Path) -> None:
        """Change the text in a copy of the checkout."""
        path = copy / self.path
        path.write_text(path.read_text("utf-8").replace(self.right, self.wrong), "utf-8")

    def trouble(self) -> str | None:
        """Why it cannot be planted; None if it can."""
        count = (CHECKOUT / self.path).read_text("utf-8").count(self.right)
        if self.wrong == self.right:
            return "it changes nothing"
        return None if count == 1 else f"{self.path} has {self.right!r} {count} times, not once"
