"""Whether nbgrader's gradebook can be used, and if not, what to do: looked at without nbgrader's own opening of it.

nbgrader makes a database that is not there, and adds tables to one of another version.
"""

from __future__ import annotations

from pathlib import Path

import nbgrader
from nbgrader.api import Base
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

REMEDY = "Back it up, then run: nbgrader db upgrade"
LOCKED = "nbgrader's gradebook is locked by another program. Close it and run the same command again: nothing is lost."
FULL = "The disk is full. Make room and run the same command again: nothing is lost."


def is_missing(url: str) -> bool:
    """Whether a gradebook in a file has no file."""
    return url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists()


def trouble_with(url: str) -> str:
    """One sentence with the remedy if the gradebook is locked, damaged, or another nbgrader's; else empty."""
    engine = create_engine(url)
    try:
        difference = _difference(engine)
    except SQLAlchemyError as error:
        words = str(error).splitlines()[0][:160]
        return known_trouble(words) or f"nbgrader's gradebook cannot be opened: {words}. Restore it from a backup."
    finally:
        engine.dispose()
    return f"nbgrader's gradebook comes from another version of nbgrader: {difference}." if difference else ""


def known_trouble(words: str) -> str:
    """The sentence for what a database or a disk said, if it is a common one; else empty."""
    if "is locked" in words:
        return LOCKED
    full = ("disk is full", "No space left", "disk quota", "File too large", "disk I/O error")
    return FULL if any(sign.lower() in words.lower() for sign in full) else ""


def _difference(engine: object) -> str:
    there = inspect(engine)
    tables = set(there.get_table_names())
    if not tables:
        return ""
    for table in Base.metadata.sorted_tables:
        columns = {column["name"] for column in there.get_columns(table.name)} if table.name in tables else set()
        missing = [column.name for column in table.columns if column.name not in columns]
        if missing:
            return f"{table.name} has no {missing[0]}. {REMEDY}"
    with engine.connect() as connection:  # type: ignore[attr-defined]
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    versions = Path(str(nbgrader.__file__)).parent / "alembic" / "versions"
    if found in {path.name.split("_")[0] for path in versions.glob("*.py")}:
        return ""
    return f"revision {found} is unknown to nbgrader {nbgrader.__version__}. Install the nbgrader that wrote it"
