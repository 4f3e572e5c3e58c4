"""From scores to a verdict: walks every scored row's tree with the rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paradraft.core.arrays import BoolArray, FloatArray, IntArray, ints, starts_of
from paradraft.core.errors import ProtocolError, RequestRefused
from paradraft.core.grammar import Grammar, Grammars, Matcher
from paradraft.core.ports import Chooser, Noise, Scores
from paradraft.core.records import Batch, Origin, Proposal, RowSampling, Verdict
from paradraft.verify.coupled import draw
from paradraft.verify.law import Law, law_of
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.processors import adjusts, check_sampling, reads_history
from paradraft.verify.rules import Rule
from paradraft.verify.tree import ROOT, RowTree, Walk


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    """One row's part of the verdict."""

    path: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    failure: str | None = None


class RuleAcceptor:
    """core.ports.Acceptor around a rule. Stateless: asked again, it decides the same.

    It does not look at stop ids: tokens behind a stop are part of the verdict, and the engine cuts them off.
    """

    def __init__(
        self,
        rule: Rule,
        noise: Callable[[int, int], Noise] = GumbelNoise,
        chooser: Chooser | None = None,
        grammars: Grammars | None = None,
    ) -> None:
        """Decide by this rule, with noise(seed, choice) for each row.

        A chooser, if there is one, makes the choices of the coupled rule where it can; it must know this noise.
        grammars enforces the grammars of requests; without it such requests are refused.
        """
        self.name = rule.name
        self.is_exact = rule.is_exact
        self._rule = rule
        self._noise = noise
        self._chooser = chooser if rule.is_coupled else None
        self._grammars = grammars

    def check(self, sampling: RowSampling, vocab_size: int) -> None:
        """Raise RequestRefused for a request that this rule or vocabulary cannot serve; to be called at admission."""
        if self._rule.is_greedy_only and not sampling.params.is_greedy:
            raise RequestRefused(
                f"The rule {self.name!r} cannot sample, and temperature is {sampling.params.temperature}.",
                remedy="Set temperature to 0, or start with the rule 'coupled'.",
            )
        check_sampling(sampling, vocab_size)
        if sampling.params.grammar is not None:
            self._check_grammar(sampling.params.grammar)

    def accept(self, batch: Batch, proposal: Proposal, scores: Scores) -> Verdict:
        """Return the accepted path and the next token of every scored row; see core.ports.Acceptor.

        A row with logits that are not finite, a tree that the rule cannot walk or a grammar that cannot be followed is
        named in Verdict.failures; the others do not notice. Raises ProtocolError if scores, batch and proposal do not
        fit together.
        """
        _check_shapes(batch, proposal, scores)
        best = scores.argmax() if any(_is_plainly_greedy(sampling) for sampling in batch.sampling) else ints([])
        outcomes = [self._row(batch, proposal, scores, best, index) for index in range(batch.num_rows)]
        return _verdict(outcomes)

    def _row(self, batch: Batch, proposal: Proposal, scores: Scores, best: IntArray, index: int) -> _Outcome:
        if not batch.is_complete(index):
            return _Outcome()
        try:
            return self._walk(batch, proposal, scores, best, index)
        except (ProtocolError, RequestRefused) as error:
            return _Outcome(failure=str(error))

    def _walk(self, batch: Batch, proposal: Proposal, scores: Scores, best: IntArray, index: int) -> _Outcome:
        sampling, known = batch.sampling[index], batch.known(index)
        root = int(scores.starts[index]) + int(batch.num_scored[index]) - 1
        tree = RowTree(proposal, index, start=len(known))
        if _is_plainly_greedy(sampling):
            walk = _walk_greedily(tree, scores, best, root)
        else:
            matcher = self._matcher(int(batch.rows[index]), sampling)
            walk = self._walk_sampled(tree, _RowLaws(scores, root, sampling, known, tree, matcher), sampling)
        tokens = [tree.tokens[node] for node in walk.path]
        origins = [int(Origin.DRAFTED)] * len(tokens)
        return _Outcome(path=walk.path, tokens=(*tokens, walk.token), origins=(*origins, _origin(tree, walk)))

    def _walk_sampled(self, tree: RowTree, laws: _RowLaws, sampling: RowSampling) -> Walk:
        noise, chooser = self._noise(sampling.seed, sampling.choice), self._chooser
        if chooser is None or sampling.params.is_greedy or adjusts(sampling.params):
            return self._rule.walk(tree, laws.at, noise)

        def choose(node: int, position: int) -> int:
            token = chooser.choose(laws.logits(node), sampling, position)
            return draw(laws.at(node), noise, position) if token is None else token

        return tree.follow(choose)

    def _matcher(self, row: int, sampling: RowSampling) -> Matcher | None:
        grammar = sampling.params.grammar
        return None if grammar is None or self._grammars is None else self._grammars.matcher(row, grammar)

    def _check_grammar(self, grammar: Grammar) -> None:
        if self._grammars is None:
            raise RequestRefused(
                f"This engine enforces no grammars, and the request has one ({grammar.title}).",
                remedy="Put it together with one (core.grammar.Grammars), or leave grammar out.",
            )
        self._grammars.compile(grammar)


