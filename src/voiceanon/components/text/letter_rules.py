"""English spelling to sounds by rules, for words that no dictionary has.

Rules of the kind that Elovitz et al. 1976 ("Letter-to-sound rules for automatic translation of
English text to phonetics", IEEE Trans. ASSP 24) made known: at each place of a word, the first rule
that fits says which letters are read together and how. The rules are ours, and few: they are for
names and rare words, whose pronunciation listeners forgive.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {"V": "[aeiouy]", "C": "[bcdfghjklmnpqrstvwxz]", "F": "[eiy]", "T": "[td]"}

_TABLE = """
a: ^[a]$ AH | [augh]t AO | [au] AO | [aw] AO | [air] EH R | [are]$ EH R | [ar]{V} EH R | [arr] EH R
a: w[ar] AO R | [ar] AA R | [ai] EY | [ay] EY | [able]$ AH B AH L | [age]$ IH JH
a: [ation] EY SH AH N | [al]k AO | [al]l AO L | [al]m AA | [al]$ AH L | qu[a] AA | w[a]{C} AA
a: [a]$ AH | [a]{C}e$ EY | [a]{C}{V} EY | [a] AE
b: m[b]$ - | [bb] B | [b] B
c: ^[ch]r K | [tch] CH | [ch] CH | [ck] K | [ciou] SH AH | [cial] SH AH L | [cc]{F} K S | [cc] K
c: s[c]{F} - | [c]{F} S | [c] K
d: [dge] JH | [dg] JH | [dd] D | [ed]$ D | [d] D
e: {T}[ed]$ IH D | [ed]$ D | [eau] OW | [ear]{C} ER | [ear] IH R | [eer] IH R | [ere]$ IH R
e: [ea]d$ EH | [ea] IY | [ee] IY | [ei]gh EY | [ei] IY | [ew] UW | [eu] UW | [ey]$ IY | [ey] EY
e: [er] ER | ^[e]$ IY | ^{C}+[e]$ IY | [es]$ Z | [e]ly$ - | [e]$ - | [e]{C}e$ IY | [e] EH
f: [ff] F | [f] F
g: ^[gh] G | [gh] - | ^[gn] N | [gn]$ N | [gg] G | [g]{F} JH | [gu]{F} G | [g] G
h: ^[h]our - | ^[h]on - | [h]{V} HH | [h] -
i: ^[i]$ AY | [igh] AY | [ight] AY T | [ir] ER | [ing]$ IH NG | [ia] IY AH | [ie]$ IY | [ied]$ IY D
i: [ies]$ IY Z | [ie] IY | [io]n AH | [iou] IY AH | [ism]$ IH Z AH M | [ind]$ AY N D | [ild]$ AY L D
i: [i]{C}e$ AY | [i]$ IY | [i]{V} IY | [i] IH
j: [j] JH
k: ^[kn] N | [k] K
l: [le]$ AH L | [ll] L | [l] L
m: [mm] M | [m] M
n: [ng]$ NG | [nk] NG K | [nn] N | [n] N
o: [ough]t AO | [ough] OW | [oa] OW | [oe] OW | [oo]k UH | [oo]d$ UH | [oo] UW | [oi] OY | [oy] OY
o: [our] AO R | [ous]$ AH S | [ould] UH D | [ou] AW | [ow]$ OW | [ow]n$ AW | [ow] AW | w[or] ER
o: [or] AO R | [old] OW L D | [ost]$ OW S T | [o]$ OW | [on]$ AH N | [o]{C}e$ OW | [o]{C}{V} OW
o: [o]ther AH | [o] AA
p: ^[ps] S | ^[pn] N | [ph] F | [pp] P | [p] P
q: [qu]e$ K | [que]$ K | [qu] K W | [q] K
r: ^[rh] R | [rr] R | [re]$ ER | [r] R
s: [sch] S K | [sh] SH | [sion] ZH AH N | [ssion] SH AH N | [ss] S | [sce] S | {V}[s]{V} Z
s: {V}[s]$ Z | [s]m$ Z | [s] S
t: [tch] CH | [th]e$ DH | [th] TH | [tion] SH AH N | [tial] SH AH L | [tious] SH AH S | [ture] CH ER
t: [tt] T | [t] T
u: [ur] ER | [ui] UW | [ue]$ UW | [uy] AY | q[u] W | [u]{C}e$ UW | [u]{C}{V} UW | [u]$ UW | [u] AH
v: [v] V
w: ^[wr] R | ^[who] HH UW | [wh] W | [w]{V} W | [w] -
x: ^[x] Z | [x] K S
y: ^[y]{V} Y | ^{C}+[y]$ AY | [y]$ IY | [y]{C}e$ AY | [y] IH
z: [zz] Z | [z] Z
"""
"""Letter, then its rules: what stands left, the letters in brackets, what stands right, and the
ARPAbet phones, ``-`` for none. ``^`` and ``$`` are the ends of the word, ``{V}`` a vowel letter,
``{C}`` a consonant letter, ``{F}`` one of e, i, y, ``{T}`` one of t, d."""

_SPELLED = {
    "a": "EY", "b": "B IY", "c": "S IY", "d": "D IY", "e": "IY", "f": "EH F", "g": "JH IY",
    "h": "EY CH", "i": "AY", "j": "JH EY", "k": "K EY", "l": "EH L", "m": "EH M", "n": "EH N",
    "o": "OW", "p": "P IY", "q": "K Y UW", "r": "AA R", "s": "EH S", "t": "T IY", "u": "Y UW",
    "v": "V IY", "w": "D AH B AH L Y UW", "x": "EH K S", "y": "W AY", "z": "Z IY",
}  # fmt: skip
"""Names of the letters."""

_Rule = tuple[re.Pattern[str], re.Pattern[str], tuple[str, ...]]


def pronounce(word: str) -> tuple[str, ...]:
    """Gives the sounds of a word.

    Args:
        word: Lower-case ASCII letters and apostrophes.

    Returns:
        ARPAbet phones without stress digits. A word without vowel letters is spelled.
    """
    letters = word.replace("'", "")
    if not re.search(_CLASSES["V"], letters):
        return spell(letters)
    phones: list[str] = []
    place = 0
    while place < len(letters):
        for left, here, sounds in _rules()[letters[place]]:
            found = here.match(letters, place)
            if found and left.search(letters[:place]):
                phones += sounds
                place = found.end(1)
                break
        else:
            place += 1
    return tuple(phones) or spell(letters)


def spell(letters: str) -> tuple[str, ...]:
    """Gives the sounds of the names of letters, a to z."""
    return tuple(phone for letter in letters for phone in _SPELLED[letter].split())


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[_Rule]]:
    rules: dict[str, list[_Rule]] = {}
    for line in _TABLE.strip().splitlines():
        letter, _, entries = line.partition(": ")
        for entry in entries.split(" | "):
            rules.setdefault(letter, []).append(_rule(entry))
    return rules


def _rule(entry: str) -> _Rule:
    parts = re.fullmatch(r"(.*?)\[([a-z]+)\](\S*) (.*)", entry)
    if parts is None:
        raise ValueError(f"letter rule {entry!r} is malformed")
    left, here, right, sounds = parts.groups()
    left, right = (part.format_map(_CLASSES) for part in (left, right))
    return (
        re.compile(f"{left}$"),
        re.compile(f"({here})(?={right})"),
        tuple(sounds.split()) if sounds != "-" else (),
    )
