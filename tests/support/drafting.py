"""Drafters without an engine: batches and plans for them, and one builder for each of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.ports import Drafter
from paradraft.core.records import Batch, Origin, Plan, Proposal, RowSampling, Verdict
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.frugal import FrugalDrafter
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.ladder import LadderDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.model import ModelDrafter, ModelDrafterOptions
from paradraft.drafters.neural.selector import MeanEntropy
from paradraft.drafters.neural.uncertainty import UncertaintyDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.plain import PlainDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.layout import Table
from paradraft.drafters.table.recent import RecentDrafter
from paradraft.drafters.vocabulary import VocabularyMap
from paradraft.kv.pages import PageCache
from support.byte_tokenizer import ByteTokenizer
from support.shifted_tokenizer import ShiftedTokenizer
from support.stepped_network import SteppedStubNetwork
from support.stub_network import StubNetwork, build_neural_drafter
from support.stub_target import Law, StubScores, StubTarget, hashed_law

VOCAB = 64
GREEDY = SamplingParams(temperature=0.0)
DRAFT_LAW = hashed_law(VOCAB, salt=5)


@dataclass(frozen=True, kw_only=True)
class RowText:
    """One row of a step: everything known, and how much of it the target has cached."""

    tokens: Sequence[int]
    row: int = 0
    prompt_len: int = 0  # 0: all but the last token
    cached: int | None = None  # None: all but the last token
    num_pending: int | None = None  # None: all that is not cached
    params: SamplingParams = GREEDY
    seed: int = 7
    tenant: str = ""


def batch_for(*rows: RowText) -> Batch:
    """Return a batch without target pages, which drafters do not read."""
    cached = [len(row.tokens) - 1 if row.cached is None else row.cached for row in rows]
    pending = [
        len(row.tokens) - at if row.num_pending is None else row.num_pending
        for row, at in zip(rows, cached, strict=True)
    ]
    histories = [ints(row.tokens) for row in rows]
    parts = [known[at : at + count] for known, at, count in zip(histories, cached, pending, strict=True)]
    return Batch(
        rows=ints([row.row for row in rows]),
        starts=starts_of(pending),
        tokens=ints([token for part in parts for token in part.tolist()]),
        context_len=ints(cached),
        num_scored=ints(
            [int(at + count == len(row.tokens)) for row, at, count in zip(rows, cached, pending, strict=True)]
        ),
        page_starts=starts_of([0] * len(rows)),
        pages=ints([]),
        page_size=16,
        history=tuple(histories),
        sampling=tuple(
            RowSampling(
                params=row.params,
                seed=row.seed,
                choice=0,
                prompt_len=row.prompt_len or len(row.tokens) - 1,
                stop_ids=(),
                tenant=row.tenant,
            )
            for row in rows
        ),
    )


def plan_for(batch: Batch, nodes: Sequence[int] | int, depth: Sequence[int] | int | None = None) -> Plan:
    """Return a plan with these budgets; depth None: as deep as there are nodes."""
    count = batch.num_rows
    budgets = [nodes] * count if isinstance(nodes, int) else list(nodes)
    depths = budgets if depth is None else [depth] * count if isinstance(depth, int) else list(depth)
    return Plan(
        rows=batch.rows,
        num_pending=batch.num_pending,
        num_nodes=ints(budgets),
        depth=ints(depths),
        reasons=("",) * count,
    )


def drafts_of(proposal: Proposal, index: int) -> list[tuple[int, int]]:
    """Return the (token, parent) pairs of a row's nodes."""
    part = slice(int(proposal.starts[index]), int(proposal.starts[index + 1]))
    return list(zip(proposal.tokens[part].tolist(), proposal.parents[part].tolist(), strict=True))


def propose(drafter: Drafter, *rows: RowText, nodes: int = 6, depth: int | None = None) -> list[list[tuple[int, int]]]:
    """Return each row's (token, parent) pairs."""
    batch = batch_for(*rows)
    proposal = drafter.propose(batch, plan_for(batch, nodes, depth))
    return [drafts_of(proposal, index) for index in range(batch.num_rows)]


def tokens_of(drafter: Drafter, tokens: Sequence[int], **budget: int) -> list[int]:
    """Return the draft of a single row that is a path."""
    return [token for token, _ in propose(drafter, RowText(tokens=tokens), **budget)[0]]


def verdict_of(*outcomes: tuple[Sequence[int], Sequence[int]]) -> Verdict:
    """Return a verdict from each row's accepted path and committed tokens."""
    return Verdict(
        path_starts=starts_of([len(path) for path, _ in outcomes]),
        path=ints([node for path, _ in outcomes for node in path]),
        token_starts=starts_of([len(tokens) for _, tokens in outcomes]),
        tokens=ints([token for _, tokens in outcomes for token in tokens]),
        origins=ints([int(Origin.DRAFTED) for _, tokens in outcomes for _ in tokens]),
    )


def taps_of(batch: Batch, proposal: Proposal) -> StubScores:
    """Return what a drafter can read of a step besides logits."""
    parts = [
        part
        for index in range(batch.num_rows)
        for part in (batch.pending(index), ints([token for token, _ in drafts_of(proposal, index)]))
    ]
    fed = starts_of(batch.num_pending + proposal.num_nodes)
    return StubScores([], starts_of([0] * batch.num_rows), fed, fed=join(parts))


