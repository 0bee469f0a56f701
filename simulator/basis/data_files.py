"""A user's word for a file of facts: a name of one that ships with the package, or a path."""

from __future__ import annotations

from pathlib import Path

from simulator.basis.errors import InputError, unknown_name

_SUFFIXES = (".yaml", ".yml", ".json")


def is_path(name_or_path: str | Path) -> bool:
    """True where the word is a path: it ends like a data file or holds a separator."""
    if isinstance(name_or_path, Path):
        return True
    word = name_or_path.lower()
    return word.endswith(_SUFFIXES) or "/" in word or "\\" in word


def named_after(name: str, path: Path) -> str:
    """Name of facts from a file of the user's: what stands in it, and the file."""
    return f"{name} ({path.name})"


def path_beside(file: str | Path, name_or_path: str) -> str:
    """What a file calls by name or path: a relative path is found from the file's folder."""
    if not is_path(name_or_path):
        return name_or_path
    given = Path(name_or_path).expanduser()
    return str(given if given.is_absolute() else Path(file).parent / given)


def list_data_names(folder: Path) -> list[str]:
    """Names of the YAML files that ship in a folder beside the code, sorted."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def find_data_file(what: str, name_or_path: str | Path, folder: Path) -> Path:
    """Path of a shipped file by its name, or of the user's own file.

    An unknown name is an InputError with the nearest one; a missing file says so.
    """
    if is_path(name_or_path):
        path = Path(name_or_path)
        try:
            found = path.is_file()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{what} file {str(path)!r} cannot be opened: {reason}") from None
        if not found:
            reason = "it is no regular file" if path.exists() else f"no such {what} file"
            raise InputError(f"{path}: {reason}")
        return path
    name = str(name_or_path)
    path = folder / f"{name.lower()}.yaml"
    names = list_data_names(folder)
    if name.lower() not in (known.lower() for known in names):
        raise InputError(f"{unknown_name(what, name, names)}; a path to a YAML file also works")
    return path
