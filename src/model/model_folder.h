// Opens a checkpoint folder as Hugging Face lays it out.

#ifndef RSERVE_SRC_MODEL_MODEL_FOLDER_H_
#define RSERVE_SRC_MODEL_MODEL_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/model/spec/checkpoint_template.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/tokenizer.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::model {

// Immutable after opening; tokenizer and checkpoint are never null (but see OpenModelSpec).
struct ModelFolder {
  ModelConfig config;
  ImageProcessorConfig processor;
  // Ids that end a generation: those of generation_config.json where it names any, otherwise
  // config.eos_token_id where there is one. May be empty.
  std::vector<int32_t> eos_token_ids;
  std::unique_ptr<Tokenizer> tokenizer;
  // A template that cannot be used is no fault of the folder: requests that need none run.
  ChatRenderer chat;
  std::unique_ptr<Checkpoint> checkpoint;
};

// Reads
//   config.json
//   preprocessor_config.json, or processor_config.json, where transformers 5 nests it
//   tokenizer.json
//   generation_config.json   (optional)
//   chat_template.jinja, chat_template.json or tokenizer_config.json's chat_template (optional)
//   model.safetensors, or model.safetensors.index.json and its shards
// and checks that they fit each other: patch and merge sizes, the image markers' ids, token ids
// within the vocabulary's rows. Errors begin with the file; an absent one gives NOT_FOUND. The size
// of each JSON file is limited. Blocks on the disk.
absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& folder);

// The same without the weights: checkpoint is null. For planning and simulation.
absl::StatusOr<ModelFolder> OpenModelSpec(const std::string& folder);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_MODEL_FOLDER_H_
