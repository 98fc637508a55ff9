#include "src/runtime/model/request_planner.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/video_plan.h"
#include "src/runtime/model/loaded_model.h"
#include "src/runtime/model/part_check.h"
#include "src/runtime/model/sampler.h"

namespace rserve::runtime {

namespace {

absl::Status InPicture(size_t number, size_t part, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("picture ", number, " (part ", part, "): ", status.message()));
}

// Host bytes that the engine keeps, or makes the host keep, for a part.
int64_t InputBytes(const RequestPart& part) {
  struct Bytes {
    size_t operator()(const TokenIds& p) const { return p.ids.size() * sizeof(int32_t); }
    size_t operator()(const UserText& p) const { return p.text.size(); }
    size_t operator()(const TemplateText& p) const { return p.text.size(); }
    size_t operator()(const EncodedImage& p) const { return p.bytes.size(); }
    size_t operator()(const PixelImage& p) const { return p.pixels.size(); }
    size_t operator()(const VideoFrames& p) const {
      return p.pixels.size() + p.timestamps_s.size() * sizeof(double);
    }
    size_t operator()(const VideoFile& p) const { return p.bytes.size(); }
    size_t operator()(const EmbeddingInput& p) const { return p.data.size(); }
  };
  return static_cast<int64_t>(std::visit(Bytes{}, part));
}

// Whether the engine reads the host's own memory.
bool Borrows(const RequestPart& part) {
  const auto borrow = [](const auto& p) {
    if constexpr (requires { p.borrow; }) {
      return p.borrow;
    } else {
      return false;
    }
  };
  return std::visit(borrow, part);
}

absl::StatusOr<int64_t> TotalInputBytes(const std::vector<RequestPart>& parts, int64_t limit) {
  int64_t total = 0;
  for (const RequestPart& part : parts) {
    const int64_t bytes = InputBytes(part);
    if (bytes > limit - total) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the request's parts hold ", total, " + ", bytes,
          " bytes or more, the engine takes at most ", limit, " (option input_bytes)"));
    }
    total += bytes;
  }
  return total;
}

absl::Status CheckPromptTokens(int64_t tokens, int64_t limit) {
  if (tokens <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the prompt has ", tokens,
                                                   " tokens or more, at most ", limit,
                                                   " are taken (option max_prompt_tokens)"));
}

}  // namespace

absl::StatusOr<model::PromptPart> RequestPlanner::CheckItem(const RequestPart& part,
                                                            PlannedImage* image) const {
  if (const auto* encoded = std::get_if<EncodedImage>(&part)) {
    return CheckPart(*encoded, limits_.max_image_pixels);
  }
  if (const auto* pixels = std::get_if<PixelImage>(&part)) {
    return CheckPart(*pixels, limits_.max_image_pixels);
  }
  if (const auto* video = std::get_if<VideoFrames>(&part)) {
    return CheckPart(*video, model_.processor, model_.config, limits_.max_image_pixels);
  }
  if (const auto* file = std::get_if<VideoFile>(&part)) {
    const int32_t patch = model_.processor.temporal_patch_size;
    absl::StatusOr<SampledVideo> sampled = SampleVideo(*file, patch, limits_.max_image_pixels);
    if (!sampled.ok()) return sampled.status();
    image->video = std::make_shared<const SampledVideo>(*std::move(sampled));
    return PartOf(*image->video, patch, model_.config);
  }
  return CheckPart(std::get<EmbeddingInput>(part), model_.config);
}

absl::Status RequestPlanner::AddItem(const RequestPart& part, size_t index,
                                     std::vector<model::PromptPart>* prompt_parts,
                                     std::vector<PlannedImage>* images,
                                     int64_t* known_tokens) const {
  PlannedImage planned;
  planned.part = index;
  absl::StatusOr<model::PromptPart> item = CheckItem(part, &planned);
  if (!item.ok()) return InPicture(images->size(), index, item.status());
  if (const auto* rows = std::get_if<model::EmbeddingPart>(&*item)) {
    *known_tokens += rows->grid.patches();
  } else {
    const auto* video = std::get_if<model::VideoPart>(&*item);
    const auto* image = std::get_if<model::ImagePart>(&*item);
    const int64_t height = video != nullptr ? video->height : image->height;
    const int64_t width = video != nullptr ? video->width : image->width;
    auto plan = video != nullptr ? model::PlanVideo(height, width, video->frames, model_.processor)
                                 : model::PlanImage(height, width, model_.processor);
    if (!plan.ok()) return InPicture(images->size(), index, plan.status());
    *known_tokens += plan->tokens;
    planned.width = static_cast<int32_t>(width);
    planned.height = static_cast<int32_t>(height);
  }
  images->push_back(planned);
  prompt_parts->push_back(*std::move(item));
  return absl::OkStatus();
}

