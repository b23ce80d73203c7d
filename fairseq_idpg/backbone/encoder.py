"""fairseq's RoBERTa encoder with five slots open, by subclassing its own chain of ``build_*`` methods.

RobertaEncoder.build_encoder -> TransformerEncoder.build_encoder_layer -> TransformerEncoderLayer.build_self_attention

1. input:       prompt rows at the word-embedding level          (OpenTransformerEncoder.forward_embedding)
2. hidden:      rows added to, or replacing, hidden states       (OpenEncoderLayer.forward)
3. key/value:   prefixes of keys and values of any layer         (OpenAttention.prefix)
4. sublayer:    adapters before the residual and LayerNorm       (OpenEncoderLayer.residual_connection)
5. projection:  wrapped or hooked q/k/v/out projections          (OpenAttention.forward)

With nothing injected the encoder equals fairseq's bit for bit, its draws of dropout too, and its state-dict keys are
RoBERTa's own.
"""

import contextlib
from typing import Iterator, Optional

from fairseq.models.roberta.model import RobertaEncoder
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from .attention import OpenAttention
from .dropout import QuickDropout
from .injection import INSERTIONS, NOTHING, Injection, replace_rows


class OpenEncoderLayer(TransformerEncoderLayerBase):
    """One post-norm encoder layer; ``index`` is its place in the stack, counted from 0."""

    index: int
    injection: Injection = NOTHING
    # torch's fused inference path (in fairseq 0.12.2) would jump over every slot
    can_use_fastpath = False

    def __init__(self, cfg, return_fc=False):
        super().__init__(cfg, return_fc)
        self.dropout_module = QuickDropout(self.dropout_module.p)

    def build_self_attention(self, embed_dim, cfg):
        return OpenAttention(embed_dim, cfg.encoder.attention_heads, dropout=cfg.attention_dropout, self_attention=True)

    def forward(self, x: Tensor, encoder_padding_mask: Optional[Tensor], attn_mask: Optional[Tensor] = None):
        """``x``: T x B x d -> T x B x d, with this pass's rows inserted after the layer."""
        self.dropout_module.quick = self.self_attn.dropout_module.quick = self.injection is not NOTHING
        self.self_attn.prefix = self.injection.key_value(self.index, x[0])
        norms = (self.self_attn_layer_norm, self.final_layer_norm)
        self._sublayers = list(zip(self.injection.adapters(self.index), norms))
        x = super().forward(x, encoder_padding_mask, attn_mask)
        rows = self.injection.after_layer(self.index, x[0])
        if rows is None:
            return x
        return INSERTIONS[self.injection.insertion](x, rows, self.injection.offset)

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """Called once after attention and once after the feed-forward, in this order."""
        adapter, layer_norm = self._sublayers.pop(0)
        return super().residual_connection(x if adapter is None else adapter(x, residual, layer_norm), residual)


class OpenTransformerEncoder(TransformerEncoder):
    """The stack of layers; ``injecting`` hands one pass's values to them and takes them back."""

    injection: Injection = NOTHING

    def __init__(self, args, dictionary, embed_tokens):
        super().__init__(args, dictionary, embed_tokens)
        self.dropout_module = QuickDropout(self.dropout_module.p)
        for index, layer in enumerate(self.layers):
            layer.index = index

    def build_encoder_layer(self, args):
        return OpenEncoderLayer(TransformerConfig.from_namespace(args))

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Optional[Tensor] = None):
        """Overwrites the placeholders' embeddings by the prompt; position, LayerNorm and dropout follow as usual."""
        if self.injection.embedded is not None:
            embedded = self.embed_tokens(src_tokens).transpose(0, 1)
            embedded = replace_rows(embedded, self.injection.embedded, self.injection.offset)
            token_embedding = embedded.transpose(0, 1)
        return super().forward_embedding(src_tokens, token_embedding)

    @contextlib.contextmanager
    def injecting(self, injection: Injection) -> Iterator[None]:
        """``with encoder.injecting(values): encoder(tokens)``; nothing stays behind afterwards."""
        try:
            self._hand_over(injection)
            yield
        finally:
            self._hand_over(NOTHING)

    def _hand_over(self, injection: Injection) -> None:
        self.injection = injection
        self.dropout_module.quick = injection is not NOTHING
        for layer in self.layers:
            layer.injection = injection
            layer.self_attn.prefix = None


def layer_norms(encoder: nn.Module) -> Iterator[nn.Module]:
    """Every LayerNorm in ``encoder``: torch's or apex's fused one."""
    return (module for module in encoder.modules() if hasattr(module, "normalized_shape"))


class OpenRobertaEncoder(RobertaEncoder):
    """RoBERTa's encoder over the open stack, with the backbone's own LayerNorm epsilon (BERT's is 1e-12)."""

    def build_encoder(self, args, dictionary, embed_tokens):
        encoder = OpenTransformerEncoder(args, dictionary, embed_tokens)
        encoder.apply(init_bert_params)
        for layer_norm in layer_norms(encoder):
            layer_norm.eps = args.layer_norm_eps
        return encoder