def build_model_drafter(
    options: ModelDrafterOptions | None = None,
    *,
    law: Law = DRAFT_LAW,
    vocab_size: int = VOCAB,
    num_pages: int = 4096,
    mapping: VocabularyMap | None = None,
) -> ModelDrafter:
    """Return a draft model over a stub target."""
    return ModelDrafter(
        target=StubTarget(law, vocab_size=vocab_size, num_pages=num_pages, page_size=4, max_positions=16384),
        pages=PageCache(num_pages=num_pages, page_size=4),
        vocab_size=vocab_size,
        options=options,
        mapping=mapping,
    )


def build_mapped_drafter() -> ModelDrafter:
    """Return a draft model whose ids are the target's turned around."""
    mapping = VocabularyMap.require(ByteTokenizer(VOCAB), ShiftedTokenizer(VOCAB))
    return build_model_drafter(mapping=mapping)


def _sampled(*branching: int) -> ModelDrafter:
    return build_model_drafter(ModelDrafterOptions(is_sampled=True, branching=branching))


def counted_table() -> Table:
    """Return a table of texts that go round in circles."""
    phrases = ([9, 31, 4, 17, 8, 40, 22], [5, 50, 33, 12, 61], [22, 40, 8, 17, 4, 31, 9])
    return count_table([CountedText(ids=ints(phrase * 6)) for phrase in phrases], vocab_size=VOCAB)


def build_merged(*, width: int = 4, is_coupled: bool = True) -> MergedDrafter:
    """Return a merged tree of everything that needs no engine."""
    sources = [SuffixDrafter(), RecentDrafter(), TableDrafter(counted_table())]
    network = build_neural_drafter(StubNetwork(DRAFT_LAW))
    return MergedDrafter([*sources, network], vocab_size=VOCAB, width=width, node_cost=0.0, is_coupled=is_coupled)


def build_frugal() -> FrugalDrafter:
    """Return a merged tree that asks a network where it pays."""
    free = MergedDrafter([SuffixDrafter(), TableDrafter(counted_table())], vocab_size=VOCAB, is_coupled=True)
    network = build_neural_drafter(StubNetwork(DRAFT_LAW))
    return FrugalDrafter(free, network, vocab_size=VOCAB, node_cost=0.0, is_coupled=True)


def build_ladder() -> LadderDrafter:
    """Return a ladder from a look-up to a network."""
    sources = [SuffixDrafter(), TableDrafter(counted_table()), build_neural_drafter(StubNetwork(DRAFT_LAW))]
    return LadderDrafter(sources, vocab_size=VOCAB, costs=[0.0, 0.0, 0.3], node_cost=0.0, is_coupled=True)


def build_uncertain(inner: GuessingDrafter) -> UncertaintyDrafter:
    """Return a drafter that is unsure of every position."""
    return UncertaintyDrafter(inner, MeanEntropy(layer=0, threshold=-1.0), node_cost=0.0)


DRAFTERS: Mapping[str, Callable[[], Drafter]] = MappingProxyType(
    {
        "plain": PlainDrafter,
        "n-gram": NgramDrafter,
        "n-gram, eager": lambda: NgramDrafter(node_cost=0.0),
        "suffix": SuffixDrafter,
        "suffix, eager": lambda: SuffixDrafter(node_cost=0.0),
        "suffix tree": lambda: SuffixDrafter(width=3, node_cost=0.0),
        "model": build_model_drafter,
        "model tree": lambda: build_model_drafter(ModelDrafterOptions(branching=(3, 2, 2))),
        "sampled model": _sampled,
        "sampled model tree": lambda: _sampled(2, 2),
        "mapped model": build_mapped_drafter,
        "network": lambda: build_neural_drafter(StubNetwork(DRAFT_LAW)),
        "network tree": lambda: build_neural_drafter(StubNetwork(DRAFT_LAW), width=3),
        "shifted network": lambda: build_neural_drafter(StubNetwork(DRAFT_LAW, shift=1)),
        "sampled network": lambda: build_neural_drafter(StubNetwork(DRAFT_LAW), is_sampled=True),
        "stepped network": lambda: build_neural_drafter(SteppedStubNetwork(DRAFT_LAW)),
        "stepped network tree": lambda: build_neural_drafter(SteppedStubNetwork(DRAFT_LAW), width=3),
        "sampled stepped network": lambda: build_neural_drafter(SteppedStubNetwork(DRAFT_LAW), is_sampled=True),
        "coupled suffix tree": lambda: SuffixDrafter(width=3, node_cost=0.0, is_coupled=True),
        "recent": lambda: RecentDrafter(node_cost=0.0),
        "table": lambda: TableDrafter(counted_table(), node_cost=0.0),
        "table tree": lambda: TableDrafter(counted_table(), node_cost=0.0, width=3, is_coupled=True),
        "merged": build_merged,
        "merged chain": lambda: build_merged(width=1, is_coupled=False),
        "frugal": build_frugal,
        "ladder": build_ladder,
        "uncertain suffix": lambda: build_uncertain(SuffixDrafter(node_cost=0.0)),
        "uncertain network": lambda: build_uncertain(build_neural_drafter(StubNetwork(DRAFT_LAW))),
        "guarded suffix": lambda: GuardedDrafter(SuffixDrafter(), vocab_size=VOCAB),
    }
)


def forget_all(drafter: Drafter, *rows: int) -> None:
    """Tell a drafter that rows ended."""
    numbers: IntArray = ints(rows)
    drafter.forget(numbers)
