"""The exactness check finds what differs, forgives near-ties only, and covers every order."""

from __future__ import annotations

from paradraft.lab.exactness import Case, Check, cases_of, check_exactness, ordered
from paradraft.lab.prompts import Prompt, PromptSet
from support.speakers import ManualClock, ScriptedSpeaker, counting_up

PROMPTS = PromptSet(
    name="test",
    sha256="0" * 64,
    prompts=tuple(Prompt(id=f"p{n}", category="a", token_ids=(n * 100,)) for n in range(5)),
    repeated=(),
)
CHECK = Check(prompt_set=PROMPTS, max_tokens=6, bound=1e-3)


def speaker(**options) -> ScriptedSpeaker:
    return ScriptedSpeaker(ManualClock(), 0.1, **options)


def wrong_for(prompt_id: int):
    def answer(prompt, params):
        tokens = counting_up(prompt, params)
        return [*tokens[:2], 7, *tokens[3:]] if prompt == [prompt_id * 100] else tokens

    return answer


def case(name="ngram", *, rows=1, order="forward", **options) -> Case:
    return Case(name=name, speaker=speaker(**options), temperature=0.0, gamma=4, rows=rows, order=order)


def test_equal_answers_pass_in_every_order_and_batch():
    results = check_exactness(speaker(), cases_of("ngram", speaker(), gammas=[1, 8], temperatures=[0.0], rows=3), CHECK)
    assert all(result.is_passed and result.num_equal == 5 for result in results)
    assert {(r.gamma, r.rows, r.order) for r in results} == {
        (gamma, rows, order)
        for gamma in (1, 8)
        for rows, order in [(1, "forward"), (3, "forward"), (3, "backward"), (3, "shuffled")]
    }


def test_sampled_cases_are_the_ends_of_the_gammas_alone_and_the_longest_in_every_order():
    cases = cases_of("ngram", speaker(), gammas=[1, 2, 8], temperatures=[0.7], rows=3)
    assert [(case.gamma, case.rows, case.order) for case in cases] == [
        (1, 1, "forward"), (8, 1, "forward"), (8, 3, "forward"), (8, 3, "backward"), (8, 3, "shuffled"),
    ]  # fmt: skip


def test_a_wrong_token_fails_the_case_and_names_prompt_and_place():
    plain = speaker(margins={203: 0.0, 7: 2.0})
    [result] = check_exactness(plain, [case(answer=wrong_for(2))], CHECK)
    assert not result.is_passed
    assert result.num_equal == 4
    [difference] = result.mismatches
    assert (difference.prompt, difference.position, difference.margin) == ("p2", 2, 2.0)


def test_a_near_tie_is_counted_and_forgiven():
    plain = speaker(margins={203: 0.0, 7: 0.0005})
    [result] = check_exactness(plain, [case(answer=wrong_for(2))], CHECK)
    assert result.is_passed
    assert len(result.near_ties) == 1


def test_answers_are_matched_to_prompts_whatever_the_order():
    plain = speaker(margins={203: 0.0, 7: 2.0})
    [result] = check_exactness(plain, [case(answer=wrong_for(2), rows=2, order="shuffled")], CHECK)
    assert [difference.prompt for difference in result.mismatches] == ["p2"]


def test_the_reference_of_each_temperature_is_decoded_plainly_with_the_same_seeds():
    plain, other = speaker(), speaker()
    check_exactness(plain, cases_of("ngram", other, gammas=[2], temperatures=[0.0, 0.7], rows=2), CHECK)
    reference = [params[0] for _, params in plain.asked]
    assert [each.temperature for each in reference] == [0.0] * 5 + [0.7] * 5
    assert not any(each.speculate for each in reference)
    sampled = [each for _, params in other.asked for each in params if each.temperature == 0.7]
    assert {each.seed for each in sampled} == {each.seed for each in reference}
    assert all(each.gamma == 2 and each.speculate for each in sampled)


def test_orders_hold_every_prompt_once():
    assert ordered(4, "backward") == [3, 2, 1, 0]
    assert sorted(ordered(20, "shuffled")) == list(range(20))
    assert ordered(20, "shuffled") == ordered(20, "shuffled") != list(range(20))
