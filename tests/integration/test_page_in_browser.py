"""The page in a real browser: by keyboard, on a phone, in both schemes, and with what goes wrong."""

from __future__ import annotations

import json
import re

import pytest

from paradraft.core.sampling import SamplingParams
from paradraft.server.options import ServerOptions
from support.browsers import PHONE, browser_or_skip, opened
from support.engines import ids_of, request, run
from support.pages import readable_engine
from support.serving import served

playwright = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
expect = playwright.expect

NUM_TOKENS = 40
ANSWER = ".turn.answer"


@pytest.fixture(scope="module")
def browser():
    with browser_or_skip() as running:
        yield running


@pytest.fixture(scope="module")
def server():
    with served(readable_engine()) as running:
        yield running


@pytest.fixture
def page(browser, server):
    with opened(browser, server.url) as shown:
        go_on_from_a_text(shown)
        yield shown


def go_on_from_a_text(page, *, tokens: int = NUM_TOKENS) -> None:
    if not page.locator("#mode").is_visible():
        page.locator("#settings summary").click()
    page.select_option("#mode", "text")
    page.fill("#temperature", "0")
    page.fill("#max-tokens", str(tokens))


def ask(page, text: str = "once upon") -> None:
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")


def until_answered(page, count: int = 1) -> None:
    expect(page.locator(f"{ANSWER} .facts")).to_have_count(count)


def said(page) -> str:
    return page.locator(f"{ANSWER} > .text").last.text_content()


def status_says(page, text: str) -> None:
    expect(page.locator("#status")).to_contain_text(text)


def test_it_tells_what_is_served(page, server):
    told = "stub in fp32 on stub. Drafts: fake, at most 4. Rule: coupled, exact."
    expect(page.locator("#model")).to_have_text(told)
    assert page.title() == "Paradraft"


def test_an_answer_shows_where_each_token_comes_from(page):
    prompt = "what no other test has asked"  # else its cached pages let the first token be drafted
    ask(page, prompt)
    until_answered(page)
    params = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS)
    events = run(readable_engine(), request("alone", list(prompt.encode()), params))[("alone", 0)]
    origins = [origin.name.lower() for event in events for origin in event.origins]
    tokens = page.locator(f"{ANSWER} > .text .token")
    shown = tokens.evaluate_all("all => all.map(each => [each.textContent, each.classList[1]])")
    assert shown == [[chr(token), origin] for token, origin in zip(ids_of(events), origins, strict=True)]
    looks = tokens.evaluate_all(
        "all => all.map(each => [each.classList[1], getComputedStyle(each).textDecorationStyle,"
        " getComputedStyle(each).backgroundColor])"
    )
    by_origin = {origin: (line, colour) for origin, line, colour in looks}
    assert by_origin.keys() == {"drafted", "recovered", "bonus", "plain"}
    assert len({line for line, _ in by_origin.values()}) == 4, "the line tells them apart without colour"
    assert len({colour for _, colour in by_origin.values()}) == 4
    facts = page.locator(".facts").inner_text()
    assert all(f"{origins.count(origin)} {origin}" in facts for origin in by_origin)


def test_all_of_it_works_by_keyboard_alone(browser, server):
    with opened(browser, server.url) as page:
        assert page.evaluate("document.activeElement.id") == "message"
        order = focus_order(page)
        assert order[:9] == [
            "skip",
            "SUMMARY",
            "mode",
            "system",
            "temperature",
            "top-p",
            "max-tokens",
            "seed",
            "speculates",
        ]
        assert order.index("gamma") < order.index("conversation") < order.index("message") < order.index("send")
        page.locator("#mode").focus()
        page.keyboard.press("ArrowDown")
        for field, text in (("max-tokens", "12"), ("temperature", "0")):
            page.locator(f"#{field}").focus()
            page.keyboard.press("Control+A")
            page.keyboard.type(text)
        page.locator("#message").focus()
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two")
        page.keyboard.press("Enter")
        until_answered(page)
        assert page.evaluate("document.activeElement.id") == "message"
        assert page.locator(".turn.user .text").text_content() == "one\ntwo"
        assert "12 tokens" in page.locator(".facts").inner_text()
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("document.activeElement.className") == "prove"
        page.keyboard.press("Enter")
        page.wait_for_selector(".verdict.same")


