// Reads a tokenizer.json into the parts that Tokenizer runs on.

#ifndef RSERVE_SRC_MODEL_SPEC_TOKENIZER_LOADER_H_
#define RSERVE_SRC_MODEL_SPEC_TOKENIZER_LOADER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "src/model/spec/added_tokens.h"
#include "src/model/spec/bpe.h"
#include "src/model/spec/pre_tokenizer.h"
#include "src/model/spec/string_map.h"

namespace rserve::model {

struct TokenizerParts {
  Bpe bpe;
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: the text is one piece
  bool nfc = false;
  AddedTokenSet raw_tokens;         // sought in the text as it is ("normalized": false)
  AddedTokenSet normalized_tokens;  // sought in the normalised text between those
  absl::flat_hash_map<int32_t, AddedToken> added;  // by id
  StringMap<int32_t> added_ids;
  int32_t max_id = -1;
};

// Everything in the file that would change an encoding is used or refused: UNIMPLEMENTED with the
// component's name, INVALID_ARGUMENT for what is broken.
absl::StatusOr<TokenizerParts> LoadTokenizer(std::string_view json_text);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_TOKENIZER_LOADER_H_
