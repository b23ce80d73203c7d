"""Building a model without the random numbers that a backbone's weights then replace.

fairseq draws every weight of RoBERTa three times, a billion random numbers at the size of RoBERTa-large. Here they are
counted, and the generator goes to where it would stand: what is drawn next, the method's and the head's first values,
is the same for a seed as if all had been drawn.

torch's generator of the CPU is the Mersenne Twister MT19937, whose words follow a linear recurrence over GF(2) with the
characteristic polynomial p of degree 19937 (Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8, 1998). Words
that are J steps away are sums of those at hand:

    x^J = sum_i g_i x^i  (mod p)   =>   w_{j+J} = sum_i g_i w_{j+i}

(Haramoto et al., "Efficient Jump Ahead for F2-Linear Random Number Generators", INFORMS J. Comput. 20, 2008).
"""

from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

WORDS, MIDDLE, DEGREE = 624, 397, 19937
TWIST = 0x9908B0DF
WORD_BITS, LOW_BITS = 32, 31
# In the bytes of ``torch.Generator.get_state()``: how many words are left, less one; the next one; the words.
LEFT, NEXT, STATE, STATE_BYTES = slice(8, 12), slice(16, 24), slice(24, 24 + 8 * WORDS), 5056
FEW = 2**22  # random numbers that are drawn sooner than jumped over
VECTOR = 16  # numbers that torch draws together where it draws many of a normal distribution
IN_PLACE = {torch.ops.aten.normal_.default: VECTOR, torch.ops.aten.uniform_.default: 1}  # with the least size


class SkippedDraws(TorchDispatchMode):
    """While it is on, tensors that are filled with random numbers stay as they are, and the numbers are counted.

    At its end torch's generator stands where it would have stood. What is drawn in any other way than by filling a
    float32 tensor in place is drawn.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to say so, torch would import its whole compiler."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            if skips(func, args[0], kwargs or {}):
                self.count += drawn(func, args[0].numel())
                return args[0]
            self._move()
        return func(*args, **(kwargs or {}))

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._move()

    def _move(self) -> None:
        count, self.count = self.count, 0
        advance(torch.default_generator, count)


def skips(func: Any, filled: Tensor, options: Any) -> bool:
    """Whether it is known how many random numbers the call takes, from torch's own generator."""
    if func not in IN_PLACE or options.get("generator") is not None or not draws_as_known():
        return False
    simple = filled.dtype == torch.float32 and filled.device.type == "cpu" and filled.is_contiguous()
    return simple and filled.numel() >= IN_PLACE[func]


def drawn(func: Any, size: int) -> int:
    """How many random numbers a tensor takes: one for each element, and of a normal distribution the last
    ``VECTOR`` anew where they are not a vector of their own."""
    again = VECTOR if func is torch.ops.aten.normal_.default and size % VECTOR else 0
    return size + again


@cache
def draws_as_known() -> bool:
    """Whether this version of torch draws as ``drawn`` says; another one is left to draw everything."""
    for func in IN_PLACE:
        for size in (VECTOR, VECTOR + 1, 3 * VECTOR - 1):
            generator = torch.Generator().manual_seed(0)
            if generator.get_state().numel() != STATE_BYTES:
                return False
            func(torch.empty(size), generator=generator)
            if used(generator) != drawn(func, size):
                return False
    return True


def used(generator: torch.Generator) -> int:
    """How many of the generator's present words have been drawn: all of them where it was just seeded."""
    state = generator.get_state().numpy()
    return WORDS if state[LEFT].view(np.int32)[0] == 1 else int(state[NEXT].view(np.uint64)[0])


def advance(generator: torch.Generator, count: int) -> None:
    """Put torch's generator of the CPU where it stands after ``count`` random numbers."""
    if count > FEW:
        last = used(generator) + count
        blocks = (last - 1) // WORDS  # of words that lie between the present ones and those of the last number
        jump(generator, blocks - 1)
        count = last - blocks * WORDS
    draw(generator, count)


def draw(generator: torch.Generator, count: int) -> None:
    torch.empty(count).uniform_(generator=generator)


def words(generator: torch.Generator) -> np.ndarray:
    return generator.get_state().numpy()[STATE].view(np.uint64).astype(np.uint32)


def jump(generator: torch.Generator, blocks: int) -> None:
    """Put the words that follow after so many ``blocks`` in the place of the present ones, all of them drawn.

    The low bits of the first one, which are no part of the recurrence and nothing depends on, may be others.
    """
    state, ahead = generator.get_state(), torch.Generator()
    ahead.set_state(state)
    draw(ahead, WORDS - used(ahead))
    known = [words(ahead)]
    while len(known) * WORDS < DEGREE + WORDS:
        draw(ahead, WORDS)
        known.append(words(ahead))
    sequences = np.lib.stride_tricks.sliding_window_view(np.concatenate(known), WORDS)[:DEGREE]
    sums = np.bitwise_xor.reduce(sequences[coefficients(blocks * WORDS)], axis=0)
    state[STATE] = torch.from_numpy(sums.astype(np.uint64).view(np.uint8))
    state[LEFT] = torch.tensor([1, 0, 0, 0], dtype=torch.uint8)
    generator.set_state(state)


def coefficients(power: int) -> np.ndarray:
    """``DEGREE`` booleans: g_i of x^power = sum_i g_i x^i (mod p)."""
    found = 1
    for bit in f"{power:b}":
        square = int(f"{found:b}", 4)  # over GF(2): a zero between any two coefficients
        found = remainder(square << int(bit))
    return np.array(list(f"{found:0{DEGREE}b}"[::-1])) == "1"


def remainder(polynomial: int) -> int:
    """Of a division by p. Polynomials over GF(2) are numbers whose bit i is the coefficient of x^i."""
    while polynomial >> DEGREE:
        high = polynomial >> DEGREE
        polynomial ^= high << DEGREE
        for power in lower_terms():
            polynomial ^= high << power
    return polynomial


@cache
def lower_terms() -> list[int]:
    """The powers of x in p but for x^DEGREE; p as Matsumoto and Nishimura give it in their appendix."""

    def times(high: int, low: int) -> int:
        """(x^n + x^m)^high (x^(n-1) + x^(m-1))^low"""
        product = reduce(lambda found, _: (found << WORDS) ^ (found << MIDDLE), range(high), 1)
        return reduce(lambda found, _: (found << WORDS - 1) ^ (found << MIDDLE - 1), range(low), product)

    high_bits = WORD_BITS - LOW_BITS
    found = times(high_bits, LOW_BITS)
    for bit in [bit for bit in range(WORD_BITS) if TWIST >> bit & 1]:
        found ^= times(high_bits, LOW_BITS - 1 - bit) if bit < LOW_BITS else times(WORD_BITS - 1 - bit, 0)
    return [power for power in range(DEGREE) if found >> power & 1]