def focus_order(page) -> list[str]:
    page.locator(".skip").focus()
    order = ["skip"]
    while len(order) < 40:
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(e => e === document.body ? null : e.id || e.className || e.tagName)(document.activeElement)"
        )
        if at is None or at in order:
            return order
        order.append(at)
    return order


def test_an_answer_is_proven_equal_without_drafts(page):
    page.fill("#temperature", "0.9")
    page.fill("#seed", "")
    ask(page)
    until_answered(page)
    seed = re.search(r"seed (\d+)", page.locator(".facts").inner_text())[1]
    page.locator(".prove").click()
    page.wait_for_selector(".verdict.same")
    verdict = page.locator(".verdict").inner_text()
    tokens, drafted, plain = map(int, re.findall(r"\d+", verdict))
    assert verdict.startswith("Identical")
    assert (tokens, plain) == (NUM_TOKENS, NUM_TOKENS)
    assert drafted < plain
    assert page.locator(".twin h3").all_inner_texts() == [f"{how} drafts, seed {seed}" for how in ("With", "Without")]
    assert (
        page.locator(".twin")
        .nth(1)
        .locator(".token")
        .evaluate_all("all => all.every(each => each.classList.contains('plain'))")
    )


def test_a_difference_is_shown_where_it_begins(page):
    def other(route):
        chunk = {"choices": [{"pieces": ["a", "z"], "origins": ["plain", "plain"], "finish_reason": "length"}]}
        metrics = {"choices": [], "metrics": {"speculative_decoding": {"num_passes": 2}}}
        lines = [f"data: {json.dumps(each)}\n\n" for each in (chunk, metrics)]
        route.fulfill(content_type="text/event-stream", body="".join(lines) + "data: [DONE]\n\n")

    ask(page)
    until_answered(page)
    first, second = page.locator(f"{ANSWER} > .text .token").evaluate_all(
        "all => all.slice(0, 2).map(each => each.textContent)"
    )
    page.route("**/v1/completions", other)
    page.locator(".prove").click()
    page.wait_for_selector(".verdict.differs")
    at = 1 if first != "a" else 2
    assert second != "z"
    assert page.locator(".verdict").inner_text() == f"Different from token {at} on."
    assert page.locator(".first-difference").all_text_contents()[1] == "az"[at - 1]


def test_stopping_keeps_what_was_said_and_frees_the_engine(browser):
    with served(readable_engine(pause=0.01)) as slow, opened(browser, slow.url) as page:
        go_on_from_a_text(page, tokens=400)
        for how in ("Escape", "click"):
            ask(page)
            expect(page.locator(f"{ANSWER}:last-child > .text")).to_have_text(re.compile(".{4}"))
            expect(page.locator("#send")).to_have_text("Stop")
            page.keyboard.press("Escape") if how == "Escape" else page.locator("#send").click()
            expect(page.locator("#send")).to_have_text("Send")
            assert " stopped" in page.locator(".facts").last.inner_text()
            assert 3 < len(said(page)) < 400
        for _ in range(100):
            if not slow.context.switchboard.num_open:
                break
            page.wait_for_timeout(20)
        assert slow.service.snapshot().running == 0


