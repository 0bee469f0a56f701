"""The folders keep to their import directions; an offence names file, module and rule."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("simulator", "hwmodels", "workloads", "reports", "tests")
LEAF = "simulator.basis"

# Folder -> what of ours it may import, beside itself. The longest matching folder counts.
MAY_IMPORT = {
    "simulator/basis": (),
    "simulator/cli": ("simulator", "hwmodels", "workloads", "reports"),
    "simulator": ("hwmodels", "workloads"),
    "hwmodels": (LEAF,),
    "workloads": (LEAF,),
    "reports": ("simulator", "hwmodels", "workloads"),
}
# Packages of `simulator`, each of which may import those before it. Studies import no other study.
ORDER = (
    *("basis", "engine", "deployment", "capacity", "kernels", "count", "cost", "calibration"),
    *("cache", "evaluate", "prefix", "prove", "serve", "sweep", "plan"),
)
STUDIES = ("address", "claims", "compare", "indexer", "layout", "offload", "whatif")
# A study of published figures reruns another one.
OF_STUDIES = {("claims", "offload")}
# Library -> folders that are its home.
HOMES = {
    "simpy": ("hwmodels", "simulator"),
    "pandas": ("reports", "simulator/cli"),
    "plotly": (),
    "pyarrow": ("reports", "simulator"),
    "perfetto": ("reports",),
    "typer": ("simulator/cli",),
    "rich": ("reports", "simulator/cli"),
    "torch": (),
}


def modules_of(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    return found


def offences(relative: str, modules: list[str]) -> list[str]:
    folder = max((f for f in MAY_IMPORT if relative.startswith(f + "/")), key=len, default=None)
    if folder is None:
        return []
    own = folder.replace("/", ".")
    allowed = (own, *MAY_IMPORT[folder])
    found = []
    for module in modules:
        top = module.partition(".")[0]
        if top in OURS:
            if not any(module == a or module.startswith(a + ".") for a in allowed):
                found.append(f"{relative} imports {module}; {folder} may import {allowed}")
            if module.startswith("simulator.cli") and folder != "simulator/cli":
                found.append(f"{relative} imports {module}; nothing imports simulator.cli")
        if top in HOMES and not any(relative.startswith(home + "/") for home in HOMES[top]):
            found.append(f"{relative} imports {module}; its home is {HOMES[top]}")
    return found


def sources() -> list[Path]:
    return [path for top in OURS[:-1] for path in (ROOT / top).rglob("*.py")]


def test_every_import_follows_the_directions():
    assert len(sources()) > 50
    found = [
        offence
        for path in sources()
        for offence in offences(path.relative_to(ROOT).as_posix(), modules_of(path))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("relative", "module", "words"),
    [
        ("workloads/ops/norm.py", "hwmodels.chip", "workloads may import"),
        ("hwmodels/chip.py", "simulator.cost.step", "hwmodels may import"),
        ("simulator/basis/units.py", "workloads.graph", "simulator/basis may import"),
        ("simulator/cost/step.py", "reports.page", "simulator may import"),
        ("reports/page.py", "simulator.cli.main", "nothing imports simulator.cli"),
        ("workloads/graph.py", "pandas", "its home is"),
    ],
)
def test_an_offence_names_file_offender_and_rule(relative, module, words):
    (offence, *_) = offences(relative, [module])
    assert relative in offence
    assert module in offence
    assert words in offence


def test_the_dense_reference_shares_nothing_with_the_graph():
    modules = modules_of(ROOT / "simulator/evaluate/dense_reference.py")
    ours = {m for m in modules if m.partition(".")[0] in OURS}
    assert ours <= {"simulator.basis.errors"}


def test_facts_load_without_the_heavy_libraries():
    script = (
        "import sys; from hwmodels.chip import find_chip; "
        "from workloads.deepseek_v4.config import find_model; "
        "from workloads.deepseek_v4.graph import build_graph; "
        "find_chip('h200'); find_model('v4-pro'); "
        "print([m for m in ('simpy', 'pandas', 'plotly', 'pyarrow', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_the_product_never_reads_outside_its_folders():
    shared = "../" + "shared"
    for path in sources():
        assert shared not in path.read_text(), path


def packages_of(relative: str, modules: list[str]) -> list[tuple[str, str]]:
    """(package, imported package) of `simulator` for every import from one into another."""
    own = relative.removeprefix("simulator/").partition("/")[0].removesuffix(".py")
    others = [m.split(".")[1] for m in modules if m.startswith("simulator.")]
    return [(own, other) for other in others if other != own]


def out_of_order(own: str, other: str) -> bool:
    """Whether a package may not import another."""
    if own == "cli":
        return False
    if own in STUDIES:
        return other == "cli" or (other in STUDIES and (own, other) not in OF_STUDIES)
    return other not in ORDER[: ORDER.index(own)]


def test_packages_of_the_simulator_import_only_what_is_below_them() -> None:
    found = []
    for path in sorted((ROOT / "simulator").rglob("*.py")):
        relative = path.relative_to(ROOT).as_posix()
        if relative == "simulator/__init__.py":
            continue
        for own, other in packages_of(relative, modules_of(path)):
            if out_of_order(own, other):
                found.append(f"{relative} imports {other}, which is not below {own}")
    assert not found, found


def test_the_order_is_seen() -> None:
    assert out_of_order("engine", "cost")
    assert out_of_order("engine", "deployment")
    assert out_of_order("cost", "serve")
    assert out_of_order("layout", "offload")
    assert not out_of_order("serve", "prefix")
    assert packages_of("simulator/deployment.py", ["simulator.engine.profile"]) == [
        ("deployment", "engine")
    ]


def imported(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Modules of ours that each module imports, inside functions and for types as well."""
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        graph[name] = found & (modules.keys() - {name})
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; empty without one."""
    left = dict(graph)
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {}
    for top in OURS[:-1]:
        for path in (ROOT / top).rglob("*.py"):
            if path.name != "__init__.py":
                modules[path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")] = path
    assert circle(imported(modules)) == []
    assert circle({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == ["a", "b", "c"]
