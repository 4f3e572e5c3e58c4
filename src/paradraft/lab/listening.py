"""Plain decoding that shows the logits behind a choice, whole: margins need more than the best few."""

from __future__ import annotations

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult
from paradraft.lab.ports import Speaker

_ONE = SamplingParams(temperature=0.0, max_tokens=1, speculate=False, ignore_eos=True)


class Listener:
    """Implements the Drafter port: drafts nothing, and keeps a copy of the logits of a choice when asked to."""

    needs = Needs(sources=())

    def __init__(self) -> None:
        self._is_on = False
        self._heard: FloatArray | None = None

    def logits_after(self, tokens: list[int], speaker: Speaker) -> FloatArray:
        """Return the raw fp32 logits of the token behind these, [V], as `speaker`, whose drafter this is, scores it.

        Raises ProtocolError if it never did.
        """
        self._is_on, self._heard = True, None
        try:
            speaker.generate([tokens], [_ONE])
        finally:
            self._is_on = False
        if self._heard is None:
            raise ProtocolError(
                f"Nothing was heard of the token behind {len(tokens)} others.",
                remedy="Open the speaker with this listener as its drafter.",
            )
        return self._heard

    def propose(self, batch: Batch, plan: Plan) -> Proposal:  # noqa: ARG002 - the port's
        """Return no nodes."""
        return Proposal.empty(batch.num_rows)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:  # noqa: ARG002
        """Keep the logits of the last row that is complete; they are the target's only until its next pass."""
        if not self._is_on:
            return
        for index in range(batch.num_rows):
            if batch.is_complete(index):
                self._heard = scores.row(int(scores.starts[index]) + int(batch.num_scored[index]) - 1).copy()

    def forget(self, rows: IntArray) -> None:
        """Forget nothing."""


class PlainSpeaker:
    """Implements lab.ports.Plain: an engine that decodes plainly, with the listener in its drafter's place."""

    def __init__(self, speaker: Speaker, listener: Listener) -> None:
        self._speaker = speaker
        self._listener = listener

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        """Pass on."""
        return self._speaker.generate(prompts, params)

    def logits_after(self, tokens: list[int]) -> FloatArray:
        """Return the raw fp32 logits of the token behind these, [V]."""
        return self._listener.logits_after(tokens, self._speaker)
