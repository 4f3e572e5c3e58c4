"""The same prompts answered both ways, plainly and speculatively, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from paradraft.core.ports import Clock
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import Completion
from paradraft.lab.bench.measures import add_stats
from paradraft.lab.ports import Progress, Speaker, unwatched

_WARM_UP_TOKENS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoPrompt:
    """What is asked, and what kind of request it stands for."""

    kind: str
    text: str


# Mostly requests whose answers repeat much of their prompt: there a drafter that looks text up guesses well.
PROMPTS = (
    DemoPrompt(
        kind="rewriting a text",
        text=(
            "Correct the spelling and return the whole text.\n\n"
            "The libary opens at nine in the morning and closes at six in the evening. Visitors may borrow up to five "
            "books for three weeks. The reading room on the second floor is quiet, and the garden behind the libary is "
            "open to everybody. The libary is closed on public holidays."
        ),
    ),
    DemoPrompt(
        kind="editing code",
        text=(
            "Rename the variable `total` to `price` and return the whole code.\n\n"
            "```python\n"
            "def add_tax(total, rate):\n"
            "    tax = total * rate\n"
            "    return total + tax\n\n\n"
            "def add_discount(total, discount):\n"
            "    saved = total * discount\n"
            "    return total - saved\n"
            "```"
        ),
    ),
    DemoPrompt(
        kind="quoting from a text",
        text=(
            "Copy every sentence that mentions a number from this text.\n\n"
            "The bridge was built in 1932. It is painted red. It is 503 metres long and carries eight lanes of "
            "traffic. Walking across it takes about 20 minutes. The view is popular with visitors."
        ),
    ),
    DemoPrompt(
        kind="an open question, where there is little to look up",
        text="Why is the sky blue? Answer in two sentences.",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Twice:
    """One prompt answered both ways."""

    prompt: DemoPrompt
    plain: Completion
    speculative: Completion
    plain_seconds: float
    speculative_seconds: float
    is_identical: bool  # every run gave the same tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Figures over all prompts."""

    plain_tokens_per_second: float
    speculative_tokens_per_second: float
    tau: float
    is_identical: bool

    @property
    def speed_up(self) -> float:
        """Return the ratio of the two speeds."""
        return self.speculative_tokens_per_second / self.plain_tokens_per_second


def answer_twice(
    speaker: Speaker,
    asked: Sequence[tuple[DemoPrompt, list[int]]],
    params: SamplingParams,
    *,
    clock: Clock = perf_counter,
    progress: Progress = unwatched,
) -> list[Twice]:
    """Answer each prompt twice each way, after a warm-up, in the order A B B A or B A A B; the better time counts.

    So neither way gains by its place, and one hiccup of the machine does not decide.
    """
    ways = (replace(params, speculate=False), params)
    for way in ways:
        speaker.generate([asked[0][1]], [replace(way, max_tokens=min(_WARM_UP_TOKENS, params.max_tokens))])
    answers = []
    for number, (prompt, ids) in enumerate(asked):
        first, second = ways if number % 2 == 0 else reversed(ways)
        found: dict[bool, list[tuple[Completion, float]]] = {False: [], True: []}
        for place, way in enumerate((first, second, second, first)):
            start = clock()
            [result] = speaker.generate([ids], [way])
            found[way.speculate].append((result.choices[0], clock() - start))
            progress(4 * number + place + 1, 4 * len(asked))
        answers.append(_twice(prompt, plain=found[False], speculative=found[True]))
    return answers


def _twice(
    prompt: DemoPrompt, *, plain: Sequence[tuple[Completion, float]], speculative: Sequence[tuple[Completion, float]]
) -> Twice:
    return Twice(
        prompt=prompt,
        plain=plain[0][0],
        speculative=speculative[0][0],
        plain_seconds=min(seconds for _, seconds in plain),
        speculative_seconds=min(seconds for _, seconds in speculative),
        is_identical=len({completion.token_ids for completion, _ in (*plain, *speculative)}) == 1,
    )


def totals_of(answers: Sequence[Twice]) -> Totals:
    """Return the figures over all prompts: all tokens by all seconds, prompt processing included."""
    plain_tokens = sum(len(answer.plain.token_ids) for answer in answers)
    speculative_tokens = sum(len(answer.speculative.token_ids) for answer in answers)
    return Totals(
        plain_tokens_per_second=plain_tokens / sum(answer.plain_seconds for answer in answers),
        speculative_tokens_per_second=speculative_tokens / sum(answer.speculative_seconds for answer in answers),
        tau=add_stats(answer.speculative.stats for answer in answers).tau,
        is_identical=all(answer.is_identical for answer in answers),
    )
