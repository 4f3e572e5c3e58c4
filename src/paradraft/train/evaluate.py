"""What a drafter reaches in a real engine, by category and position, and whether simulation says the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from torch import Tensor

from paradraft.core.sampling import SamplingParams
from paradraft.nets.networks.net import Net
from paradraft.train.examples import Example
from paradraft.train.ports import Speaker
from paradraft.train.rounds import Rounds, simulate_rounds

ALL = "all"
_SLACK, _DEVIATIONS = 0.02, 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A prompt as the model reads it."""

    category: str
    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """The same texts simulated and served. Texts that the engine answered otherwise are left out and counted."""

    offline: Rounds
    served: Rounds
    num_texts: int
    num_other: int

    @property
    def gaps(self) -> tuple[float, ...]:
        """Return served minus simulated acceptance by position."""
        pairs = zip_longest(self.served.by_position(), self.offline.by_position(), fillvalue=0.0)
        return tuple(served - offline for served, offline in pairs)

    @property
    def agrees(self) -> bool:
        """Whether no gap is larger than the sampling error of these rounds explains."""
        rounds = max(min(self.offline.rounds, self.served.rounds), 1)
        return all(
            abs(gap) <= _SLACK + _DEVIATIONS * (max(share * (1.0 - share), 0.0) / rounds) ** 0.5
            for gap, share in zip_longest(self.gaps, self.offline.by_position(), fillvalue=0.0)
        )


def measure_served(
    speaker: Speaker, questions: Sequence[Question], *, temperature: float, max_tokens: int, seed: int = 0
) -> dict[str, Rounds]:
    """Answer questions and return the rounds by category, and of all together under "all"."""
    params = [
        SamplingParams(temperature=temperature, max_tokens=max_tokens, seed=seed + number)
        for number in range(len(questions))
    ]
    answers = speaker.generate([list(question.ids) for question in questions], params)
    found: dict[str, list[Rounds]] = defaultdict(list)
    for question, answer in zip(questions, answers, strict=True):
        found[question.category].append(Rounds.served(answer.choices[0].stats))
    sums = {category: Rounds.add(parts) for category, parts in sorted(found.items())}
    return {ALL: Rounds.add(sums.values()), **sums}


def compare_served(net: Net, examples: Sequence[Example], speaker: Speaker, scale: Tensor | None) -> Agreement:
    """Serve the prompts of captured texts greedily, drafting whole blocks each time, and simulate the same rounds."""
    prompts = [each.ids[: each.prompt_len].tolist() for each in examples]
    limits = [len(each.ids) - each.prompt_len for each in examples]
    answers = speaker.generate(prompts, [SamplingParams(temperature=0.0, max_tokens=limit) for limit in limits])
    offline, served = [], []
    for example, answer in zip(examples, answers, strict=True):
        choice = answer.choices[0]
        if list(choice.token_ids) != example.ids[example.prompt_len :].tolist():
            continue
        offline.append(simulate_rounds(net, example, scale))
        served.append(Rounds.served(choice.stats))
    return Agreement(
        offline=Rounds.add(offline),
        served=Rounds.add(served),
        num_texts=len(offline),
        num_other=len(examples) - len(offline),
    )


def figures(measured: Mapping[float, Mapping[str, Rounds]], name: str) -> dict[str, float]:
    """Return the figures for a card: tau by temperature and category, and acceptance by position, of a prompt set."""
    said: dict[str, float] = {}
    for temperature, categories in measured.items():
        prefix = f"{name} T={temperature:g}"
        for category, rounds in categories.items():
            said[f"{prefix} tau" if category == ALL else f"{prefix} {category} tau"] = round(rounds.tau, 4)
        for place, share in enumerate(categories[ALL].by_position()):
            said[f"{prefix} position {place + 1}"] = round(share, 4)
    return said
