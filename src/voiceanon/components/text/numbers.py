"""English numbers as words: cardinals, ordinals, years, decimals, single digits.

American usage: no "and" within numbers. Words are joined by spaces, not hyphens, since hyphens mean
nothing to a synthesiser.
"""

from __future__ import annotations

_UNITS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ["thousand", "million", "billion", "trillion", "quadrillion", "quintillion"]
_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}

LONGEST_NUMBER = 3 * (len(_SCALES) + 1)
"""Digits of the longest number that has words; longer ones are read digit by digit."""


def cardinal(number: int) -> str:
    """Gives the words of a number from 0 to 10 ** `LONGEST_NUMBER` - 1."""
    groups: list[int] = []
    while number or not groups:
        number, group = divmod(number, 1000)
        groups.append(group)
    words = []
    for place, group in reversed(list(enumerate(groups))):
        if group or len(groups) == 1:
            words.append(_below_thousand(group))
            if place:
                words.append(_SCALES[place - 1])
    return " ".join(words)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [_UNITS[hundreds], "hundred"] if hundreds else []
    if rest >= len(_UNITS):
        tens, units = divmod(rest, 10)
        words.append(_TENS[tens - 2])
        if units:
            words.append(_UNITS[units])
    elif rest or not hundreds:
        words.append(_UNITS[rest])
    return " ".join(words)


def ordinal(number: int) -> str:
    """Gives the words of "1st", "2nd", ...; the same range as `cardinal`."""
    *others, last = cardinal(number).split(" ")
    if last in _IRREGULAR_ORDINALS:
        last = _IRREGULAR_ORDINALS[last]
    elif last.endswith("y"):
        last = f"{last[:-1]}ieth"
    else:
        last = f"{last}th"
    return " ".join([*others, last])


def year(number: int) -> str:
    """Reads a year from 1000 to 9999 as people do: in two halves, but for those like 2007."""
    century, rest = divmod(number, 100)
    if century % 10 == 0 and rest < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def plural(words: str) -> str:
    """Gives the plural of a number's words, as in "nineties" and "hundreds"."""
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def digits(text: str) -> str:
    """Reads a string of digits one by one."""
    return " ".join(_UNITS[int(digit)] for digit in text)


def spoken(text: str) -> str:
    """Reads digits as one number, or one by one where they are no number or too long for words."""
    if len(text) > LONGEST_NUMBER or (len(text) > 1 and text.startswith("0")):
        return digits(text)
    return cardinal(int(text))
