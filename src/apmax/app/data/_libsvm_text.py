"""LIBSVM text to arrays: labels, row lengths, indices and values, byte by byte.

The text must end with a newline, which is where every inner loop stops. A number becomes the
double that ``float()`` would give, in one of three ways:

1. up to 2⁵³ with a power of ten up to 10²²: both are doubles, so one operation rounds once;
2. up to 18 digits with a power up to 10²⁰⁰: twice the precision, where the rounding is sure;
3. the rest is left to the caller, who is told where it stands ("late").
"""

from __future__ import annotations

import numpy as np

from apmax._compile import kernel

DONE, WIDE, BAD_LABEL, BAD_FEATURE, BAD_QUERY, BAD_VALUE, BAD_INDEX, REPEATED = range(8)
"""How a call ended: all read; an index needs int64; or what is wrong at the position."""

EXACT, LATE, NO_NUMBER = range(3)

LARGEST_POWER = 200
_POWERS = [10**k for k in range(LARGEST_POWER + 1)]
POWER = np.array([float(power) for power in _POWERS])
POWER_REST = np.array([float(power - int(float(power))) for power in _POWERS])
"""10^k − POWER[k]: together they hold 106 bits."""

MOST_DIGITS = 18
SLACK = 2.0**-92
"""Relative, some 2¹⁰ times the error of a product or quotient in twice the precision."""
SPLIT = 2.0**27 + 1.0

NEWLINE, HASH, COLON, DOT, PLUS, MINUS = (ord(c) for c in "\n#:.+-")
ZERO, NINE, LOWER_Q, LOWER_E, UPPER_E = (ord(c) for c in "09qeE")
SPACE, TAB, RETURN = (ord(c) for c in " \t\r")
QUERY = np.frombuffer(b"qid:", np.uint8)


@kernel
def parse_lines(text, begin, end, most, indices, values, labels, lengths, late_at, late_slot):
    """Read the lines of text[begin:end] into the arrays, which are large enough for all.

    Returns (status, position, rows, entries, lines, late, largest): how it ended and where,
    what was filled (whole rows only), and the largest index seen. ``late_slot`` holds entry k
    as k and the label of row r as −1 − r.
    """
    rows = entries = lines = late = largest = 0
    at = begin
    while at < end:
        line = at
        at = _past_blanks(text, at)
        if text[at] == NEWLINE or text[at] == HASH:
            at = _past_line(text, at)
            lines += 1
            continue
        first, late_before = entries, late
        how, labels[rows], past = _number(text, at)
        if how == NO_NUMBER or not _ends_token(text[past]):
            return BAD_LABEL, at, rows, first, lines, late_before, largest
        if how == LATE:
            late_at[late], late_slot[late] = at, -1 - rows
            late += 1
        at = _past_blanks(text, past)
        if text[at] == LOWER_Q:
            past = _past_query(text, at)
            if past < 0:
                return BAD_QUERY, at, rows, first, lines, late_before, largest
            at = past
        status, at, entries, late, highest, in_order = _parse_pairs(
            text, at, most, indices, values, entries, late_at, late_slot, late
        )
        if status != DONE:
            at = line if status == WIDE else at
            return status, at, rows, first, lines, late_before, largest
        if not in_order:
            row = indices[first:entries]
            _sort_row(row, values[first:entries], late_slot[late_before:late], first)
            if np.any(row[1:] == row[:-1]):
                return REPEATED, line, rows, first, lines, late_before, largest
        largest = max(largest, highest)
        lengths[rows] = entries - first
        rows += 1
        at = _past_line(text, at)
        lines += 1
    return DONE, at, rows, entries, lines, late, largest


@kernel
def _parse_pairs(text, at, most, indices, values, entries, late_at, late_slot, late):
    """Read the index:value pairs of one row.

    Returns (status, position, entries, late, highest, in_order), the first two as
    :func:`parse_lines` does.
    """
    previous = highest = 0
    in_order = True
    while text[at] != NEWLINE and text[at] != HASH:
        index, past = _index(text, at, most)
        status = _check_index(index, past > at and text[past] == COLON, most, previous)
        if status == DONE and index - 1 > np.iinfo(indices.dtype).max:
            status = WIDE
        if status != DONE:
            return status, at, entries, late, highest, in_order
        how, value, after = _number(text, past + 1)
        if how == NO_NUMBER or not _ends_token(text[after]):
            return BAD_VALUE, past + 1, entries, late, highest, in_order
        if how == LATE:
            late_at[late], late_slot[late] = past + 1, entries
            late += 1
        indices[entries], values[entries] = index - 1, value
        entries += 1
        in_order = in_order and index > previous
        previous, highest = index, max(highest, index)
        at = _past_blanks(text, after)
    return DONE, at, entries, late, highest, in_order


