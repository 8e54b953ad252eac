"""From tokens to text: nothing is shown that later tokens could change."""

import numpy as np
import pytest

from memjax.data.tokenizers import ByteTokenizer
from memjax.generation.text import TextStream

TEXT = 'Ⅷ. Über 🜁, naïve “quotes” — end 🜂'


def pushed(raw: bytes, width: int, stop: str | None = None) -> tuple[list[str], TextStream]:
    stream = TextStream(ByteTokenizer(), stop)
    ids = np.frombuffer(raw, np.uint8)
    texts = [stream.push(ids[begin : begin + width]) for begin in range(0, len(ids), width)]
    return [*texts, stream.finish()], stream


@pytest.mark.parametrize('width', [1, 2, 3, 5, 1000])
def test_characters_come_whole_however_tokens_are_cut(width):
    texts, _ = pushed(TEXT.encode(), width)
    assert ''.join(texts) == TEXT
    assert not any('\ufffd' in text for text in texts)


@pytest.mark.parametrize('width', [1, 4, 64])
def test_what_is_no_text_is_replaced_as_when_decoded_at_once(width):
    generator = np.random.default_rng(0)
    for _ in range(20):
        raw = generator.choice(list(TEXT.encode() + b'\xff\x80\xf0aaa'), size=300).astype(np.uint8).tobytes()
        texts, _ = pushed(raw, width)
        assert ''.join(texts) == raw.decode(errors='replace')


def test_an_unfinished_character_is_shown_at_the_end_alone():
    assert pushed(b'a\xe2\x82', 1)[0] == ['a', '', '', '\ufffd']


@pytest.mark.parametrize('width', [1, 2, 7, 1000])
@pytest.mark.parametrize('stop', ['quotes', '“', '🜂', 'n', 'e “', TEXT])
def test_ends_before_the_stop_string(stop, width):
    texts, stream = pushed(TEXT.encode(), width, stop)
    assert ''.join(texts) == TEXT.partition(stop)[0]
    assert stream.is_stopped
    assert stream.push(np.array([65])) == stream.finish() == ''


def test_a_stop_string_that_does_not_come_holds_nothing_back_for_good():
    texts, stream = pushed(b'aab aaba', 1, 'aaab')
    assert texts == ['', '', 'aab', ' ', '', '', 'aab', '', 'a']
    assert not stream.is_stopped


def test_a_long_text_costs_no_more_a_token():
    decoded = []

    class Counting(ByteTokenizer):
        def decode(self, ids):
            decoded.append(len(ids))
            return super().decode(ids)

    stream = TextStream(Counting())
    for _ in range(1000):
        stream.push(np.frombuffer('é'.encode(), np.uint8))
    assert max(decoded) < 100
