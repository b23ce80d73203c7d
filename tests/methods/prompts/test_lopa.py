"""LoPA: the gate written out, its count with the paper's setting."""

import torch

from fairseq_idpg import count
from tests.contract import Row
from tests.folders import train, validate


def by_hand(method, number, text):
    """Row i of the prompt times the sigmoid of u_i . v_j, number by number."""
    gate = method.gates[number % len(method.gates)]
    low = [
        (up.weight @ torch.tanh(down.weight @ text.sentence + down.bias) + up.bias).view(-1, gate.rank)
        for down, up in ((gate.row_down, gate.row_up), (gate.column_down, gate.column_up))
    ]
    table = method.table[number % len(method.table)]
    return torch.stack([row * torch.stack([(u * v).sum() for v in low[1]]).sigmoid() for row, u in zip(table, low[0])])


LINEARS = ("row_down", "row_up", "column_down", "column_up")
GATE = [f"gates.0.{name}.{part}" for name in LINEARS for part in ("weight", "bias")]
CONTRACT = {
    "lopa": Row(
        *(1_597_992, " ".join(["table", *GATE]), by_hand),
        variants=(
            *({"lopa_rank": 1}, {"prompt_insertion": "key-value", "prompt_layers": "all"}),
            *({"prompt_layers": "all", "generator_sharing": sharing} for sharing in "LS"),
        ),
        published={"prompt_init": "standard-normal", "lopa_rank": 4, "prompt_length": 10},
    )
}


def test_a_trained_encoder_is_a_copy_that_is_saved_and_counted(pairs, backbone, tmp_path):
    """It starts as the backbone, is trained with the method, and is there again when the checkpoint is loaded."""
    given = ["--method", "lopa", "--representation-trained", "--backbone", backbone, "--max-epoch", 1]
    trained = train(pairs, tmp_path, *given, without="--phm-n")
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["model"]
    frozen = torch.load(backbone, weights_only=True)["model"]
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert name not in saved and not torch.equal(saved[f"method.{name}"], frozen[name])
    torch.testing.assert_close(saved[f"method.{name}"], frozen[name], atol=0.1, rtol=0)
    checked = validate(pairs, tmp_path / "checkpoint_last.pt")
    assert len(checked.log("valid_loss")) == 1 and checked.log("valid_loss") == trained.log("valid_loss")
    own = count.count_preset("roberta_idpg_large", "lopa", representation_trained="true").own
    assert own == 1_597_992 + 354_309_120
