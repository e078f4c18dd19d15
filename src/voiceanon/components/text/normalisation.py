"""English transcripts as words that can be spoken: numbers, symbols, abbreviations, brackets.

Whisper's own normaliser goes the other way, from words to digits and without punctuation, since it
serves the comparison of transcripts. Source: specification sheet of the family, section 3.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from voiceanon.components.text import numbers

MAX_CHARACTERS = 250
"""Longest text that is synthesised at once (specification sheet, section 3)."""

_ASCII = {
    **dict.fromkeys("\u2018\u2019\u201b\u02bc`\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2014\u2015", ", "),
    "\u2026": ". ",
}
"""Quotation marks, hyphens and minus, dashes, ellipsis."""

_TRANSLATION = str.maketrans(_ASCII)

_BRACKETS = re.compile(r"\[[^\]]*\]|\([^)]*\)|\*[^*]*\*")
_KEPT = re.compile(r"[^A-Za-z' ,.?!;:]")

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
}
_SYMBOLS = {
    "%": " percent ",
    "&": " and ",
    "+": " plus ",
    "=": " equals ",
    "@": " at ",
    "°": " degrees ",
    "/": " ",
}
_ABBREVIATIONS = {
    "mr": "mister",
    "mrs": "missus",
    "ms": "miz",
    "dr": "doctor",
    "prof": "professor",
    "st": "saint",
    "jr": "junior",
    "sr": "senior",
    "gen": "general",
    "col": "colonel",
    "capt": "captain",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "rev": "reverend",
    "hon": "honorable",
    "gov": "governor",
    "sen": "senator",
    "rep": "representative",
    "vs": "versus",
    "etc": "et cetera",
    "dept": "department",
    "approx": "approximately",
}

_NUMBER = r"\d{1,3}(?:,\d{3})+|\d+"
_SCALE = r"thousand|million|billion|trillion"
_FIRST_YEAR, _LAST_YEAR = 1100, 2099

_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


def normalise_english(text: str) -> str:
    """Turns a transcript into words and punctuation.

    Args:
        text: As a recogniser writes it.

    Returns:
        ASCII letters, apostrophes, spaces and ``, . ? ! ; :``, without spaces at the ends. What has
        no English reading is left out, so that the result can be empty.
    """
    text = _plain_letters(text.translate(_TRANSLATION))
    text = _BRACKETS.sub(" ", text)
    for pattern, replace in _RULES:
        text = pattern.sub(replace, text)
    for symbol, words in _SYMBOLS.items():
        text = text.replace(symbol, words)
    return _tidy(_KEPT.sub(" ", text))


def split_sentences(text: str, max_characters: int = MAX_CHARACTERS) -> list[str]:
    """Cuts a text into pieces that are synthesised one by one.

    Args:
        text: Normalised.
        max_characters: Longest piece. Cuts fall behind sentences if possible, else behind other
            punctuation, between words, or anywhere.

    Returns:
        Pieces that hold a letter each; none for a text without letters.
    """
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > max_characters:
        cut = _last_cut(rest, max_characters)
        pieces.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [piece for piece in [*pieces, rest] if any(map(str.isalpha, piece))]


def _last_cut(text: str, most: int) -> int:
    for breaks in (r"[.?!]['\"]?(?= )", r"[,;:](?= )", r" "):
        cuts = [match.end() for match in re.finditer(breaks, text[: most + 1])]
        if cuts:
            return min(cuts[-1], most)
    return most


def _plain_letters(text: str) -> str:
    """Takes accents off: no English phonemiser needs them."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _tidy(text: str) -> str:
    text = re.sub(r"(?<![A-Za-z])'|'(?![A-Za-z])", " ", text)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" (?=[,.?!;:])", "", text)
    # Of several marks in a row the last that ends a sentence counts, else the first.
    text = re.sub(r"[,.?!;:]{2,}", lambda m: (re.findall(r"[.?!]", m[0]) or [m[0][0]])[-1], text)
    text = re.sub(r"([,.?!;:])(?=[A-Za-z'])", r"\1 ", text)
    return text.lstrip(" ,.?!;:").strip()


def _whole(text: str) -> str:
    return numbers.spoken(text.replace(",", ""))


