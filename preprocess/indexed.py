"""fairseq's memory-mapped format of token rows: ``PREFIX.bin`` holds the ids, ``PREFIX.idx`` where each row lies.

    .idx = magic, version 1, dtype code, N, N row lengths (int32), N byte offsets (int64)

The rows follow one another without gaps. numpy writes them, so neither torch nor fairseq is loaded.
"""

import struct
from contextlib import AbstractContextManager
from pathlib import Path
from tokenize import TokenError

import numpy as np

from .checksums import regular
from .errors import InputError

MAGIC = b"MMIDIDX\x00\x00"
CODES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32, 10: np.uint64}
AGAIN = "preprocess the folder again"
# What numpy raises over a damaged .npy file: it parses the head as Python, and maps the rest by the head's shape.
UNREADABLE = (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError)


class IndexedWriter(AbstractContextManager["IndexedWriter"]):
    """Writes rows of ids, any number at a time; only the row lengths stay in memory."""

    def __init__(self, prefix: Path, vocabulary: int):
        self.prefix = prefix
        self.dtype = np.dtype(np.uint16 if vocabulary < 65500 else np.uint32)  # fairseq's limit
        self.lengths: list[np.ndarray] = []
        prefix.parent.mkdir(parents=True, exist_ok=True)
        self._bin = open(f"{prefix}.bin", "wb")

    def write(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Append N rows; ``ids``: their tokens one after the other, ``lengths``: N, tokens of each."""
        self._bin.write(ids.astype(self.dtype).tobytes())
        self.lengths.append(np.asarray(lengths, dtype=np.int32))

    def __exit__(self, kind: type | None, *_: object) -> None:
        self._bin.close()
        if kind is not None:
            return
        lengths = np.concatenate([np.empty(0, dtype=np.int32), *self.lengths])
        ends = np.cumsum(lengths, dtype=np.int64) * self.dtype.itemsize
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(lengths)]
        code = next(code for code, dtype in CODES.items() if dtype == self.dtype)
        with open(f"{self.prefix}.idx", "wb") as file:
            file.write(MAGIC + struct.pack("<QBQ", 1, code, len(lengths)))
            file.write(lengths.tobytes())
            file.write(starts.tobytes())


class IndexedRows:
    """The rows of ``PREFIX.bin``: ``len(rows)``, ``rows[i]`` (ids of row i), ``rows.lengths`` and ``rows.starts`` (N).

    Raise InputError where a file is missing, of another format or cut short, or the two do not fit.
    """

    def __init__(self, prefix: Path):
        header = len(MAGIC) + struct.calcsize("<QBQ")
        try:
            index = Path(f"{prefix}.idx").read_bytes()
            if len(index) < header or not index.startswith(MAGIC):
                raise ValueError("not in fairseq's format mmap")
            version, code, count = struct.unpack("<QBQ", index[len(MAGIC) : header])
            if version != 1 or code not in CODES or len(index) != header + 12 * count:
                raise ValueError("the .idx is cut short or damaged")
            dtype = np.dtype(CODES[code])
            self.lengths = np.frombuffer(index, np.int32, count, header)
            offsets = np.frombuffer(index, np.int64, count, header + 4 * count)
            # rows without tokens, and rows that do not follow one another up to the end of the .bin
            ends = np.cumsum(self.lengths, dtype=np.int64) * dtype.itemsize
            starts = np.concatenate([[0], ends])
            size = Path(f"{prefix}.bin").stat().st_size
            if (self.lengths < 1).any() or (offsets != starts[:count]).any() or starts[-1] != size:
                raise ValueError("the .idx does not fit the .bin")
            self.starts = offsets // dtype.itemsize
            self.ids = np.asarray(np.memmap(f"{prefix}.bin", dtype, "r")) if size else np.empty(0, dtype)
        except (OSError, ValueError) as error:
            raise InputError(f"{prefix}.idx and .bin cannot be read ({error}): {AGAIN}") from None

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[self.starts[row] : self.starts[row] + self.lengths[row]]

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return some rows in the given order, as ``IndexedWriter.write`` takes them: (ids, lengths)."""
        ids = [self[row] for row in rows]
        return np.concatenate([np.empty(0, self.ids.dtype), *ids]), self.lengths[rows]


def open_array(path: Path | str) -> np.memmap:
    """Map the array of a .npy file, no archive and nothing pickled; raise one of UNREADABLE where it is damaged."""
    return np.lib.format.open_memmap(regular(path), mode="r")
