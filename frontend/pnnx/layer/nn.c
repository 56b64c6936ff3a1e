// SPDX-License-Identifier: Apache-2.0
/* Linear layers, embeddings, norms, products of matrices, attention. Names of parameters and their
 * defaults are those of PyTorch's modules and functions. */
#include "frontend/pnnx/pnnx.h"

static bool linear(anfi_layer *l) {
  anfi_operand in[3];
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) ||
      !anfi_layer_weight_or_input(l, "weight", 1, &in[1]) ||
      !anfi_layer_need(l, &in[1], "weight") || !anfi_layer_weight_or_input(l, "bias", 2, &in[2]))
    return false;
  anfi_layer_ignore(l, "bias");
  if (in[1].type->n != 2) return anfi_layer_error(l, ANF_E1055, "its weight must have two dims");
  if (!anfi_layer_agrees(l, "in_features", in[1].type->dims[1]) ||
      !anfi_layer_agrees(l, "out_features", in[1].type->dims[0]))
    return false;
  return anfi_layer_result(l, ANF_OP_Linear, anfi_layer_present(in, 3), in, 0, NULL);
}

static bool embedding(anfi_layer *l) {
  anfi_operand in[2];
  if (!anfi_layer_tensor(l, "input", 0, &in[1]) ||
      !anfi_layer_weight_or_input(l, "weight", 1, &in[0]) ||
      !anfi_layer_need(l, &in[0], "weight") || !anfi_layer_only(l, "max_norm", "None"))
    return false;
  anfi_layer_ignore(l, "sparse padding_idx scale_grad_by_freq norm_type");
  if (!anfi_layer_agrees(l, "num_embeddings", in[0].type->dims[0]) ||
      !anfi_layer_agrees(l, "embedding_dim", in[0].type->dims[1]))
    return false;
  return anfi_layer_result(l, ANF_OP_Embedding, 2, in, 0, NULL);
}

static bool eps(const anfi_layer *l, double otherwise, anfi_layer_attrs *a) {
  double v;
  if (!anfi_layer_real(l, "eps", otherwise, &v)) return false;
  anfi_layer_attr(a, "eps", anfi_layer_v_real(l, v));
  return true;
}

/* RMSNorm without eps takes the smallest step of its type. */
static bool layer_norm(anfi_layer *l) {
  anfi_operand in[3];
  anfi_layer_attrs a = {.n = 0};
  int64_t shape[ANF_MAX_RANK], axes[ANF_MAX_RANK];
  size_t n;
  bool rms = l->code == ANF_OP_RMSNorm;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) ||
      !anfi_layer_weight_or_input(l, "weight", 1, &in[1]) ||
      !anfi_layer_weight_or_input(l, "bias", 2, &in[2]) ||
      !anfi_layer_ints(l, "normalized_shape", &n, shape))
    return false;
  anfi_layer_ignore(l, "elementwise_affine bias");
  for (size_t i = 0; i < n; i++) axes[i] = (int64_t)i - (int64_t)n;
  anfi_layer_attr(&a, "axis", anfi_layer_v_ints(l, n, axes));
  if (!eps(l, rms ? 1.1920928955078125e-07 : 1e-5, &a)) return false;
  return anfi_layer_result(l, l->code, anfi_layer_present(in, rms ? 2 : 3), in, a.n, a.at);
}

