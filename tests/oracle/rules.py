"""The rules by which Tessera derives what is random, written a second time, from their definition.

Philox4x32-10 (Salmon et al. 2011) is keyed by XXH64 of a name, seeded with the run's seed. Initial
values and the order of samples follow from it alone, so a run needs nobody else's numbers.
"""

import struct

import numpy

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


def xxh64(name, seed):
    """XXH64 of a name."""
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
    data = name.encode()
    length = len(data)

    def rotated(x, bits):
        return ((x << bits) | (x >> (64 - bits))) & MASK64

    def mixed(state, lane):
        return rotated((state + lane * p2) & MASK64, 31) * p1 & MASK64

    h = (seed + p5) & MASK64
    if length >= 32:
        states = [(seed + add) & MASK64 for add in (p1 + p2, p2, 0, -p1)]
        while len(data) >= 32:
            states = [mixed(*pair) for pair in zip(states, struct.unpack_from("<4Q", data))]
            data = data[32:]
        h = sum(rotated(*pair) for pair in zip(states, (1, 7, 12, 18))) & MASK64
        for state in states:
            h = ((h ^ mixed(0, state)) * p1 + p4) & MASK64
    h = (h + length) & MASK64
    while len(data) >= 8:
        (lane,) = struct.unpack_from("<Q", data)
        h ^= rotated(lane * p2 & MASK64, 31) * p1 & MASK64
        h = (rotated(h, 27) * p1 + p4) & MASK64
        data = data[8:]
    if len(data) >= 4:
        (lane,) = struct.unpack_from("<I", data)
        h ^= lane * p1 & MASK64
        h = (rotated(h, 23) * p2 + p3) & MASK64
        data = data[4:]
    for byte in data:
        h ^= byte * p5 & MASK64
        h = rotated(h, 11) * p1 & MASK64
    h = (h ^ (h >> 33)) * p2 & MASK64
    h = (h ^ (h >> 29)) * p3 & MASK64
    return h ^ (h >> 32)


def philox(key, counter):
    """Four words for each counter; the counter's four words are arrays or numbers."""
    c = [numpy.asarray(word, numpy.uint64) for word in counter]
    k = [key & MASK32, key >> 32]
    for _ in range(10):
        low, high = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        c = [(high >> 32) ^ c[1] ^ k[0], high & MASK32, (low >> 32) ^ c[3] ^ k[1], low & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def normal(seed, name, shape, deviation):
    """Initial values: Box-Muller on two 53-bit uniforms, the counter is the element's index."""
    words = philox(xxh64(name, seed), [numpy.arange(numpy.prod(shape)), 0, 0, 0])
    first, second = (
        ((words[i] << 32 | words[i + 1]) >> 11).astype(numpy.float64) * 2.0**-53 for i in (0, 2)
    )
    values = numpy.sqrt(-2 * numpy.log(1 - first)) * numpy.cos(2 * numpy.pi * second)
    return deviation * values.reshape(shape)


def permuted(index, size, key, epoch):
    """Where a sample lies in the text: Feistel network of eight rounds, walked until inside."""
    half = ((size - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(8):
            word = int(philox(key, [right, turn, epoch & MASK32, epoch >> 32])[0])
            left, right = right, (left ^ word) & mask
        index = left << half | right
        if index < size:
            return index


def documents(text, begin, end, most, unit="file"):
    """Where the documents of text[begin:end] begin and end: none has more than `most` bytes."""
    if end - begin <= most:
        return [(begin, end)] if begin < end else []
    if unit == "line":
        parts = -(-(end - begin) // most)
        edges = [edge(text, begin, end, part, parts) for part in range(parts + 1)]
        return [pair for pair in zip(edges, edges[1:]) if pair[0] < pair[1]]
    unit = "paragraph" if unit == "file" else "line"
    found, start, at, after_blank = [], begin, begin, False
    while at < end:
        stop = text.find(b"\n", at, end) + 1 or end
        blank = not text[at:stop].strip(b" \t\r\n")
        if (unit == "line" or (after_blank and not blank)) and at - start > most // 1000:
            found += documents(text, start, at, most, unit)
            start = at
        at, after_blank = stop, blank
    return found + documents(text, start, end, most, unit)


def edge(text, begin, end, part, parts):
    """Where equal part `part` of a line begins, not within a character of UTF-8."""
    size = end - begin
    at = begin + size // parts * part + size % parts * part // parts
    for _ in range(3):
        if begin < at < end and text[at] & 0xC0 == 0x80:
            at -= 1
    return at


def split(texts, share, seed):
    """The bytes that train and those that validate, of the texts of all files."""
    if share == 0:
        return b"".join(texts), b""
    wanted = max(int(share * sum(map(len, texts))), 1)
    found = [(text, *place) for text in texts for place in documents(text, 0, len(text), wanted)]
    key = xxh64("data.validation", seed)
    words = [[int(word) for word in philox(key, [i, 0, 0, 0])[:2]] for i in range(len(found))]
    chosen, kept = set(), 0
    for _, i in sorted((first << 32 | second, i) for i, (first, second) in enumerate(words)):
        size = found[i][2] - found[i][1]
        if kept + size // 2 <= wanted:
            chosen.add(i)
            kept += size
    parts = [b"", b""]
    for i, (text, begin, end) in enumerate(found):
        parts[i in chosen] += text[begin:end]
    return parts


class Samples:
    """The windows of texts of bytes, one for each file, as plugins/datasets/text hands them out."""

    def __init__(self, texts, sequence, validation, seed):
        train, held_back = split(texts, validation, seed)
        self.text = numpy.frombuffer(train, numpy.uint8).astype(numpy.int64)
        self.held_back = numpy.frombuffer(held_back, numpy.uint8).astype(numpy.int64)
        self.sequence = sequence
        self.windows = (len(train) - 1) // sequence
        self.key = xxh64("data.shuffle", seed)

    def train(self, first, count):
        """Tokens and targets of the samples `first` …, which run through epoch after epoch."""
        at = []
        for ordinal in range(first, first + count):
            epoch, index = divmod(ordinal, self.windows)
            at.append(permuted(index, self.windows, self.key, epoch) * self.sequence)
        return self.cut(self.text, at)

    def validation(self, count):
        return self.cut(self.held_back, [i * self.sequence for i in range(count)])

    def cut(self, text, starts):
        windows = numpy.stack([text[at : at + self.sequence + 1] for at in starts])
        return windows[:, :-1], windows[:, 1:]
