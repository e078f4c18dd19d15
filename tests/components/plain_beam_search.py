"""Joint CTC/attention beam search of one utterance, written down decision by decision.

The plain form of `voiceanon.components.asr.branchformer.beam_search` and of what it needs: nothing
is shared with it but the entries of the network. Hypotheses are objects in lists; CTC goes from
frame to frame, for the candidates of all hypotheses at once; the decoder keeps what its layers gave
for earlier tokens, and computes keys and values anew. That is how the published package does it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

ZERO = -1e10


@dataclass
class Text:
    ids: list
    score: float = 0.0
    decoder: float = 0.0
    ctc: float = 0.0
    layers: tuple = ()
    """For each layer what it gave for the tokens so far, (tokens, D)."""
    tables: np.ndarray | None = None
    """By frame and ending (token, blank), (T, 2)."""


class PlainDecoder:
    """Reads entries without the prefix ``decoder.``."""

    def __init__(self, entries, heads):
        self.entries = entries
        self.heads = heads
        names = {name.split(".")[1] for name in entries if name.startswith("decoders.")}
        self.layers = [f"decoders.{i}" for i in range(len(names))]

    def linear(self, name, x):
        return F.linear(x, self.entries[f"{name}.weight"], self.entries[f"{name}.bias"])

    def norm(self, name, x):
        weight, bias = self.entries[f"{name}.weight"], self.entries[f"{name}.bias"]
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + 1e-12).sqrt() * weight + bias

    def attend(self, name, queries, frames):
        """(n, 1, D) and (n or 1, T, D) to (n, 1, D)."""
        q, k, v = (
            self.linear(f"{name}.linear_{which}", x).unflatten(-1, (self.heads, -1))
            for which, x in (("q", queries), ("k", frames), ("v", frames))
        )
        scores = torch.einsum("nqhd,nkhd->nhqk", q, k.expand(len(q), -1, -1, -1))
        weights = (scores / math.sqrt(q.shape[-1])).softmax(-1)
        mixed = torch.einsum("nhqk,nkhd->nqhd", weights, v.expand(len(q), -1, -1, -1))
        return self.linear(f"{name}.linear_out", mixed.flatten(2))

    def next(self, texts, memory):
        """Log-probabilities (n, V) after texts of one length, and for each what its layers gave."""
        ids = torch.tensor([text.ids for text in texts])
        x = self.entries["embed.0.weight"][ids]
        width = x.shape[-1]
        k = torch.arange(width // 2)
        angle = torch.arange(ids.shape[1])[:, None] * 10000.0 ** (-2 * k / width)
        x = x * math.sqrt(width) + torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
        given = []
        for i, layer in enumerate(self.layers):
            y = x[:, -1:]
            normed = self.norm(f"{layer}.norm1", x)
            y = y + self.attend(f"{layer}.self_attn", normed[:, -1:], normed)
            normed = self.norm(f"{layer}.norm2", y)
            y = y + self.attend(f"{layer}.src_attn", normed, memory[None])
            inner = self.linear(f"{layer}.feed_forward.w_1", self.norm(f"{layer}.norm3", y))
            y = y + self.linear(f"{layer}.feed_forward.w_2", inner.relu())
            if texts[0].layers:
                y = torch.cat((torch.stack([text.layers[i] for text in texts]), y), 1)
            given.append(y)
            x = y
        scores = self.linear("output_layer", self.norm("after_norm", x[:, -1]))
        return scores.log_softmax(-1), [tuple(y[n] for y in given) for n in range(len(texts))]


def empty_tables(log_probs):
    tables = np.full((len(log_probs), 2), ZERO)
    tables[:, 1] = np.cumsum(log_probs[:, 0])
    return tables


def ctc_prefix(log_probs, texts, candidates):
    """Log-probabilities that a text goes on with a candidate, and the tables if it does.

    Args:
        log_probs: (T, V).
        texts: n, of one length.
        candidates: (n, C); the end counts as any token here.

    Returns:
        (n, C) and (n, C, T, 2).
    """
    frames, size = len(log_probs), len(texts[0].ids) - 1
    tables = np.stack([text.tables for text in texts])
    last = np.array([text.ids[-1] if size else -1 for text in texts])
    spoken, blank = log_probs[:, candidates], log_probs[:, 0]
    either = np.logaddexp(tables[..., 0], tables[..., 1])
    same = candidates == last[:, None]
    phi = np.where(same[..., None], tables[:, None, :, 1], either[:, None])
    new = np.full((*candidates.shape, frames, 2), ZERO)
    if size == 0:
        new[..., 0, 0] = spoken[0]
    start = max(size, 1)
    total = new[..., start - 1, 0]
    for t in range(start, frames):
        before = new[..., t - 1, 0]
        new[..., t, 0] = np.logaddexp(before, phi[..., t - 1]) + spoken[t]
        new[..., t, 1] = np.logaddexp(before, new[..., t - 1, 1]) + blank[t]
        total = np.logaddexp(total, phi[..., t - 1] + spoken[t])
    return total, new


def ctc_end(tables):
    return np.logaddexp(*tables[-1])


def is_over(finished, step):
    if not finished:
        return False
    best = max(text.score for text in finished)
    for length in (step, step - 1, step - 2):
        scores = [text.score for text in finished if len(text.ids) == length]
        if not scores or best - max(scores) <= 10.0:
            return False
    return True


def search(decoder, memory, log_probs, beam=15, weight=0.2):
    """All finished texts, best first.

    Args:
        decoder: A `PlainDecoder`.
        memory: Encoder frames of one utterance, (T, D).
        log_probs: Of CTC, NumPy (T, V).
        beam: Texts that are followed.
        weight: Of CTC.
    """
    log_probs = np.asarray(log_probs, dtype=np.float64)
    frames, vocabulary = log_probs.shape
    end = vocabulary - 1
    running = [Text(ids=[end], tables=empty_tables(log_probs))]
    finished = []
    for step in range(frames):
        scores, layers = decoder.next(running, memory)
        count = min(int(1.5 * beam), vocabulary)
        candidates = scores.topk(count).indices.numpy()
        scores = scores.double().numpy()
        totals, tables = ctc_prefix(log_probs, running, candidates)
        joint = np.full((len(running), vocabulary), -np.inf)
        ctc = np.full((len(running), vocabulary), ZERO)
        for n, text in enumerate(running):
            ctc[n, candidates[n]] = totals[n]
            ctc[n, end] = ctc_end(text.tables)
            for token in (*candidates[n], end):
                if token != 0:
                    difference = ctc[n, token] - text.ctc
                    joint[n, token] = (
                        text.score + (1 - weight) * scores[n, token] + weight * difference
                    )
        followed = []
        for place in np.argsort(-joint, axis=None, kind="stable")[:beam]:
            n, token = divmod(int(place), vocabulary)
            if joint[n, token] == -np.inf:
                break
            parent = running[n]
            text = Text(
                ids=[*parent.ids, token],
                score=joint[n, token],
                decoder=parent.decoder + scores[n, token],
                ctc=ctc[n, token],
                layers=layers[n],
            )
            if token != end:
                text.tables = tables[n, list(candidates[n]).index(token)]
            followed.append(text)
        if step == frames - 1:
            for text in followed:
                text.ids.append(end)
        finished += [text for text in followed if text.ids[-1] == end]
        running = [text for text in followed if text.ids[-1] != end]
        if is_over(finished, step) or not running:
            break
    return sorted(finished, key=lambda text: -text.score)
