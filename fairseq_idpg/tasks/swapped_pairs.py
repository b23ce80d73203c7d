"""Every pair, and every pair again with its sentences exchanged (IDPG, appendix A.4), without a second copy on disk."""

from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from torch import Tensor


class SwappedPairsAppended(FairseqDataset):
    """N pairs ``<s> A </s> [</s>] B </s>``, followed by the N pairs ``<s> B </s> [</s>] A </s>`` with the same targets.

    Args:
        dataset: fairseq's sentence-prediction dataset of pairs.
        a, b: N, lengths of the two sentences.
        separators: ``</s>`` between them.
        shuffle: batches from a random order (else the order of the data, then of the exchanged pairs).
    """

    def __init__(
        self, dataset: FairseqDataset, a: np.ndarray, b: np.ndarray, separators: int, shuffle: bool, seed: int
    ):
        super().__init__()
        self.dataset = dataset
        self.a = a
        self.b = b
        self.separators = separators
        self.order = np.arange(2 * len(dataset))
        if shuffle:
            with data_utils.numpy_seed(seed):
                self.order = np.random.permutation(self.order)

    def __len__(self) -> int:
        return 2 * len(self.dataset)

    def __getitem__(self, i: int) -> dict[str, Any]:
        swapped, pair = divmod(i, len(self.dataset))
        item = self.dataset[pair]
        if swapped:
            item["id"] = i
            item["net_input.src_tokens"] = self._exchange(item["net_input.src_tokens"], pair)
        return item

    def _exchange(self, tokens: Tensor, pair: int) -> Tensor:
        end_a = 1 + self.a[pair]
        start_b = end_a + self.separators
        end_b = start_b + self.b[pair]
        return torch.cat([tokens[:1], tokens[start_b:end_b], tokens[end_a:start_b], tokens[1:end_a], tokens[end_b:]])

    def ordered_indices(self) -> np.ndarray:
        return self.order

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        return self.dataset.collater(samples)

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.dataset.set_epoch(epoch)
