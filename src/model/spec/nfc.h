// Unicode normalisation form C (canonical composition), Unicode 14.0.
//
// Characters that later Unicode versions assigned are passed through as they are. The composed form
// of assigned characters never changes between versions, so this agrees with every other
// implementation on text of Unicode 14 whose own tables know its characters.

#ifndef RSERVE_SRC_MODEL_SPEC_NFC_H_
#define RSERVE_SRC_MODEL_SPEC_NFC_H_

#include <string>
#include <string_view>

namespace rserve::model {

// The composed form of `text`, which must be valid UTF-8. O(n log n) for any text; any thread.
std::string NormalizeNfc(std::string_view text);

// The same without a copy where nothing changes, as in most texts: the result is `text` itself, or
// points into `storage`.
std::string_view NormalizeNfc(std::string_view text, std::string* storage);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_NFC_H_
