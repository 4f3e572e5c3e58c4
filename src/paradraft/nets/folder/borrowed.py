"""Tensors that a drafter folder leaves to its target, since they are rows of the target's tables bit for bit.

Most of a reduced vocabulary's head need not lie in two files: d2t says which rows of the target's it is. A folder names
what it leaves out, and its card the target that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.models.stored import EVERY, StoredTensor, Table
from paradraft.models.tables import Tables
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.card import Card, TargetFacts
from paradraft.nets.folder.state import widest_type
from paradraft.nets.formats.layout import State
from paradraft.nets.shapes import EMBEDDING, HEAD, OFFSETS, Shape, wanted_tensors


def without_rows(state: State, config: NetConfig, tables: Tables) -> State:
    """Return the tensors without those that the target's tables give again bit by bit."""
    rest = {name: tensor for name, tensor in state.items() if name not in (HEAD, EMBEDDING)}
    if not rest:
        return state
    kind = widest_type(rest)
    again = _rows(frozenset(state) - frozenset(rest), rest, config, tables, kind)
    return {name: tensor for name, tensor in state.items() if not _is_same(tensor, again.get(name))}


def with_rows(state: State, config: NetConfig, names: frozenset[str], tables: Tables) -> State:
    """Return the tensors with those that were left out, in the type of the others."""
    return {**state, **_rows(names, state, config, tables, widest_type(state))} if names else state


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NetTensors:
    """All that a network is made of, whosever it is."""

    state: Mapping[str, StoredTensor]  # its tensors, the head [Vd, d] among them
    embedding: Table  # [V, d]


class WholeState(Mapping[str, StoredTensor]):
    """A drafter's tensors together with a head that it leaves to its target, whose rows are read when it is asked for.

    names: what its folder leaves out. tables: the target's, None if it has both tables of its own.
    """

    def __init__(self, state: State, config: NetConfig, names: frozenset[str], tables: Tables | None) -> None:
        self._state, self._config, self._names, self._tables = state, config, names, tables

    def __getitem__(self, name: str) -> StoredTensor:
        """Return a tensor; raise KeyError if there is none, ModelError for tables of another size."""
        if name != HEAD or self._tables is None or HEAD in self._state:
            return self._state[name]
        if HEAD in self._names:
            return with_rows(self._state, self._config, frozenset({HEAD}), self._tables)[HEAD]
        return self._tables.head.rows(EVERY)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter({**self._state, HEAD: None})

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._state.keys() | {HEAD})

    def __contains__(self, name: object) -> bool:
        """Whether there is such a tensor; does not read it."""
        return name in self._state or name == HEAD


def borrowed_shapes(
    config: NetConfig, names: frozenset[str], state: Mapping[str, StoredTensor], origin: str
) -> dict[str, Shape]:
    """Return the shapes of the tensors that a folder leaves out.

    Raises ModelError for a name that no target has, and for a tensor that is there all the same.
    """
    wanted = wanted_tensors(config)
    shapes = wanted.required | wanted.optional
    for name in sorted(names):
        if name not in (HEAD, EMBEDDING) or name not in shapes:
            raise ModelError(f"{origin} leaves {name} to its target, which has none.", remedy=_AGAIN)
        if name in state:
            raise ModelError(f"{origin} holds {name}, and says that it leaves it to its target.", remedy=_AGAIN)
    return {name: shapes[name] for name in names}


def require_lender(card: Card | None, facts: TargetFacts) -> None:
    """Raise AlignmentError unless a target has the very weights that a drafter's rows were left to."""
    said = None if card is None else card.target.sha256
    if said is None or said != facts.sha256:
        raise AlignmentError(
            f"The drafter leaves rows to the weights {str(said)[:12]}, and those of {facts.name} are "
            f"{str(facts.sha256)[:12]}.",
            remedy="Name the very target that its card names, or get the drafter with all its rows.",
        )


_AGAIN = "Get the folder again from its source, or export it anew with --whole."


def _rows(names: frozenset[str], state: State, config: NetConfig, tables: Tables, kind: str) -> State:
    for table in (tables.head, tables.embedding):
        if names and table.shape != (config.vocab_size, config.hidden_size):
            raise ModelError(
                f"The target's tables have shape {list(table.shape)}, the drafter's rows are from "
                f"{[config.vocab_size, config.hidden_size]}.",
                remedy="Name the target that the drafter was trained for.",
            )
    found: State = {}
    if HEAD in names:
        ids = state[OFFSETS].values + np.arange(config.draft_vocab_size) if OFFSETS in state else EVERY
        found[HEAD] = tables.head.rows(ids).in_format(kind)
    if EMBEDDING in names:
        found[EMBEDDING] = tables.embedding.rows(EVERY).in_format(kind)
    return found


def _is_same(tensor: StoredTensor, rows: StoredTensor | None) -> bool:
    is_alike = rows is not None and rows.number_format == tensor.number_format
    return is_alike and rows is not None and np.array_equal(rows.values, tensor.values)