static bool batch_norm(anfi_layer *l) {
  anfi_operand in[5];
  anfi_layer_attrs a = {.n = 0};
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) ||
      !anfi_layer_weight_or_input(l, "running_mean", 1, &in[3]) ||
      !anfi_layer_weight_or_input(l, "running_var", 2, &in[4]) ||
      !anfi_layer_weight_or_input(l, "weight", 3, &in[1]) ||
      !anfi_layer_weight_or_input(l, "bias", 4, &in[2]) ||
      !anfi_layer_need(l, &in[3], "running_mean") || !anfi_layer_need(l, &in[4], "running_var") ||
      !eps(l, 1e-5, &a) || !anfi_layer_only(l, "training", "False"))
    return false;
  anfi_layer_ignore(l, "affine momentum track_running_stats");
  if (!anfi_layer_agrees(l, "num_features", in[3].type->dims[0])) return false;
  for (size_t i = 1; i < 3; i++)
    if (in[i].kind == ANFI_OPERAND_NONE &&
        !anfi_layer_op1(l, i == 1 ? ANF_OP_OnesLike : ANF_OP_ZerosLike, &in[3], &in[i]))
      return false;
  return anfi_layer_result(l, ANF_OP_BatchNorm, 5, in, a.n, a.at);
}

static bool group_norm(anfi_layer *l) {
  anfi_operand in[3];
  anfi_layer_attrs a = {.n = 0};
  int64_t groups = 0;
  bool instance = l->code == ANF_OP_InstanceNorm;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) ||
      !anfi_layer_weight_or_input(l, "weight", 1, &in[1]) ||
      !anfi_layer_weight_or_input(l, "bias", 2, &in[2]) || !eps(l, 1e-5, &a))
    return false;
  if (instance && anfi_layer_has_weight(l, "running_mean")) return batch_norm(l);
  if (instance && !anfi_layer_only(l, "use_input_stats", "True")) return false;
  const char *key = anfi_layer_given(l, "num_groups") ? "num_groups" : "groups";
  if (!instance && !anfi_layer_need_int(l, key, &groups)) return false;
  if (!instance) anfi_layer_attr(&a, "groups", anfi_layer_v_int(l, groups));
  anfi_layer_ignore(
      l, "num_channels num_features affine momentum track_running_stats running_mean running_var");
  return anfi_layer_result(l, l->code, anfi_layer_present(in, 3), in, a.n, a.at);
}

static bool matmul(anfi_layer *l) {
  anfi_operand in[2];
  const char *second = strcmp(l->op->type, "torch.matmul") == 0 ? "other"
                       : strcmp(l->op->type, "torch.mv") == 0   ? "vec"
                                                                : "mat2";
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) || !anfi_layer_tensor(l, second, 1, &in[1]))
    return false;
  return anfi_layer_result(l, ANF_OP_MatMul, 2, in, 0, NULL);
}

/* Fewer heads of keys and values than of queries: each serves its share of them. */
static bool share_heads(const anfi_layer *l, anfi_operand *in) {
  for (size_t i = 1; i < 3; i++) {
    size_t n = in[i].type->n;
    int64_t heads = n < 3 || in[0].type->n < 3 ? -1 : in[i].type->dims[n - 3];
    int64_t of = heads < 1 ? -1 : in[0].type->dims[in[0].type->n - 3];
    if (of < 1 || of % heads)
      return anfi_layer_error(l, ANF_E1055, "the heads of its query are no multiple of its key's");
    anf_attr a[] = {{"repeats", anfi_layer_v_int(l, of / heads), NULL},
                    {"axis", anfi_layer_v_int(l, (int64_t)n - 3), NULL}};
    if (!anfi_layer_op(l, ANF_OP_Repeat, 1, &in[i], 2, a, &in[i])) return false;
  }
  return true;
}

static bool attention(anfi_layer *l) {
  anfi_operand in[4];
  anfi_layer_attrs a = {.n = 0};
  bool causal, grouped;
  double drop, scale;
  if (!anfi_layer_tensor(l, "query", 0, &in[0]) || !anfi_layer_tensor(l, "key", 1, &in[1]) ||
      !anfi_layer_tensor(l, "value", 2, &in[2]) ||
      !anfi_layer_weight_or_input(l, "attn_mask", 3, &in[3]) ||
      !anfi_layer_bool(l, "is_causal", false, &causal) ||
      !anfi_layer_real(l, "dropout_p", 0, &drop))
    return false;
  if (drop != 0) return anfi_layer_error(l, ANF_E1053, "dropout");
  if (!anfi_layer_bool(l, "enable_gqa", false, &grouped) || (grouped && !share_heads(l, in)))
    return false;
  anfi_layer_attr(&a, "causal", anfi_layer_v_bool(l, causal));
  if (anfi_layer_given(l, "scale")) {
    if (!anfi_layer_real(l, "scale", 1, &scale)) return false;
    anfi_layer_attr(&a, "scale", anfi_layer_v_real(l, scale));
  }
  return anfi_layer_result(l, ANF_OP_Attention, anfi_layer_present(in, 4), in, a.n, a.at);
}

