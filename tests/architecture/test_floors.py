"""Who may import whom, and that nobody imports in a circle."""

from __future__ import annotations

from support.source_tree import Module, modules

# From the ground up. A room may import rooms on lower floors, and none beside it on its own.
FLOORS = (
    {"core"},
    {"kv", "verify", "scheduling", "structured", "hub", "native", "server", "observe"},
    {"models", "engine"},
    {"nets", "runtime"},
    {"drafters"},
    {"lab", "train"},
    {"app"},
    {"cli"},
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# The same inside nets: what a network is, its modules and its layouts, the folder it lies in, what serves it.
NETS = ({"config", "vocabulary"}, {"shapes"}, {"networks", "formats"}, {"folder"}, {"serving"})
NETS_FLOOR_OF = {part: number for number, parts in enumerate(NETS) for part in parts}
# The top of the package hands out public names, the large ones on first use.
TOP = {
    "paradraft.app.llm.LLM",
    "paradraft.core.grammar.Grammar",
    "paradraft.core.sampling.SamplingParams",
    "paradraft.core.version.__version__",
}


def rooms_of(module: Module) -> set[str]:
    names = (name.split(".") for name in module.imports() if name.startswith("paradraft."))
    return {parts[1] for parts in names if parts[1] in FLOOR_OF}


def test_every_room_has_a_floor():
    assert {module.room for module in modules()} - {""} == FLOOR_OF.keys()


def test_imports_run_downwards_only():
    climbing = [
        f"{module.place} imports {room}, which is not below it"
        for module in modules()
        if module.room
        for room in sorted(rooms_of(module) - {module.room})
        if FLOOR_OF[room] >= FLOOR_OF[module.room]
    ]
    assert not climbing, "\n".join(climbing)


def test_inside_nets_imports_run_downwards_too():
    parts = {module: module.name.split(".")[2] for module in modules() if module.name.startswith("paradraft.nets.")}
    assert set(parts.values()) == NETS_FLOOR_OF.keys()
    climbing = [
        f"{module.place} imports {name}"
        for module, part in parts.items()
        for name in module.imports()
        if name.startswith("paradraft.nets.")
        and name.split(".")[2] != part
        and NETS_FLOOR_OF[name.split(".")[2]] >= NETS_FLOOR_OF[part]
    ]
    assert not climbing, "\n".join(climbing)


def test_the_top_imports_its_public_names_only():
    [top] = [module for module in modules() if module.name == "paradraft"]
    found = {name for name in top.imports() if name.startswith("paradraft.") and name.count(".") == 3}
    assert found == TOP


def test_no_module_imports_itself_through_others():
    known = {module.name for module in modules()}
    graph = {module.name: {name for name in module.imports() if name in known} - {module.name} for module in modules()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " > ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    # A package and its files: importing a file runs the package's __init__, which is doc-only.
    for name in graph:
        visit(name, ())


def test_one_room_knows_the_library_of_grammars():
    assert {module.room for module in modules() if any(name.startswith("llguidance") for name in module.imports())} == {
        "structured"
    }
