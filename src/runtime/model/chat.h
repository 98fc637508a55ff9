// Chats in the C++ API's words to chats in the model layer's, and back.

#ifndef RSERVE_SRC_RUNTIME_MODEL_CHAT_H_
#define RSERVE_SRC_RUNTIME_MODEL_CHAT_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"
#include "src/model/spec/chat_template.h"

namespace rserve::runtime {

using RenderFunction = absl::FunctionRef<absl::StatusOr<model::RenderedChat>(
    absl::Span<const model::ChatMessage>, const model::ChatOptions&)>;

// The parts that `render` makes of the messages, the pictures put where it shows them. Errors as
// rserve::RenderChat and `render`.
absl::StatusOr<std::vector<RequestPart>> RenderParts(std::vector<ChatMessage> messages,
                                                     bool number_images, RenderFunction render);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_CHAT_H_
