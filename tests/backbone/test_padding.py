"""A GPU says of texts with pads what a CPU says: there nobody looks for tokens without pads."""

import pytest
import torch

from tests.helpers import enlarge, logits, pair_batch, prompted, tiny_model

METHODS = {
    "head-only": {},
    "p-tuning-v2-kv": {},
    "lpt-appg": {"prompt_layers": "all"},
    "id-spam": {},
    "m-idpg-phm+adapter": {"phm_n": 4, "generator_hidden_size": 8},
}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_a_gpu_says_what_a_cpu_says(method):
    model = tiny_model(method=method, **METHODS[method])
    enlarge(model)
    here = logits(model, pair_batch())
    given = vars(prompted(pair_batch(), 0, model.prompt_length)) if model.prompt_length else {}
    given = {name: value.cuda() for name, value in {"src_tokens": pair_batch(), **given}.items()}
    there, _ = model.cuda()(**given, classification_head_name="sentence_classification_head")
    torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=0)
