// SPDX-License-Identifier: Apache-2.0
/* Files of many tensors: NumPy's .npz, and safetensors, read and written.
 *
 * Example:
 *   anf_value *x = anf_value_f32(cx, 2.5F), *saved = NULL, *read = NULL;
 *   const char *name = "layer.scale", *meta[] = {"step", "7"};
 *   saved = anf_value_record(cx, 1, &name, &x);
 *   anf_status st = anf_save_safetensors(cx, saved, 1, meta, "net.safetensors", d);
 *   if (st == ANF_OK) st = anf_load_safetensors(cx, "net.safetensors", d, &read, NULL);
 *   bool same = st == ANF_OK && anf_value_same(saved, read);
 *   (void)same;
 *   anf_value_release(read);
 *   anf_value_release(saved);
 *   anf_value_release(x);
 */
#ifndef ANFORA_STORE_H
#define ANFORA_STORE_H

#include "anfora/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A record with a field for each array of an archive that np.savez or np.savez_compressed wrote. */
ANF_API anf_status anf_load_npz(anf_ctx *cx, const char *path, anf_diag *d, anf_value **out);

/* A record of tensors, perhaps with records and tuples in it, whose tensors are named by path:
 * "layers.0.w". `meta` are nmeta pairs of a key and a text. Random keys are saved as U64. Atomic:
 * an existing file at `path` is unchanged if this fails. */
ANF_API anf_status anf_save_safetensors(anf_ctx *cx, const anf_value *v, size_t nmeta,
                                        const char *const *meta, const char *path, anf_diag *d);
/* A record with a field for each tensor, in the file's order; `meta`, if it is not NULL, becomes a
 * record of texts. */
ANF_API anf_status anf_load_safetensors(anf_ctx *cx, const char *path, anf_diag *d, anf_value **out,
                                        anf_value **ANF_NULLABLE meta);
/* The same from memory; `file` is the name in messages. */
ANF_API anf_status anf_read_safetensors(anf_ctx *cx, const void *data, size_t len,
                                        const char *ANF_NULLABLE file, anf_diag *d, anf_value **out,
                                        anf_value **ANF_NULLABLE meta);

#ifdef __cplusplus
}
#endif
#endif
