#include "src/runtime/model/request_planner.h"

#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "src/media/image.h"
#include "src/model/spec/image_plan.h"
#include "src/runtime/model/sampler.h"

namespace rserve::runtime {

namespace {

constexpr int64_t kRgbBytes = 3;

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
  };
  return static_cast<int64_t>(std::visit(Bytes{}, part));
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

absl::StatusOr<PlannedImage> RequestPlanner::ReadImage(const EncodedImage& image) const {
  auto header = media::ReadImageHeader(image.bytes, {limits_.max_image_pixels});
  if (!header.ok()) return header.status();
  PlannedImage planned;
  planned.width = static_cast<int32_t>(header->width);
  planned.height = static_cast<int32_t>(header->height);
  return planned;
}

absl::StatusOr<PlannedImage> RequestPlanner::ReadImage(const PixelImage& image) const {
  if (image.layout != PixelLayout::kRgb8) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown pixel layout ", static_cast<int32_t>(image.layout)));
  }
  if (image.width < 1 || image.height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("pixels of width ", image.width, " and height ", image.height));
  }
  if (int64_t{image.width} * image.height > limits_.max_image_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a picture of ", image.width, " x ", image.height, " pixels, at most ",
                     limits_.max_image_pixels, " are taken (option max_image_pixels)"));
  }
  const int64_t row = int64_t{image.width} * kRgbBytes;
  const int64_t stride = image.row_stride_bytes == 0 ? row : image.row_stride_bytes;
  if (stride < row || stride > std::numeric_limits<int64_t>::max() / image.height) {
    return absl::InvalidArgumentError(absl::StrCat("row_stride_bytes is ", stride, ", a row of ",
                                                   image.width, " pixels has ", row, " bytes"));
  }
  const int64_t needed = stride * (image.height - 1) + row;
  if (static_cast<uint64_t>(needed) > image.pixels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pixels of ", image.width, " x ", image.height, " with rows ", stride,
                     " bytes apart take ", needed, " bytes, ", image.pixels.size(), " are given"));
  }
  PlannedImage planned;
  planned.width = image.width;
  planned.height = image.height;
  return planned;
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
  } else {
    const auto* encoded = std::get_if<EncodedImage>(&part);
    absl::StatusOr<PlannedImage> image =
        encoded != nullptr ? ReadImage(*encoded) : ReadImage(std::get<PixelImage>(part));
    if (!image.ok()) return InPicture(images->size(), index, image.status());
    auto plan = model::PlanImage(image->height, image->width, model_.processor);
    if (!plan.ok()) return InPicture(images->size(), index, plan.status());
    *known_tokens += plan->tokens;
    image->part = index;
    images->push_back(*image);
    prompt_parts->emplace_back(model::ImagePart{image->height, image->width});
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
  const int64_t row_bytes = int64_t{model_.config.text.hidden_size} * sizeof(float);
  const int64_t patch_bytes = int64_t{model_.config.vision.patch_dim()} * sizeof(float);
  for (int32_t i = 0; i < core.num_items; ++i) {
    const model::PlannedItem& item = planned.prompt.items[static_cast<size_t>(i)];
    core.units.push_back({i, item.plan.tokens, item.plan.tokens * row_bytes,
                          item.plan.grid.patches() * patch_bytes});
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
    return absl::ResourceExhaustedError(
        absl::StrCat("picture ", i, " (part ", planned.images[i].part, ") has ",
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
