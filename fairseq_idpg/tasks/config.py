"""Options of the task ``sentence_prediction_idpg``."""

from dataclasses import dataclass
from typing import Any, List, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.sentence_prediction import SentencePredictionConfig
from omegaconf import II

from ..names import documented
from ..representations.states import EXACT

SwapPairs: Any = ChoiceEnum(["none", "append"])
CacheType: Any = ChoiceEnum(["float32", "float16"])
StateType: Any = ChoiceEnum([EXACT, "float16"])


@dataclass
class SentencePredictionIDPGConfig(SentencePredictionConfig):
    """Options of the task besides those of fairseq's sentence_prediction."""

    prompt_position: int = documented(
        "where the prompt enters (paper, Figure 6): 0 after <s>, 1 before the first </s>, 2 before the "
        "second sentence, 3 before the last </s>, 4 after the end as '</s> prompt </s>'; single sentences: 0, 1, 4",
        0,
    )
    swap_pairs: SwapPairs = documented(
        "append: train on every pair a second time with its two sentences exchanged (paper, A.4)", "none"
    )
    representation_cache: Optional[str] = documented(
        "folder that keeps M(x) of every example, so that a training step runs the backbone once; shared "
        "by all runs on the same backbone and text",
        None,
    )
    representation_cache_dtype: CacheType = documented("numbers in the cache", "float32")
    state_cache: Optional[str] = documented(
        "folder that keeps, for every token, the frozen states that enter the first layer in which or "
        "before which anything is trained or injected, so that a training step begins there; needs dropout 0",
        None,
    )
    state_cache_dtype: StateType = documented(
        "numbers in the state cache: as the 'model' computes them, or 'float16', half the room of float32", "model"
    )
    group_by_length: bool = documented("train on batches of examples of similar length: less padding", False)
    total_batch_size: Optional[int] = documented(
        "examples of one update over all processes and --update-freq; replaces --batch-size in training "
        "(validation keeps that), and --max-tokens is of one update, too",
        None,
    )
    update_freq: List[int] = II("optimization.update_freq")
