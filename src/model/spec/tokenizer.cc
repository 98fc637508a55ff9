#include "src/model/spec/tokenizer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/byte_level.h"
#include "src/model/spec/nfc.h"
#include "src/model/spec/tokenizer_loader.h"
#include "src/model/spec/utf8.h"

namespace rserve::model {

struct Tokenizer::Impl {
  TokenizerParts parts;

  absl::Status EncodePlain(std::string_view text, std::vector<int32_t>* ids) const {
    std::vector<std::string_view> pieces;
    if (parts.pre_tokenizer == nullptr) {
      pieces.push_back(text);
    } else if (absl::Status status = parts.pre_tokenizer->Split(text, &pieces); !status.ok()) {
      return status;
    }
    parts.bpe.Encode(pieces, ids);
    return absl::OkStatus();
  }

  // Text between raw added tokens: normalised, cut at the normalised added tokens, then encoded.
  absl::Status EncodeNormalized(std::string_view text, bool specials,
                                std::vector<int32_t>* ids) const {
    std::string normalized;
    if (parts.nfc) text = NormalizeNfc(text, &normalized);
    for (const AddedTokenSet::Segment& segment : parts.normalized_tokens.Split(text, specials)) {
      if (segment.token != nullptr) {
        ids->push_back(segment.token->id);
      } else if (absl::Status status = EncodePlain(segment.text, ids); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool specials) const {
    if (text.size() > kMaxTextBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("text of ", text.size(), " bytes, the limit is ", kMaxTextBytes));
    }
    if (const size_t bad = FirstInvalidUtf8(text); bad != text.size()) {
      return absl::InvalidArgumentError(absl::StrCat("text is not UTF-8 at byte ", bad));
    }
    std::vector<int32_t> ids;
    for (const AddedTokenSet::Segment& segment : parts.raw_tokens.Split(text, specials)) {
      if (segment.token != nullptr) {
        ids.push_back(segment.token->id);
        continue;
      }
      absl::Status status = EncodeNormalized(segment.text, specials, &ids);
      if (!status.ok()) return status;
    }
    return ids;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view json_text) {
  absl::StatusOr<TokenizerParts> parts = LoadTokenizer(json_text);
  if (!parts.ok()) return parts.status();
  auto impl = std::make_unique<Impl>();
  impl->parts = *std::move(parts);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeTemplate(std::string_view text) const {
  return impl_->Encode(text, /*specials=*/true);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeUserText(std::string_view text) const {
  return impl_->Encode(text, /*specials=*/false);
}

std::vector<Tokenizer::Cut> Tokenizer::CutAtSpecials(std::string_view text) const {
  std::vector<Cut> cuts;
  const auto add = [&cuts](std::string_view piece, const AddedToken* token) {
    const bool special = token != nullptr && token->special;
    // Added tokens that are not special are text, which may touch other text.
    if (!special && !cuts.empty() && !cuts.back().special) {
      const std::string_view last = cuts.back().text;
      cuts.back().text = {last.data(), last.size() + piece.size()};
    } else {
      cuts.push_back({piece, special});
    }
  };
  const char* at = text.data();
  const auto split = [&](const AddedTokenSet& tokens, std::string_view of, const auto& plain) {
    for (const AddedTokenSet::Segment& segment : tokens.Split(of, /*specials=*/true)) {
      if (segment.token == nullptr) {
        plain(segment.text);
        continue;
      }
      const std::string_view piece(at, segment.token->content.size());
      add(piece, segment.token);
      at += piece.size();
    }
  };
  split(impl_->parts.raw_tokens, text, [&](std::string_view between) {
    split(impl_->parts.normalized_tokens, between, [&](std::string_view rest) {
      add(rest, nullptr);
      at += rest.size();
    });
  });
  return cuts;
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (const auto it = impl_->parts.added.find(id); it != impl_->parts.added.end()) {
      if (!skip_special || !it->second.special) text += it->second.content;
    } else if (const std::string* bytes = impl_->parts.bpe.Bytes(id)) {
      text += *bytes;
    }
  }
  return text;
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view token) const {
  const TokenizerParts& parts = impl_->parts;
  if (const auto it = parts.added_ids.find(token); it != parts.added_ids.end()) return it->second;
  const std::optional<std::string> bytes = ByteLevelDecode(token);
  const int32_t* id = bytes.has_value() ? parts.bpe.Find(*bytes) : nullptr;
  if (id == nullptr) return std::nullopt;
  return *id;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  const auto it = impl_->parts.added.find(id);
  return it != impl_->parts.added.end() && it->second.special;
}

int32_t Tokenizer::vocab_size() const { return impl_->parts.max_id + 1; }

}  // namespace rserve::model
