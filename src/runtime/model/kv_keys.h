// What the KV blocks of a prompt hold, as keys: RequestPlan::kv_block_keys.
//
// A key is a SHA-256 over the block before it, the block's token ids and positions, and the digest
// of each unit whose rows it takes with the rows' numbers (EmbeddingKey: content, decoding,
// processor, model, the tenant's salt). The first block's parent stands for model and salt. So a
// key says all that keys and values up to the block's end follow from.

#ifndef RSERVE_SRC_RUNTIME_MODEL_KV_KEYS_H_
#define RSERVE_SRC_RUNTIME_MODEL_KV_KEYS_H_

#include <cstdint>
#include <vector>

#include "rserve/cc/request_plan.h"
#include "src/model/spec/model_config.h"
#include "src/runtime/model/request_state.h"

namespace rserve::runtime {

// One for each full block of the prompt. Every unit's `key` must be set; `plan` is the request's.
std::vector<KvBlockKey> KvBlockKeys(const RequestState& state, const RequestPlan& plan,
                                    const model::ModelConfig& model, int32_t block_tokens);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_KV_KEYS_H_