@kernel
def _check_index(index, has_form, most, previous):
    if not has_form:
        return BAD_FEATURE
    if index == 0 or index > most:
        return BAD_INDEX
    return REPEATED if index == previous else DONE


@kernel
def _past_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@kernel
def _past_line(text, at):
    while text[at] != NEWLINE:
        at += 1
    return at + 1


@kernel
def _is_digit(c):
    return ZERO <= c <= NINE


@kernel
def _ends_token(c):
    return c in (SPACE, NEWLINE, TAB, RETURN, HASH)


@kernel
def _past_query(text, at):
    """Past ``qid:7`` and its blanks; −1 if it is something else."""
    for k in range(QUERY.size):
        if text[at + k] != QUERY[k]:
            return -1
    at += QUERY.size
    digits = at
    while _is_digit(text[at]):
        at += 1
    if at == digits or not _ends_token(text[at]):
        return -1
    return _past_blanks(text, at)


@kernel
def _index(text, at, most):
    """The index and where its digits end; anything above `most` if it is above."""
    index = np.int64(0)
    while _is_digit(text[at]):
        if index <= most:  # else it has said enough, and would overflow
            index = index * 10 + (np.int64(text[at]) - ZERO)
        at += 1
    return index, at


@kernel
def _number(text, at):
    """(how, value, past) of the decimal number at `at`."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    start = at
    while text[at] == ZERO:
        at += 1
    mantissa = np.int64(0)
    scale = 0
    significant = at
    while _is_digit(text[at]):
        mantissa = mantissa * 10 + (np.int64(text[at]) - ZERO)
        at += 1
    digits = at - significant
    seen = at - start
    if text[at] == DOT:
        at += 1
        fraction = at
        if digits == 0:
            while text[at] == ZERO:
                at += 1
        significant = at
        while _is_digit(text[at]):
            mantissa = mantissa * 10 + (np.int64(text[at]) - ZERO)
            at += 1
        digits += at - significant
        scale = fraction - at
        seen += at - fraction
    if seen == 0:
        return NO_NUMBER, 0.0, at
    if text[at] == LOWER_E or text[at] == UPPER_E:
        exponent, at = _exponent(text, at + 1)
        if at < 0:
            return NO_NUMBER, 0.0, start
        scale += exponent
    how, value = _scaled(mantissa, scale) if digits <= MOST_DIGITS else (LATE, 0.0)
    return how, -value if negative else value, at


@kernel
def _exponent(text, at):
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    digits = at
    exponent = np.int64(0)
    while _is_digit(text[at]):
        if exponent < 1 << 40:  # else it has said enough, and would overflow
            exponent = exponent * 10 + (np.int64(text[at]) - ZERO)
        at += 1
    if at == digits:
        return 0, -1
    return -exponent if negative else exponent, at


@kernel
def _scaled(mantissa, scale):
    """(how, mantissa · 10^scale), rounded once."""
    whole = np.float64(mantissa)
    if scale == 0 or mantissa == 0:
        return EXACT, whole
    if mantissa <= 1 << 53:
        if 0 < scale <= 22:
            return EXACT, whole * POWER[scale]
        if -22 <= scale < 0:
            return EXACT, whole / POWER[-scale]
    if abs(scale) > LARGEST_POWER:
        return LATE, 0.0
    rest = np.float64(mantissa - np.int64(whole))
    if scale > 0:
        power, power_rest = POWER[scale], POWER_REST[scale]
        high = whole * power
        low = _product_error(whole, power, high) + (whole * power_rest + rest * power)
    else:
        power, power_rest = POWER[-scale], POWER_REST[-scale]
        high = whole / power
        product = high * power
        remainder = (whole - product) - _product_error(high, power, product)
        low = (remainder + (rest - high * power_rest)) / power
    slack = high * SLACK
    value = high + (low - slack)
    if value == high + (low + slack):
        return EXACT, value
    return LATE, 0.0


@kernel
def _product_error(a, b, product):
    """a·b − product, exactly (Dekker 1971)."""
    a_high = a * SPLIT - (a * SPLIT - a)
    b_high = b * SPLIT - (b * SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def _sort_row(indices, values, slots, first):
    """Shell sort of one row; the slots of its late values move with it."""
    for k in range(slots.size):
        if slots[k] >= 0:  # an entry, not the label: remember its index, for its place changes
            slots[k] = indices[slots[k] - first]
    gap = 1
    while gap < indices.size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, indices.size):
            index, value = indices[i], values[i]
            j = i
            while j >= gap and indices[j - gap] > index:
                indices[j], values[j] = indices[j - gap], values[j - gap]
                j -= gap
            indices[j], values[j] = index, value
        gap //= 3
    for k in range(slots.size):
        if slots[k] >= 0:
            slots[k] = first + np.searchsorted(indices, slots[k])
