"""Documents name what exists, and nothing the program knows is missing from them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from paradraft.app.config import Config
from paradraft.cli.main import app
from paradraft.core.sampling import SamplingParams
from paradraft.lab.doctor.checks import CHECKS
from support.source_tree import PACKAGE, ROOT, modules

DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
FENCE = re.compile(r"```.*?```", re.DOTALL)
ROOT_COMMAND = typer.main.get_command(app)
GROUPS = {name: command for name, command in ROOT_COMMAND.commands.items() if hasattr(command, "commands")}
COMMAND = re.compile(rf"paradraft ((?:(?:{'|'.join(GROUPS)}) )?[a-z]+)")
OPTION = re.compile(r"--[a-z][a-z-]+")
KNOWN_DIRECTORIES = {entry.name for entry in ROOT.iterdir() if entry.is_dir()} | {
    entry.name for entry in PACKAGE.iterdir() if entry.is_dir()
}


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def heading_slugs(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(path):
    for target, anchor in LINK.findall(text_of(path)):
        if "://" in target:
            continue
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor[1:] in heading_slugs(file), f"{path.name}: {target}{anchor}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_paths_in_code_marks_exist(path):
    for code in CODE.findall(FENCE.sub("", text_of(path))):
        looks_like_path = "/" in code and PATH.fullmatch(code) and code.split("/")[0] in KNOWN_DIRECTORIES
        if looks_like_path:
            assert (ROOT / code).exists() or (PACKAGE / code).exists(), f"{path.name}: {code}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_class_names_in_code_marks_exist(path):
    source = "\n".join(text_of(module.path) for module in modules())
    words = set(re.findall(r"\w+", source)) | {"EchoDrafter", "DRAFTERS"}
    for code in CODE.findall(FENCE.sub("", text_of(path))):
        if re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]+)*(\.\w+)?", code):
            assert set(code.split(".")) <= words, f"{path.name}: {code}"


def commands() -> dict[str, set[str]]:
    """Return each command with its options."""
    groups = {"": ROOT_COMMAND, **{f"{name} ": group for name, group in GROUPS.items()}}
    return {
        prefix + name: {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for prefix, group in groups.items()
        for name, command in group.commands.items()
    }


def test_commands_and_their_options_in_documents_exist():
    known = commands()
    for path in DOCS:
        for line in text_of(path).splitlines():
            if not line.startswith("paradraft ") and "| paradraft " not in line:
                continue
            for part in re.split(r"\|", line):
                found = COMMAND.match(part.strip())
                if found:
                    assert found[1] in known, f"{path.name}: {line}"
                    options = set(OPTION.findall(part.split("#")[0]))
                    assert options <= known[found[1]], f"{path.name}: {line}"


def test_make_targets_in_documents_exist():
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for path in DOCS:
        assert set(re.findall(r"^make ([a-z]+)$|`make ([a-z]+)`", text_of(path), re.MULTILINE)) <= {
            pair for target in targets for pair in ((target, ""), ("", target))
        }, path.name


def test_the_usage_page_has_every_command_and_option():
    page = text_of(ROOT / "docs" / "usage.md")
    for name, options in commands().items():
        assert name.split()[-1] in page
        long = {option for option in options if option.startswith("--") and option != "--help"}
        missing = [option for option in long if not re.search(rf"{option}\b", page)]
        assert not missing, f"{name}: {missing}"


@pytest.mark.parametrize("record", [Config, SamplingParams])
def test_the_usage_page_has_every_field_with_its_default(record):
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", section(record), re.MULTILINE))
    assert rows.keys() == {field.name for field in fields(record)}
    for field in fields(record):
        if isinstance(field.default, (str, int, float)):
            word = str(field.default)
            assert rows[field.name] == f"`{word.lower() if word in ('True', 'False') else word}`"
        elif field.default is None:
            assert rows[field.name] == "none"


def section(record: type) -> str:
    page = text_of(ROOT / "docs" / "usage.md")
    options, _, sampling = page.partition("## Sampling parameters")
    return options.partition("## Options")[2] if record is Config else sampling.partition("## Results")[0]


def test_the_usage_page_has_every_line_of_the_doctor():
    page = text_of(ROOT / "docs" / "usage.md")
    names = {check.__name__.removeprefix("check_").replace("cores", "threads") for check in CHECKS}
    assert not [name for name in names if f"`{name}`" not in page]


def test_the_readme_sets_up_with_exactly_two_commands():
    blocks = re.findall(r"```sh\n(.*?)```", text_of(ROOT / "README.md"), re.DOTALL)
    assert blocks[0] == "make demo\nmake test\n"
    assert "## Try it" in text_of(ROOT / "README.md").split("```")[0]


def test_the_glossary_is_in_order():
    words = re.findall(r"^\| ([\w, -]+) \|", text_of(ROOT / "docs" / "glossary.md"), re.MULTILINE)[1:]
    words = [word for word in words if word != "---"]
    assert words == sorted(words)