def test_the_charts_follow_the_engine(page):
    expect(page.locator("#rate")).not_to_have_text("-")
    ask(page)
    until_answered(page)
    expect(page.locator("#rate-note")).to_have_text(re.compile("highest [1-9]"))
    assert page.locator("#rate-chart polyline").get_attribute("points").count(",") >= 1
    assert page.locator("#acceptance li").count() == 4
    assert re.search(r"position 1: *\d+ %", page.locator("#acceptance li").first.text_content())
    assert page.locator("#gammas .place").all_inner_texts() == ["0", "1", "2", "3", "4"]
    assert re.search(r"gamma 4: *[1-9]\d* %", page.locator("#gammas li").last.text_content())
    shares = [int(share) for share in re.findall(r"(\d+) %", page.locator("#verbs").inner_text())]
    assert 97 <= sum(shares) <= 103
    heights = page.locator("#acceptance .bar").evaluate_all("all => all.map(each => each.offsetHeight)")
    assert heights[0] > heights[3], "the drafter is right less often further on"
    assert page.evaluate("document.getElementById('rate-chart').getAttribute('aria-labelledby')") == "rate-note"


def test_errors_are_shown_as_the_server_told_them(page):
    page.fill("#temperature", "-1")
    ask(page, "to be mended")
    page.wait_for_selector(".error")
    error = page.locator(".error").inner_text()
    assert "temperature: Input should be greater than or equal to 0." in error
    assert "HTTP 422" in error
    assert "invalid_request_error" in error
    assert page.locator("#message").input_value() == "to be mended"
    page.fill("#temperature", "0")
    page.locator("#message").press("Enter")
    until_answered(page)


def test_what_is_said_is_never_markup(page):
    ask(page, "<img src=x onerror=alert(1)><b>bold</b>")
    until_answered(page)
    assert page.locator("main img, main .turn b").count() == 0
    assert page.locator(".turn.user .text").text_content().startswith("<img")


def test_clearing_begins_anew_and_copying_takes_the_text(browser, server):
    with opened(browser, server.url, permissions=["clipboard-read", "clipboard-write"]) as page:
        go_on_from_a_text(page)
        ask(page)
        until_answered(page)
        page.locator(".copy").click()
        status_says(page, "Copied")
        assert page.evaluate("navigator.clipboard.readText()") == said(page)
        page.locator("#clear").click()
        assert page.locator(".turn").count() == 0
        assert page.locator("#welcome").is_visible()
        assert page.evaluate("document.activeElement.id") == "message"


def test_origins_can_be_hidden(page):
    ask(page)
    until_answered(page)
    page.locator("#shows-origins").uncheck()
    lines = page.locator(f"{ANSWER} .token").evaluate_all("all => all.map(e => getComputedStyle(e).textDecorationLine)")
    assert set(lines) == {"none"}


def test_readers_hear_a_whole_answer_once(page):
    busy = page.evaluate_handle(
        "() => { window.busy = []; new MutationObserver(all => all.forEach("
        "each => window.busy.push(each.target.getAttribute('aria-busy'))))"
        ".observe(document.body, {subtree: true, attributeFilter: ['aria-busy']}); }"
    )
    ask(page)
    until_answered(page)
    busy.dispose()
    assert page.evaluate("window.busy").count("false") == 1
    assert page.locator("#conversation").get_attribute("role") == "log"
    status_says(page, "Answer complete. 40 tokens in")
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length).map(e => e.id)"
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(browser, server, scheme):
    with opened(browser, server.url, color_scheme=scheme) as page:
        go_on_from_a_text(page)
        ask(page)
        until_answered(page)
        page.locator(".prove").click()
        page.wait_for_selector(".verdict.same")
        page.fill("#temperature", "-1")
        ask(page)
        page.wait_for_selector(".error")
        ratios = page.evaluate(CONTRASTS)
        assert len(ratios) > 100
        assert [each for each in ratios if each["ratio"] < 4.5] == []


