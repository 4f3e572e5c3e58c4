from __future__ import annotations

import pytest

from paradraft.engine.text import TextStream
from support.byte_tokenizer import EOS, ByteTokenizer


def feed(stream: TextStream, data: bytes) -> list[str]:
    return [stream.push(byte).text for byte in data]


def test_characters_come_whole() -> None:
    stream = TextStream(ByteTokenizer(), ())
    pieces = feed(stream, "a🙂é漢".encode())
    assert pieces == ["a", "", "", "", "🙂", "", "é", "", "", "漢"]


def test_half_a_character_at_the_end_becomes_one_replacement_character() -> None:
    stream = TextStream(ByteTokenizer(), ())
    assert feed(stream, "🙂".encode()[:3]) == ["", "", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


@pytest.mark.parametrize("text", ["plain", "naïve 漢字 🙂👩‍👩‍👧", "a\ufffdb", ""])
def test_pieces_join_to_the_decoded_text(text: str) -> None:
    tokenizer = ByteTokenizer()
    stream = TextStream(tokenizer, ("never there",))
    joined = "".join(feed(stream, text.encode())) + stream.flush()
    assert joined == tokenizer.decode(list(text.encode()))


def test_invalid_bytes_decode_as_they_do_at_once() -> None:
    data = b"ok\xff\xfe\xe6\xbc\x20ok\xf0\x9f"
    stream = TextStream(ByteTokenizer(), ())
    assert "".join(feed(stream, data)) + stream.flush() == data.decode("utf-8", "replace")


def test_text_before_a_stop_is_kept_and_nothing_of_the_stop_is_shown() -> None:
    stream = TextStream(ByteTokenizer(), ("###",))
    pieces = [stream.push(byte) for byte in b"ab#c###"]
    assert [piece.text for piece in pieces] == ["a", "b", "", "#c", "", "", ""]
    assert pieces[-1].stop == "###"
    assert stream.flush() == ""


def test_the_earliest_stop_wins_and_a_longer_one_may_be_pending() -> None:
    stream = TextStream(ByteTokenizer(), ("bcd", "c"))
    stopped = [piece for byte in b"abcd" if (piece := stream.push(byte)).stop]
    assert stopped[0].stop == "c"


def test_a_held_beginning_of_a_stop_comes_out_at_the_end() -> None:
    stream = TextStream(ByteTokenizer(), ("STOP",))
    assert "".join(feed(stream, b"full ST")) == "full "
    assert stream.flush() == "ST"


def test_special_and_silent_tokens_leave_no_text() -> None:
    stream = TextStream(ByteTokenizer(), ())
    assert stream.push(EOS).text == ""
    assert stream.push(ord("x"), is_silent=True).text == ""
    assert stream.push(ord("y")).text == "y"


def test_a_stop_is_not_looked_for_while_it_may_not_end_the_row() -> None:
    stream = TextStream(ByteTokenizer(), ("ab",))
    assert [stream.push(byte, scans_stops=False).stop for byte in b"ab"] == [None, None]
    assert [stream.push(byte).stop for byte in b"ab"] == [None, "ab"]