class _RowLaws:
    """The target's laws after the nodes of one row, each computed once and only when asked for."""

    def __init__(
        self,
        scores: Scores,
        root: int,
        sampling: RowSampling,
        known: IntArray,
        tree: RowTree,
        matcher: Matcher | None,
    ) -> None:
        self._scores = scores
        self._root = root
        self._sampling = sampling
        self._known = known
        self._tree = tree
        self._matcher = matcher
        self._laws: dict[int, Law] = {}

    def at(self, node: int) -> Law:
        if node not in self._laws:
            history = self._history(node)
            self._laws[node] = law_of(self.logits(node), self._sampling, history, self._allowed(history))
        return self._laws[node]

    def logits(self, node: int) -> FloatArray:
        return self._scores.row(self._root + 1 + node)

    def _allowed(self, history: IntArray) -> BoolArray | None:
        return None if self._matcher is None else self._matcher.allowed(history[self._sampling.prompt_len :])

    def _history(self, node: int) -> IntArray:
        if node == ROOT or not reads_history(self._sampling.params):
            return self._known
        return np.concatenate([self._known, ints(self._tree.path_tokens(node))])


def _is_plainly_greedy(sampling: RowSampling) -> bool:
    """Whether the best raw logit decides. Every rule gives the same walk then, so none is asked."""
    return sampling.params.is_greedy and not adjusts(sampling.params)


def _walk_greedily(tree: RowTree, scores: Scores, best: IntArray, root: int) -> Walk:
    walk = tree.follow(lambda node, _: int(best[root + 1 + node]))
    last = root + 1 + (walk.path[-1] if walk.path else ROOT)
    # NaN counts as the largest logit, so one look at the last winner is enough.
    if not np.isfinite(scores.row(last)[walk.token]):
        raise ProtocolError("The target's logits hold NaN or infinity.", remedy="Check its weights and dtype.")
    return walk


def _origin(tree: RowTree, walk: Walk) -> int:
    if not tree.num_nodes:
        return int(Origin.PLAIN)
    last = walk.path[-1] if walk.path else ROOT
    return int(Origin.RECOVERED if tree.children(last) else Origin.BONUS)


def _check_shapes(batch: Batch, proposal: Proposal, scores: Scores) -> None:
    expected = starts_of(batch.num_scored + proposal.num_nodes)
    if len(expected) != batch.num_rows + 1 or expected.tolist() != scores.starts.tolist():
        raise ProtocolError(
            f"Scores start at {list(scores.starts)}, but batch and proposal ask for {list(expected)}.",
            remedy="Score the last num_scored pending tokens of each row, then its nodes.",
        )


def _verdict(outcomes: list[_Outcome]) -> Verdict:
    return Verdict(
        path_starts=starts_of([len(outcome.path) for outcome in outcomes]),
        path=ints([node for outcome in outcomes for node in outcome.path]),
        token_starts=starts_of([len(outcome.tokens) for outcome in outcomes]),
        tokens=ints([token for outcome in outcomes for token in outcome.tokens]),
        origins=ints([origin for outcome in outcomes for origin in outcome.origins]),
        failures=tuple((at, outcome.failure) for at, outcome in enumerate(outcomes) if outcome.failure is not None),
    )
