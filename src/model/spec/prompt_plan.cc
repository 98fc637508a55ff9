#include "src/model/spec/prompt_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/spec/video_plan.h"

namespace rserve::model {
namespace {

// Positions are 32-bit, and no context is longer than this.
constexpr int64_t kMaxPromptTokens = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

// Builds the plan part by part.
class Planner {
 public:
  Planner(const ModelConfig& model, const ImageProcessorConfig& processor,
          const Tokenizer& tokenizer, bool image_markers)
      : model_(model), processor_(processor), tokenizer_(tokenizer), markers_(image_markers) {}

  absl::Status Add(int32_t index, const PromptPart& part) {
    absl::Status status;
    if (const auto* tokens = std::get_if<TokenPart>(&part)) {
      status = AddTokens(tokens->ids);
    } else if (const auto* text = std::get_if<TextPart>(&part)) {
      status = AddText(tokenizer_.EncodeUserText(text->text));
    } else if (const auto* written = std::get_if<TemplatePart>(&part)) {
      status = AddText(tokenizer_.EncodeTemplate(written->text));
    } else if (const auto* image = std::get_if<ImagePart>(&part)) {
      status = AddItem(index, PlanImage(image->height, image->width, processor_), {});
    } else if (const auto* video = std::get_if<VideoPart>(&part)) {
      status = AddItem(index, PlanVideo(video->height, video->width, video->frames, processor_),
                       video->temporal);
    } else {
      const auto& rows = std::get<EmbeddingPart>(part);
      status = AddItem(index, PlanRows(rows.grid), rows.temporal);
    }
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat("prompt part ", index, ": ", status.message()));
  }

  PromptPlan Take() && {
    PromptPlan plan = std::move(plan_);
    plan.positions = MropePositions(static_cast<int64_t>(plan.token_ids.size()), plan.items, model_,
                                    &plan.mrope_delta);
    return plan;
  }

 private:
  absl::Status AddText(absl::StatusOr<std::vector<int32_t>> ids) {
    if (!ids.ok()) return ids.status();
    return AddTokens(*ids);
  }

  absl::Status AddTokens(const std::vector<int32_t>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t id = ids[i];
      if (id < 0 || id >= model_.text.vocab_size) {
        return absl::InvalidArgumentError(absl::StrCat(
            "token ", i, " is ", id, ", want 0 to vocab_size ", model_.text.vocab_size, " - 1"));
      }
      if (id == model_.image_token_id || id == model_.video_token_id) {
        return absl::InvalidArgumentError(absl::StrCat("token ", i, " is the placeholder ", id,
                                                       "; images are given as image parts"));
      }
    }
    if (absl::Status status = Reserve(static_cast<int64_t>(ids.size())); !status.ok()) {
      return status;
    }
    plan_.token_ids.insert(plan_.token_ids.end(), ids.begin(), ids.end());
    return absl::OkStatus();
  }

  // The plan of a picture that would have these rows.
  absl::StatusOr<ImagePlan> PlanRows(const Grid& rows) const {
    if (rows.t < 1 || rows.h < 1 || rows.w < 1 || rows.h > kMaxPromptTokens ||
        rows.w > kMaxPromptTokens || rows.t > kMaxPromptTokens ||
        int64_t{rows.h} * rows.w > kMaxPromptTokens / rows.t) {
      return absl::InvalidArgumentError(
          absl::StrCat("embedding rows of grid ", rows.t, " x ", rows.h, " x ", rows.w,
                       ": want at least 1 and at most ", kMaxPromptTokens, " in all"));
    }
    ImagePlan plan;
    plan.tokens = rows.patches();
    plan.grid = {rows.t, rows.h * processor_.merge_size, rows.w * processor_.merge_size};
    plan.resized_height = plan.grid.h * processor_.patch_size;
    plan.resized_width = plan.grid.w * processor_.patch_size;
    return plan;
  }

