"""The exactness check finds what differs, forgives near-ties only, covers every order, and may be killed."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from paradraft.core.errors import ConfigError
from paradraft.lab.exactness import ledger as ledgers
from paradraft.lab.exactness.cases import Case, cases_of, matrix, ordered, reference_case, share
from paradraft.lab.exactness.check import Check, decode_reference, run_case
from paradraft.lab.exactness.ledger import Ledger, begin, merge, read_contents
from paradraft.lab.exactness.run import MatrixRun
from paradraft.lab.prompts import Prompt, PromptSet
from paradraft.lab.provenance import gather
from support.speakers import ManualClock, ScriptedSpeaker, counting_up

PROMPTS = PromptSet(
    name="test",
    sha256="0" * 64,
    prompts=tuple(Prompt(id=f"p{n}", category="a", token_ids=(n * 100,)) for n in range(5)),
    repeated=(),
)
CHECK = Check(prompt_set=PROMPTS, max_tokens=6, bound=1e-3)
CASES = matrix(["ngram", "suffix"], gammas=[1, 8], temperatures=[0.0, 0.7], rows=3, with_peer=True)
MODEL = {"name": "m", "sha256": "f" * 64, "runner": "torch"}


def speaker(**options) -> ScriptedSpeaker:
    return ScriptedSpeaker(ManualClock(), 0.1, **options)


def wrong_for(prompt_id: int):
    def answer(prompt, params):
        tokens = counting_up(prompt, params)
        return [*tokens[:2], 7, *tokens[3:]] if prompt == [prompt_id * 100] else tokens

    return answer


def compared(plain: ScriptedSpeaker, other: ScriptedSpeaker, **options):
    case = Case(**{"name": "ngram", "temperature": 0.0, "gamma": 4, "rows": 1, "order": "forward", **options})
    reference = decode_reference(plain, reference_case(case.temperature), CHECK)
    return run_case(other, plain, case, CHECK, reference)


class House:
    """Speakers by name, with a note of who was opened and how many at a time."""

    def __init__(self, **wrong) -> None:
        self.opened: list[str] = []
        self.wrong = wrong
        self.num_open = self.most_open = self.num_answered = 0
        self.dies_after: int | None = None
        self.plain = speaker(margins={203: 0.0, 7: 2.0})

    @contextmanager
    def open(self, name: str):
        self.opened.append(name)
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        yield speaker(answer=self._answer(self.wrong.get(name, counting_up)))
        self.num_open -= 1

    def _answer(self, answer):
        def counted(prompt, params):
            if self.num_answered == self.dies_after:
                raise KeyboardInterrupt
            self.num_answered += 1
            return answer(prompt, params)

        return counted


def run(path, house: House, *, part="0/1", dtype="fp32", cases=CASES, watch=lambda _: None):
    provenance = gather(command=["paradraft", "exactness"], model=MODEL, dtype=dtype, settings={"gamma": 8})
    ledger = Ledger.open(path, begin(provenance, CHECK, cases, part))
    mine = share(cases, *map(int, part.split("/")))
    return MatrixRun(
        cases=mine, check=CHECK, plain=house.plain, open_speaker=house.open, ledger=ledger, watch=watch
    ).run()


def told(results):
    """What results say, without the time they took."""
    return [(result.case, result.num_equal, result.near_ties, result.mismatches, result.tau) for result in results]


def test_the_matrix_has_every_gamma_alone_and_in_every_order():
    cases = cases_of("ngram", gammas=[1, 8], temperatures=[0.0], rows=3)
    assert {(case.gamma, case.rows, case.order) for case in cases} == {
        (gamma, rows, order)
        for gamma in (1, 8)
        for rows, order in [(1, "forward"), (3, "forward"), (3, "backward"), (3, "shuffled")]
    }


def test_sampled_cases_are_the_ends_of_the_gammas_alone_and_the_longest_in_every_order():
    cases = cases_of("ngram", gammas=[1, 2, 8], temperatures=[0.7], rows=3)
    assert [(case.gamma, case.rows, case.order) for case in cases] == [
        (1, 1, "forward"), (8, 1, "forward"), (8, 3, "forward"), (8, 3, "backward"), (8, 3, "shuffled"),
    ]  # fmt: skip


def test_the_one_row_cases_of_a_drafter_come_first_and_its_cases_are_together():
    names = [case.name for case in CASES]
    assert list(dict.fromkeys(names)) == ["plain", "ngram", "suffix", "transformers"]
    for name in ("ngram", "suffix"):
        rows = [case.rows for case in CASES if case.name == name]
        assert rows == sorted(rows)
        assert max(i for i, other in enumerate(names) if other == name) - names.index(name) == len(rows) - 1


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_cover_every_case_exactly_once(parts):
    shares = [case for part in range(parts) for case in share(CASES, part, parts)]
    assert len(shares) == len(CASES)
    assert set(shares) == set(CASES)


def test_equal_answers_pass_in_every_order_and_batch():
    results = run(None, House())
    assert [result.case for result in results] == CASES
    assert all(result.is_passed and result.num_equal == 5 for result in results)


def test_a_wrong_token_fails_the_case_and_names_prompt_and_place():
    result = compared(speaker(margins={203: 0.0, 7: 2.0}), speaker(answer=wrong_for(2)))
    assert not result.is_passed
    assert result.num_equal == 4
    [difference] = result.mismatches
    assert (difference.prompt, difference.position, difference.margin) == ("p2", 2, 2.0)


def test_a_near_tie_is_counted_and_forgiven():
    result = compared(speaker(margins={203: 0.0, 7: 0.0005}), speaker(answer=wrong_for(2)))
    assert result.is_passed
    assert len(result.near_ties) == 1


def test_answers_are_matched_to_prompts_whatever_the_order():
    plain = speaker(margins={203: 0.0, 7: 2.0})
    result = compared(plain, speaker(answer=wrong_for(2)), rows=2, order="shuffled")
    assert [difference.prompt for difference in result.mismatches] == ["p2"]


def test_the_reference_of_each_temperature_is_decoded_plainly_with_the_same_seeds():
    house, other = House(), speaker()
    house.open = contextmanager(lambda name: iter([other]))
    run(None, house, cases=cases_of("ngram", gammas=[2], temperatures=[0.0, 0.7], rows=2))
    reference = [params[0] for _, params in house.plain.asked]
    assert [each.temperature for each in reference] == [0.0] * 5 + [0.7] * 5
    assert not any(each.speculate for each in reference)
    sampled = [each for _, params in other.asked for each in params if each.temperature == 0.7]
    assert {each.seed for each in sampled} == {each.seed for each in reference}
    assert all(each.gamma == 2 and each.speculate for each in sampled)


def test_every_case_opens_a_drafter_of_its_own_so_that_none_has_seen_the_answers():
    house = House()
    run(None, house)
    assert house.opened == [case.name for case in CASES if case.name != "plain"]
    assert house.most_open == 1


@pytest.mark.parametrize("killed_after", [0, 3, 17, 42, 95])
def test_a_killed_run_goes_on_to_the_same_results(tmp_path, killed_after):
    path, wrong = tmp_path / "out.json", {"suffix": wrong_for(2)}
    whole = run(None, House(**wrong))
    house = House(**wrong)
    house.dies_after = killed_after
    with pytest.raises(KeyboardInterrupt):
        run(path, house)
    done = {result.case for result in read_contents(path).results}
    again = House(**wrong)
    assert told(run(path, again)) == told(whole)
    assert again.num_answered == 5 * sum(case not in done for case in CASES if case.name != "plain")
    assert read_contents(path).missing() == []


def test_a_finished_file_needs_no_drafter_and_no_reference(tmp_path):
    path, house = tmp_path / "out.json", House()
    first = run(path, House())
    assert run(path, house) == first
    assert house.opened == house.plain.asked == []
    assert [run["command"] for run in read_contents(path).runs] == ["paradraft exactness"] * 2


def test_a_file_of_another_set_up_is_refused_by_name(tmp_path):
    path = tmp_path / "out.json"
    run(path, House())
    before = path.read_text()
    with pytest.raises(ConfigError, match=r"dtype 'fp32' and not 'bf16'.*name another file, or remove it"):
        run(path, House(), dtype="bf16")
    assert path.read_text() == before


def test_a_file_of_other_code_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    run(path, House())
    monkeypatch.setattr(ledgers, "source_digest", lambda: "other")
    with pytest.raises(ConfigError, match="source"):
        run(path, House())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9}', "no json"])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "out.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="holds no results"):
        run(path, House())
    assert path.read_text() == text


def test_a_part_does_not_go_on_in_the_file_of_another(tmp_path):
    path = tmp_path / "out.json"
    run(path, House(), part="0/2")
    with pytest.raises(ConfigError, match="part '0/2' and not '1/2'"):
        run(path, House(), part="1/2")


def test_parts_together_hold_what_one_run_holds(tmp_path):
    paths = [tmp_path / f"{part}.json" for part in range(2)]
    for part, path in enumerate(paths):
        run(path, House(suffix=wrong_for(2)), part=f"{part}/2")
    merged = merge(paths)
    assert merged.missing() == []
    by_case = {result.case: result for result in merged.results}
    assert told(by_case[case] for case in CASES) == told(run(None, House(suffix=wrong_for(2))))
    assert set(merge(paths[:1]).missing()) == set(share(CASES, 1, 2))


def test_parts_with_other_references_are_not_merged(tmp_path):
    paths = [tmp_path / f"{part}.json" for part in range(2)]
    for part, path in enumerate(paths):
        run(path, House(), part=f"{part}/2")
    data = json.loads(paths[1].read_text())
    data["references"][0]["answers"][0][0] += 1
    paths[1].write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="plain decoding at temperature 0 gave other tokens"):
        merge(paths)


def test_the_watch_hears_each_case_and_the_time_left():
    heard = []
    run(None, House(), watch=heard.append)
    assert heard[0].seconds_left is None
    assert heard[-1].done == heard[-1].total == len(CASES)
    assert [each.doing for each in heard].count("ngram, T=0.7, gamma 8, 3 rows backward") == 1
    assert heard[-1].seconds_left == 0


def test_orders_hold_every_prompt_once():
    assert ordered(4, "backward") == [3, 2, 1, 0]
    assert sorted(ordered(20, "shuffled")) == list(range(20))
    assert ordered(20, "shuffled") == ordered(20, "shuffled") != list(range(20))