@pytest.mark.parametrize(("wish", "motion"), [("reduce", "none"), ("no-preference", "blink")])
def test_nothing_moves_for_those_who_want_it_still(browser, server, wish, motion):
    with opened(browser, server.url, reduced_motion=wish) as page:
        name = page.evaluate(
            "() => { const e = document.createElement('div'); e.className = 'turn'; e.ariaBusy = 'true';"
            " const t = document.createElement('div'); t.className = 'text'; e.append(t);"
            " document.body.append(e); return getComputedStyle(t, '::after').animationName; }"
        )
        assert name == motion


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_sideways_scrolling(browser, server, width):
    with opened(browser, server.url, **{**PHONE, "viewport": {"width": width, "height": 700}}) as page:
        go_on_from_a_text(page)
        page.locator("#settings summary").click()
        ask(page, "a-word-without-an-end" * 10)
        until_answered(page)
        page.locator(".prove").click()
        page.wait_for_selector(".verdict.same")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.innerWidth") == width
        box = page.locator("#send").bounding_box()
        assert box["y"] + box["height"] <= 700, "the message can be sent without scrolling"
        small = page.locator("button:visible").evaluate_all(
            "all => all.filter(each => each.getBoundingClientRect().height < 40).map(each => each.id)"
        )
        assert small == []
        page.locator("a[href='#live']").tap()
        expect(page.locator("#live-title")).to_be_in_viewport()


def test_a_conversation_is_sent_with_its_turns(browser, server):
    asked = []

    def answer(route):
        asked.append(json.loads(route.request.post_data))
        chunk = {"choices": [{"pieces": ["Well", "."], "origins": ["plain", "drafted"], "finish_reason": "stop"}]}
        route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")

    with opened(browser, server.url) as page:
        page.route("**/v1/chat/completions", answer)
        page.fill("#system", "Be brief.")
        page.fill("#gamma", "2")
        page.fill("#seed", "11")
        for count, text in enumerate(("first", "second"), start=1):
            ask(page, text)
            until_answered(page, count)
    system = {"role": "system", "content": "Be brief."}
    assert asked[0]["messages"] == [system, {"role": "user", "content": "first"}]
    assert asked[1]["messages"] == [
        *asked[0]["messages"],
        {"role": "assistant", "content": "Well."},
        {"role": "user", "content": "second"},
    ]
    assert asked[0]["speculative"] == {"enabled": True, "stats": True, "origins": True, "gamma": 2}
    given = {key: asked[0][key] for key in ("seed", "temperature", "top_p", "max_tokens", "stream")}
    assert given == {"seed": 11, "temperature": 0.7, "top_p": 0.95, "max_tokens": 256, "stream": True}


def test_a_conversation_is_answered_and_proven(browser, server):
    with opened(browser, server.url) as page:
        page.fill("#system", "Be brief.")
        page.fill("#max-tokens", "30")
        for count, text in enumerate(("first", "second"), start=1):
            ask(page, text)
            until_answered(page, count)
            assert len(said(page)) == 30
        page.locator(".prove").last.click()
        expect(page.locator(".verdict.same")).to_have_text(re.compile("Identical: 30 tokens"))


def test_without_a_page_there_is_none(browser):
    with served(options=ServerOptions(has_page=False)) as plain, opened(browser, plain.url) as page:
        assert "not_found" in page.content()
        assert page.locator("main").count() == 0


def test_a_key_is_asked_for_and_the_browsers_password_is_one(browser):
    with served(readable_engine(), keys=["the-key"]) as guarded:
        # Without a window nobody answers the question for the password.
        with pytest.raises(playwright.Error, match="ERR_INVALID_AUTH_CREDENTIALS"), opened(browser, guarded.url):
            pass
        wrong = {"username": "", "password": "another"}
        with opened(browser, guarded.url, http_credentials=wrong) as page:
            assert page.locator("main").count() == 0
            assert "invalid_api_key" in page.content()
        with opened(browser, guarded.url, http_credentials={"username": "", "password": "the-key"}) as page:
            go_on_from_a_text(page)
            ask(page)
            until_answered(page)
            assert len(said(page)) == NUM_TOKENS
            expect(page.locator("#rate")).not_to_have_text("-")


# Every visible text with the contrast of its colour to what lies behind it, as WCAG counts it.
CONTRASTS = """() => {
  const channel = value => { const c = value / 255; return c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const [one, other] = [numbers(getComputedStyle(element).color), behind(element)].map(luminance);
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    found.push({ text: walker.currentNode.textContent.slice(0, 40), ratio });
  }
  return found;
}"""
