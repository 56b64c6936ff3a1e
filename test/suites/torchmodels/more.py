# SPDX-License-Identifier: Apache-2.0
"""More models of transformers, other families than those of models.py; it fills MODELS."""
from __future__ import annotations

import torch

from models import Case, SMALL, _of, case, classes, encoder, language, squares, tokens


@case
def electra() -> Case:
    return encoder(_of("ElectraModel", "ElectraConfig", **SMALL, embedding_size=16, max_position_embeddings=32))


@case
def deberta_v2() -> Case:
    return encoder(_of("DebertaV2Model", "DebertaV2Config", **SMALL, max_position_embeddings=32, relative_attention=True,
                       pos_att_type=["p2c", "c2p"], position_buckets=8))


@case
def xlnet() -> Case:
    return encoder(_of("XLNetModel", "XLNetConfig", vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=64))


@case
def gpt_neox() -> Case:
    return language(_of("GPTNeoXForCausalLM", "GPTNeoXConfig", **SMALL, max_position_embeddings=32, use_cache=False))


@case
def gpt_neo() -> Case:
    return language(_of("GPTNeoForCausalLM", "GPTNeoConfig", vocab_size=99, hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=32,
                        attention_types=[[["global", "local"], 1]], window_size=6, use_cache=False))


@case
def gptj() -> Case:
    return language(_of("GPTJForCausalLM", "GPTJConfig", vocab_size=99, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=32, use_cache=False))


@case
def bloom() -> Case:
    return language(_of("BloomForCausalLM", "BloomConfig", vocab_size=99, hidden_size=32, n_layer=2, n_head=4, use_cache=False))


@case
def gemma() -> Case:
    return language(_of("GemmaForCausalLM", "GemmaConfig", **SMALL, num_key_value_heads=2, head_dim=8, use_cache=False))


@case
def gemma2() -> Case:
    return language(_of("Gemma2ForCausalLM", "Gemma2Config", **SMALL, num_key_value_heads=2, head_dim=8, sliding_window=6, use_cache=False))


@case
def qwen2() -> Case:
    return language(_of("Qwen2ForCausalLM", "Qwen2Config", **SMALL, num_key_value_heads=2, use_cache=False))


@case
def qwen3_moe() -> Case:
    return language(_of("Qwen3MoeForCausalLM", "Qwen3MoeConfig", **SMALL, num_key_value_heads=2, head_dim=8, num_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm",
                        moe_intermediate_size=16, use_cache=False))


@case
def mixtral() -> Case:
    return language(_of("MixtralForCausalLM", "MixtralConfig", **SMALL, num_key_value_heads=2, num_local_experts=4, experts_implementation="batched_mm", use_cache=False))


@case
def phi() -> Case:
    return language(_of("PhiForCausalLM", "PhiConfig", **SMALL, max_position_embeddings=32, use_cache=False))


@case
def falcon() -> Case:
    return language(_of("FalconForCausalLM", "FalconConfig", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, use_cache=False))


@case
def mamba() -> Case:
    return language(_of("MambaForCausalLM", "MambaConfig", vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=2, use_cache=False))


@case
def mamba2() -> Case:
    return language(_of("Mamba2ForCausalLM", "Mamba2Config", vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=2, num_heads=4, head_dim=8,
                        n_groups=1, chunk_size=4, use_cache=False))


@case
def bart() -> Case:
    model = _of("BartForConditionalGeneration", "BartConfig", vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, use_cache=False)
    return language(model, decoder_input_ids=tokens())


@case
def pegasus() -> Case:
    model = _of("PegasusForConditionalGeneration", "PegasusConfig", vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, use_cache=False)
    return language(model, decoder_input_ids=tokens())


@case
def whisper() -> Case:
    model = _of("WhisperForConditionalGeneration", "WhisperConfig", vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=20, max_target_positions=32,
                pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False)
    return Case(model, ({"input_features": torch.randn(2, 16, 40), "decoder_input_ids": tokens()}, tokens()), classes)


@case
def wav2vec2() -> Case:
    model = _of("Wav2Vec2Model", "Wav2Vec2Config", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16),
                conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
                mask_time_prob=0.0, layerdrop=0.0)
    return Case(model, ((torch.randn(2, 1000),), torch.randn(1)), squares)


@case
def clip() -> Case:
    text = dict(**SMALL, max_position_embeddings=32, eos_token_id=2, bos_token_id=1)
    seen = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
    model = _of("CLIPModel", "CLIPConfig", text_config=text, vision_config=seen, projection_dim=16)
    return Case(model, ({"input_ids": tokens(), "pixel_values": torch.randn(2, 3, 32, 32)}, torch.randn(1)),
                lambda out, t: ((out.logits_per_image - t) ** 2).mean())


@case
def vit_mae() -> Case:
    model = _of("ViTMAEForPreTraining", "ViTMAEConfig", hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                patch_size=8, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32)
    return Case(model, ({"pixel_values": torch.randn(2, 3, 32, 32), "noise": torch.rand(2, 16)}, torch.randn(1)), lambda out, t: out.loss + 0 * t.sum())


@case
def segformer() -> Case:
    model = _of("SegformerForSemanticSegmentation", "SegformerConfig", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4],
                decoder_hidden_size=16, num_labels=3)
    return Case(model, ({"pixel_values": torch.randn(2, 3, 64, 64)}, torch.randn(1)), lambda out, t: ((out.logits - t) ** 2).mean())


@case
def dinov2() -> Case:
    model = _of("Dinov2Model", "Dinov2Config", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14)
    return Case(model, ({"pixel_values": torch.randn(2, 3, 28, 28)}, torch.randn(1)), squares)
