"""SPoT: a task prompt that starts from the most similar prompt of other tasks.

Paper: "SPoT: Better Frozen Model Adaptation through Soft Prompt Transfer" (Vu et al., ACL 2022), Section 3,
https://arxiv.org/abs/2110.07904. The code published with it (google-research/prompt-tuning, ``prompt_tuning/spot`` at
0803093) starts from one prompt and does not choose; this follows the paper's text.

Tasks are compared by their own prompts after a few updates (10,000 in the paper, as many for every task). Train one
with ``prompt-tuning`` first, --spot-target; if the sources were trained longer, one for each of them,
--spot-embeddings. The paper uses the most similar sources in three ways. Best of top k is a run for each of them, with
one --source-prompts; the weighted average is --spot-average k.

Differs from the paper in: its third way, a training on the data of several tasks, is not here; the cosines that weight
an average must be positive.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from ...errors import InputError
from ..base import WordEmbeddings
from ..options import Filled, option
from ..registry import register_preset
from .sources import SourceConfig, named_sources, read_sources, source_paths
from .task_prompts import TaskPrompts

logger = logging.getLogger(__name__)


def token_cosine(one: Tensor, other: Tensor) -> Tensor:
    """Return the mean cosine of all pairs of rows of ``one`` and ``other``, ... x d each: the paper's per-token."""
    return (F.normalize(one, dim=-1).flatten(0, -2).mean(0) * F.normalize(other, dim=-1).flatten(0, -2).mean(0)).sum()


def mean_cosine(one: Tensor, other: Tensor) -> Tensor:
    """Return the cosine of the means of their rows: the paper's similarity of average tokens."""
    return F.cosine_similarity(one.flatten(0, -2).mean(0), other.flatten(0, -2).mean(0), dim=0)


SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"tokens": token_cosine, "mean": mean_cosine}
Similarity: Any = ChoiceEnum(list(SIMILARITIES))
CHOOSING = ("spot_target", "spot_embeddings", "spot_similarity", "spot_average")  # options for several sources


@dataclass
class SPoTConfig(SourceConfig):
    spot_target: Filled[str] = option(
        "",
        "checkpoint of this task's own prompt, trained for as many updates as those that it is compared with; needed "
        "with two or more --source-prompts",
        changeable=True,
    )
    spot_embeddings: Filled[str] = option(
        "",
        "checkpoints of the sources' tasks, in the order of --source-prompts, trained for as many updates as "
        "--spot-target; they are compared instead of the sources",
        changeable=True,
    )
    spot_similarity: Filled[Similarity] = option(
        "tokens",
        "similarity of two prompts: mean cosine of every pair of their 'tokens', or cosine of their 'mean's",
        changeable=True,
    )
    spot_average: Filled[int] = option(
        1,
        "number k: start from the mean of the k most similar sources, weighted by their cosines; 1: the most similar",
        changeable=True,
        least=1,
    )


class SPoT(TaskPrompts):
    """P_l = table[l], for each place l; it starts from sum_r s_r P_r,l / sum_r s_r of the k most similar sources.

    s_r is source r's ``SIMILARITIES`` to this task's own prompt. Trainable parameters: places * rows * d.
    """

    config = SPoTConfig

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        paths = named_sources(cfg)
        if cfg.spot_average > len(paths):
            raise InputError(f"--spot-average {cfg.spot_average}: give 1 to the number of sources, {len(paths)}")
        sources = read_sources(self, cfg, words, paths)
        if len(paths) == 1:
            self.table.copy_(sources[0])
            return
        # from the most similar source to the least
        cosines, order = self.cosines(cfg, words, sources).sort(descending=True)
        for cosine, number in zip(cosines.tolist(), order.tolist()):
            logger.info("source prompt %s: cosine %.4f", paths[number], cosine)
        most_similar = order[: cfg.spot_average].tolist()
        weights = cosines[: cfg.spot_average] if len(most_similar) > 1 else cosines.new_ones(1)
        if not (weights > 0).all():
            raise InputError(
                f"--spot-average {cfg.spot_average}: the cosine of {paths[most_similar[-1]]} is "
                f"{weights[-1].item():.4f}, and weights must be positive: give a smaller number"
            )
        logger.info("the prompt starts from %s", " and ".join(paths[number] for number in most_similar))
        self.table.copy_(torch.einsum("n,nptd->ptd", weights / weights.sum(), sources[most_similar]))

    def cosines(self, cfg: Any, words: WordEmbeddings, sources: Tensor) -> Tensor:
        """Return n similarities to this task's prompt; InputError without it, or with another number to compare."""
        if not cfg.spot_target:
            raise InputError(f"--source-prompts names {len(sources)}: give one, or as --spot-target this task's prompt")
        compared = source_paths(cfg.spot_embeddings)
        if len(compared) not in (0, len(sources)):
            raise InputError(f"--spot-embeddings names {len(compared)}, --source-prompts {len(sources)}: give as many")
        if compared:
            sources = read_sources(self, cfg, words, compared, "--spot-embeddings")
        target = read_sources(self, cfg, words, [cfg.spot_target], "--spot-target")[0]
        similarity = SIMILARITIES[str(cfg.spot_similarity)]
        return torch.stack([similarity(source, target) for source in sources])

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if str(cfg.prompt_init) == "saved":
            saved = "--prompt-init saved takes a prompt as it is: leave it out"
            return reasons | dict.fromkeys(("source_prompts", *CHOOSING), saved)
        reasons["prompt_init"] = "the source prompts are the start: leave it out, or give saved"
        if len(source_paths(cfg.source_prompts)) == 1:
            reasons |= dict.fromkeys(CHOOSING, "one source is taken as it is: leave it out")
        return reasons


register_preset("spot", SPoT, prompt_length=100)