  absl::Status AddItem(int32_t index, absl::StatusOr<ImagePlan> plan,
                       const std::vector<int32_t>& temporal) {
    if (!plan.ok()) return plan.status();
    if (!temporal.empty() && temporal.size() != static_cast<size_t>(plan->grid.t)) {
      return absl::InvalidArgumentError(absl::StrCat(temporal.size(), " temporal positions for ",
                                                     plan->grid.t, " temporal patches"));
    }
    if (absl::Status status = Reserve(plan->tokens + 2); !status.ok()) return status;
    span_ += temporal.empty() ? 0 : temporal.back();
    if (span_ > kMaxPositions) {
      return absl::InvalidArgumentError(
          absl::StrCat("the videos span ", span_, " positions, the limit is ", kMaxPositions));
    }
    std::vector<int32_t>& ids = plan_.token_ids;
    if (markers_) ids.push_back(model_.vision_start_token_id);
    PlannedItem item;
    item.part_index = index;
    item.plan = *plan;
    item.token_begin = static_cast<int64_t>(ids.size());
    item.temporal = temporal;
    plan_.items.push_back(std::move(item));
    ids.insert(ids.end(), static_cast<size_t>(plan->tokens),
               temporal.empty() ? model_.image_token_id : model_.video_token_id);
    if (markers_) ids.push_back(model_.vision_end_token_id);
    return absl::OkStatus();
  }

  absl::Status Reserve(int64_t more) const {
    const int64_t total = static_cast<int64_t>(plan_.token_ids.size()) + more;
    if (total <= kMaxPromptTokens) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", total, " tokens, the limit is ", kMaxPromptTokens));
  }

  const ModelConfig& model_;
  const ImageProcessorConfig& processor_;
  const Tokenizer& tokenizer_;
  const bool markers_;
  int64_t span_ = 0;  // positions that videos add
  PromptPlan plan_;
};

}  // namespace

absl::StatusOr<PromptPlan> PlanPrompt(absl::Span<const PromptPart> parts, const ModelConfig& model,
                                      const ImageProcessorConfig& processor,
                                      const Tokenizer& tokenizer, bool image_markers) {
  if (processor.merge_size != model.vision.spatial_merge_size ||
      processor.patch_size != model.vision.patch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image processor's patch_size ", processor.patch_size, " and merge_size ",
                     processor.merge_size, " are not the model's ", model.vision.patch_size,
                     " and ", model.vision.spatial_merge_size));
  }
  Planner planner(model, processor, tokenizer, image_markers);
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::Status status = planner.Add(static_cast<int32_t>(i), parts[i]);
    if (!status.ok()) return status;
  }
  PromptPlan plan = std::move(planner).Take();
  if (plan.token_ids.empty()) return absl::InvalidArgumentError("the prompt is empty");
  return plan;
}

std::vector<int32_t> MropePositions(int64_t num_tokens, absl::Span<const PlannedItem> items,
                                    const ModelConfig& model, int64_t* mrope_delta) {
  std::vector<int32_t> positions(static_cast<size_t>(3 * num_tokens));
  int32_t* const temporal = positions.data();
  int32_t* const height = temporal + num_tokens;
  int32_t* const width = height + num_tokens;
  const int32_t merge = model.vision.spatial_merge_size;
  int64_t token = 0;
  int32_t next = 0;  // the position that a text token here would have
  const auto text_until = [&](int64_t end) {
    for (; token < end; ++token, ++next) {
      temporal[token] = height[token] = width[token] = next;
    }
  };
  for (const PlannedItem& item : items) {
    text_until(item.token_begin);
    const int32_t rows = item.plan.grid.h / merge;
    const int32_t columns = item.plan.grid.w / merge;
    int32_t offset = 0;
    for (int32_t t = 0; t < item.plan.grid.t; ++t) {
      offset = item.temporal.empty() ? t : item.temporal[static_cast<size_t>(t)];
      for (int32_t row = 0; row < rows; ++row) {
        for (int32_t column = 0; column < columns; ++column, ++token) {
          temporal[token] = next + offset;
          height[token] = next + row;
          width[token] = next + column;
        }
      }
    }
    next += std::max({offset + 1, rows, columns});
  }
  text_until(num_tokens);
  if (mrope_delta != nullptr) *mrope_delta = next - num_tokens;
  return positions;
}

}  // namespace rserve::model
