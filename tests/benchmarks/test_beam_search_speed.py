"""The batched joint search against its plain form, in one process on one thread.

The plain form takes utterances one by one, as the published package does: hypotheses are objects in
lists, CTC goes from frame to frame for the candidates of all hypotheses at once, the decoder
computes keys and values of the whole text for every token. Time is that of the thread, so that what
else the machine does matters little.

What limits the batched form with this small decoder, under a profiler: attention to the text and
CTC's two cumulative sums take a fifth of the time each, and the calls of small operations most of
the rest. With the published sizes the decoder's matrices do.
"""

import time

import numpy as np
import pytest
import torch
from components import plain_beam_search, reduced_recognizer

LEAST_RATIO = 5.0

FRAMES_PER_SECOND = 25

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


def best_seconds(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize("utterances", [8, 16])
def test_mixed_utterances(utterances):
    seconds = np.random.default_rng(0).uniform(2, 12, utterances)
    counts = torch.from_numpy((seconds * FRAMES_PER_SECOND).astype(np.int64))
    torch.manual_seed(0)
    encoded = 2 * torch.randn(utterances, int(counts.max()), 32)
    model = reduced_recognizer.reduced()
    plain = plain_beam_search.PlainDecoder(model.decoder.state_dict(), 4)
    memories = [row[:count] for row, count in zip(encoded, counts, strict=True)]

    def one_by_one():
        return [
            plain_beam_search.search(plain, memory, model.ctc(memory).numpy())
            for memory in memories
        ]

    texts = []
    plain_time = best_seconds(lambda: texts.extend(one_by_one()), 1)
    for result, found in zip(model.search(encoded, counts), texts, strict=True):
        assert result.hypotheses[0].ids == tuple(found[0].ids)

    ours = best_seconds(lambda: model.search(encoded, counts), 3)
    single = best_seconds(
        lambda: [
            model.search(memory[None], count[None])
            for memory, count in zip(memories, counts, strict=True)
        ],
        1,
    )
    print(
        f"\n{utterances} utterances, {seconds.sum():.0f} s: {plain_time / ours:.1f} times the "
        f"plain form; one by one {plain_time / single:.1f} times"
    )
    assert plain_time / ours >= LEAST_RATIO