/* beta input + alpha a b */
static bool add_product(anfi_layer *l) {
  anfi_operand x, in[2], part[2], by;
  bool batched = l->op->type[6] == 'b';
  const char *keys[] = {"beta", "alpha"};
  double v[2];
  if (!anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_tensor(l, batched ? "batch1" : "mat1", 1, &in[0]) ||
      !anfi_layer_tensor(l, batched ? "batch2" : "mat2", 2, &in[1]) ||
      !anfi_layer_real(l, keys[0], 1, &v[0]) || !anfi_layer_real(l, keys[1], 1, &v[1]) ||
      !anfi_layer_op(l, ANF_OP_MatMul, 2, in, 0, NULL, &part[1]))
    return false;
  part[0] = x;
  for (size_t i = 0; i < 2; i++) {
    by = anfi_layer_number(l, v[i]);
    if (v[i] != 1 && !anfi_layer_op2(l, ANF_OP_Mul, &part[i], &by, &part[i])) return false;
  }
  if (v[0] == 0) part[0] = anfi_operand_number(l->t, 0); // PyTorch does not look at it
  return anfi_layer_result(l, ANF_OP_Add, 2, part, 0, NULL);
}

const anfi_layer_row anfi_layers_nn[] = {
    ANFI_LAYER("nn.Linear", linear, Linear),
    ANFI_LAYER("F.linear", linear, Linear),
    ANFI_LAYER("nn.Embedding", embedding, Embedding),
    ANFI_LAYER("F.embedding", embedding, Embedding),
    ANFI_LAYER("nn.LayerNorm", layer_norm, LayerNorm),
    ANFI_LAYER("F.layer_norm", layer_norm, LayerNorm),
    ANFI_LAYER("nn.RMSNorm", layer_norm, RMSNorm),
    ANFI_LAYER("F.rms_norm", layer_norm, RMSNorm),
    ANFI_LAYER("nn.GroupNorm", group_norm, GroupNorm),
    ANFI_LAYER("F.group_norm", group_norm, GroupNorm),
    ANFI_LAYER("nn.InstanceNorm1d", group_norm, InstanceNorm),
    ANFI_LAYER("nn.InstanceNorm2d", group_norm, InstanceNorm),
    ANFI_LAYER("nn.InstanceNorm3d", group_norm, InstanceNorm),
    ANFI_LAYER("F.instance_norm", group_norm, InstanceNorm),
    ANFI_LAYER("nn.BatchNorm1d", batch_norm, BatchNorm),
    ANFI_LAYER("nn.BatchNorm2d", batch_norm, BatchNorm),
    ANFI_LAYER("nn.BatchNorm3d", batch_norm, BatchNorm),
    ANFI_LAYER("F.batch_norm", batch_norm, BatchNorm),
    ANFI_LAYER("torch.matmul", matmul, MatMul),
    ANFI_LAYER("torch.mm", matmul, MatMul),
    ANFI_LAYER("torch.bmm", matmul, MatMul),
    ANFI_LAYER("F.scaled_dot_product_attention", attention, Attention),
    ANFI_LAYER("torch.mv", matmul, MatMul),
    ANFI_LAYER("torch.addmm", add_product, MatMul),
    ANFI_LAYER("torch.baddbmm", add_product, MatMul),
    {NULL, NULL, ANF_OP_NONE},
};