absl::Status RequestPlanner::AddPart(const RequestPart& part, size_t index,
                                     std::vector<model::PromptPart>* prompt_parts,
                                     std::vector<PlannedImage>* images,
                                     int64_t* known_tokens) const {
  if (const auto* tokens = std::get_if<TokenIds>(&part)) {
    *known_tokens += static_cast<int64_t>(tokens->ids.size());
    prompt_parts->emplace_back(model::TokenPart{tokens->ids});
  } else if (const auto* text = std::get_if<UserText>(&part)) {
    prompt_parts->emplace_back(model::TextPart{text->text});
  } else if (const auto* text = std::get_if<TemplateText>(&part)) {
    prompt_parts->emplace_back(model::TemplatePart{text->text});
  } else if (absl::Status status = AddItem(part, index, prompt_parts, images, known_tokens);
             !status.ok()) {
    return status;
  }
  return CheckPromptTokens(*known_tokens, limits_.max_prompt_tokens);
}

absl::StatusOr<PlannedRequest> RequestPlanner::Plan(const ModelRequest& request) const {
  if (absl::Status status = ValidateSampling(request.sampling); !status.ok()) return status;
  absl::StatusOr<int64_t> bytes = TotalInputBytes(request.parts, limits_.input_bytes);
  if (!bytes.ok()) return bytes.status();
  PlannedRequest planned;
  std::vector<model::PromptPart> prompt_parts;
  prompt_parts.reserve(request.parts.size());
  int64_t known_tokens = 0;
  for (size_t i = 0; i < request.parts.size(); ++i) {
    absl::Status status =
        AddPart(request.parts[i], i, &prompt_parts, &planned.images, &known_tokens);
    if (!status.ok()) return status;
  }
  auto prompt = model::PlanPrompt(prompt_parts, model_.config, model_.processor, *model_.tokenizer,
                                  request.image_markers);
  if (!prompt.ok()) return prompt.status();
  planned.prompt = *std::move(prompt);
  RequestPlan& core = planned.core;
  core.prompt_tokens = static_cast<int64_t>(planned.prompt.token_ids.size());
  if (absl::Status status = CheckPromptTokens(core.prompt_tokens, limits_.max_prompt_tokens);
      !status.ok()) {
    return status;
  }
  core.num_items = static_cast<int32_t>(planned.prompt.items.size());
  core.deadline_ns = request.deadline_ns;
  core.input_bytes = *bytes;
  core.input_borrowed = std::any_of(request.parts.begin(), request.parts.end(), Borrows);
  const int64_t row_bytes = int64_t{model_.config.text.hidden_size} * sizeof(float);
  const int64_t patch_bytes = int64_t{model_.config.vision.patch_dim()} * sizeof(float);
  for (int32_t i = 0; i < core.num_items; ++i) {
    const model::PlannedItem& item = planned.prompt.items[static_cast<size_t>(i)];
    // Temporal patches attend to nothing but themselves: each is a unit.
    const int64_t units = item.plan.grid.t;
    const bool supplied =
        std::holds_alternative<EmbeddingInput>(request.parts[static_cast<size_t>(item.part_index)]);
    const UnitPlan unit = {i, item.plan.tokens / units, item.plan.tokens / units * row_bytes,
                           supplied ? 0 : item.plan.grid.patches() / units * patch_bytes};
    core.units.insert(core.units.end(), static_cast<size_t>(units), unit);
    core.spans.push_back({item.token_begin, item.plan.tokens, i, 0, false});
  }
  return planned;
}

absl::Status RequestPlanner::CheckFits(const PlannedRequest& planned) const {
  // Room for the token that follows the prompt is a part of the reservation.
  const int64_t tokens = planned.core.prompt_tokens + planned.core.max_new_tokens;
  if (tokens > limits_.kv_tokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the prompt has ", planned.core.prompt_tokens, " tokens and needs room for ",
                     tokens, ", the KV cache holds ", limits_.kv_tokens, " (option kv_tokens)"));
  }
  for (size_t i = 0; i < planned.core.units.size(); ++i) {
    if (planned.core.units[i].tokens <= limits_.encoder_batch_tokens) continue;
    const auto item = static_cast<size_t>(planned.core.units[i].item);
    return absl::ResourceExhaustedError(
        absl::StrCat("picture ", item, " (part ", planned.images[item].part, ") has ",
                     planned.core.units[i].tokens, " tokens, an encode batch takes at most ",
                     limits_.encoder_batch_tokens, " (option encoder_batch_tokens)"));
  }
  return absl::OkStatus();
}

std::vector<ItemDetail> RequestPlanner::Items(const PlannedRequest& planned) {
  std::vector<ItemDetail> items;
  items.reserve(planned.prompt.items.size());
  for (const model::PlannedItem& item : planned.prompt.items) {
    ItemDetail detail;
    detail.token_begin = item.token_begin;
    detail.tokens = item.plan.tokens;
    detail.resized_width = item.plan.resized_width;
    detail.resized_height = item.plan.resized_height;
    detail.grid_t = item.plan.grid.t;
    detail.grid_h = item.plan.grid.h;
    detail.grid_w = item.plan.grid.w;
    items.push_back(detail);
  }
  return items;
}

}  // namespace rserve::runtime