def _currency(match: re.Match[str]) -> str:
    sign, whole, fraction, scale = match.groups()
    one, many, small, smalls = _CURRENCIES[sign]
    if scale:
        point = f" point {numbers.digits(fraction)}" if fraction else ""
        return f" {_whole(whole)}{point} {scale} {many} "
    words = [] if fraction and not whole.strip("0,") else [_whole(whole), one, "and"]
    if words and whole != "1":
        words[1] = many
    if fraction and fraction.strip("0"):
        count = int(fraction[:2].ljust(2, "0"))
        words += [numbers.cardinal(count), small if count == 1 else smalls]
    elif words:
        words.pop()
    else:
        words = ["zero", many]
    return f" {' '.join(words)} "


def _time(match: re.Match[str]) -> str:
    hour, minute, half = match.groups()
    words = [numbers.cardinal(int(hour))]
    if int(minute):
        words.append(("oh " if int(minute) < 10 else "") + numbers.cardinal(int(minute)))
    elif not half:
        words.append("o'clock" if 1 <= int(hour) <= 12 else "hundred")
    return " ".join([*words, *([f"{half} m"] if half else []), ""])


def _four_digits(match: re.Match[str]) -> str:
    number = int(match[1])
    words = numbers.year(number) if _FIRST_YEAR <= number <= _LAST_YEAR else _whole(match[1])
    return numbers.plural(words) if match[2] else words


def _decimal(match: re.Match[str]) -> str:
    whole = _whole(match[1]) if match[1] else ""
    parts = " ".join(f"point {numbers.digits(part)}" for part in match[2].strip(".").split("."))
    return f"{whole} {parts}"


def _letters(match: re.Match[str]) -> str:
    return " ".join(match[0].replace(".", "")) + " "


def _ordinal(match: re.Match[str]) -> str:
    number = match[1].replace(",", "")
    return numbers.ordinal(int(number)) if len(number) <= numbers.LONGEST_NUMBER else match[0]


_RULES: tuple[_Rule, ...] = (
    # "U.S.A." is spelled; a sentence may end there, which is not to be known.
    (re.compile(r"\b(?:[A-Za-z]\.){2,}"), _letters),
    (
        re.compile(rf"\b({'|'.join(_ABBREVIATIONS)})\.", re.IGNORECASE),
        lambda m: _ABBREVIATIONS[m[1].lower()],
    ),
    (re.compile(r"\b(?:No|no)\.\s?(?=\d)"), lambda _: "number "),
    (re.compile(r"#\s?(?=\d)"), lambda _: "number "),
    (
        re.compile(rf"([$£€])\s?({_NUMBER})(?:\.(\d+))?(?:\s({_SCALE})\b)?"),
        _currency,
    ),
    (re.compile(r"\b(\d{1,2}):(\d{2})(?:\s?([ap])\.?\s?m\b\.?)?", re.IGNORECASE), _time),
    (
        re.compile(r"\b(\d{1,2})\s?([ap])\.?m\b\.?", re.IGNORECASE),
        lambda m: f"{_whole(m[1])} {m[2]} m",
    ),
    (re.compile(rf"\b({_NUMBER})(?:st|nd|rd|th)\b"), _ordinal),
    # Telephone numbers before ranges.
    (
        re.compile(r"\b\d{3}-(?:\d{3}-)?\d{4}\b"),
        lambda m: ", ".join(numbers.digits(part) for part in m[0].split("-")),
    ),
    (re.compile(r"(?<=\d)\s?-\s?(?=\d)"), lambda _: " to "),
    (re.compile(r"(?<![\d\w])-(?=\.?\d)"), lambda _: "minus "),
    (re.compile(r"(?<![\d.,])'?(\d0)s\b"), lambda m: numbers.plural(_whole(m[1]))),
    (re.compile(r"(?<![\d.,])(\d{4})(s?)\b(?![.,]?\d)"), _four_digits),
    (re.compile(rf"({_NUMBER})?((?:\.\d+)+)"), _decimal),
    (re.compile(_NUMBER), lambda m: f" {_whole(m[0])} "),
)
"""In this order, each applied everywhere before the next."""
