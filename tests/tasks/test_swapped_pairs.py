"""--swap-pairs append: every pair a second time with its sentences exchanged, in training only."""

import pytest
import torch

from fairseq_idpg.errors import InputError
from tests.folders import write_folder, write_indexed
from tests.tasks.test_dataset import assert_prompts_in_place, make_task


def sentences(tokens, separators):
    ends = (tokens == 2).nonzero().flatten().tolist()
    return tokens[1 : ends[0]].tolist(), tokens[ends[separators - 1] + 1 : ends[-1]].tolist()


@pytest.mark.parametrize("separator", [2, None])
def test_second_half_is_the_first_exchanged(pairs, separator):
    options = {"separator_token": separator}
    plain = make_task(pairs, **options).load_dataset("train")
    both = make_task(pairs, swap_pairs="append", **options).load_dataset("train")
    count, separators = len(plain), 1 if separator is None else 2
    assert len(both) == 2 * count and both[2 * count - 1]["id"] == 2 * count - 1
    for i in range(count):
        for key in ("net_input.src_tokens", "prompted_tokens", "target"):
            assert torch.equal(torch.as_tensor(both[i][key]), torch.as_tensor(plain[i][key]))
        first, second = both[i], both[count + i]
        a, b = sentences(first["net_input.src_tokens"], separators)
        assert sentences(second["net_input.src_tokens"], separators) == (b, a)
        assert first["target"] == second["target"]
    assert make_task(pairs, swap_pairs="append").load_dataset("valid").sizes.shape == (13,)


def test_prompts_stand_where_they_belong(pairs):
    task = make_task(pairs, swap_pairs="append", prompt_position=1)
    assert_prompts_in_place(task, task.load_dataset("train"), 1)


def test_caches_are_told_how_often_every_pair_is_there(pairs):
    texts = []
    for swap in ("none", "append"):
        task = make_task(pairs, swap_pairs=swap)
        task.stored = texts.append
        task.load_dataset("train")
    assert [text.copies for text in texts] == [1, 2] and texts[0].digest() != texts[1].digest()


def test_single_sentences_and_pairs_that_were_exchanged_by_preprocess(tmp_path):
    """The latter would be trained on four times."""
    with pytest.raises(InputError, match="--swap-pairs append needs sentence pairs"):
        make_task(write_folder(tmp_path / "single", pairs=False), swap_pairs="append")
    folder, a, b = write_folder(tmp_path / "pairs"), [[5, 6, 2]] * 12, [[7, 2]] * 12
    for part, rows in (("input0", a + b), ("input1", b + a)):
        write_indexed(folder / part / "train", rows)
    with pytest.raises(InputError, match="--swap-pairs append: .*in both orders"):
        make_task(folder, swap_pairs="append")
    make_task(folder)
