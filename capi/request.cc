#include "capi/request.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "capi/engine_handle.h"
#include "capi/structs.h"

namespace rserve::capi {

namespace {

constexpr uint32_t kKnownRequestFlags = RSERVE_REQUEST_F_KEEP_LOGITS |
                                        RSERVE_REQUEST_F_KEEP_EMBEDDINGS |
                                        RSERVE_REQUEST_F_NO_IMAGE_MARKERS | RSERVE_REQUEST_F_CHAT |
                                        RSERVE_REQUEST_F_NO_DETAIL | RSERVE_REQUEST_F_NUMBER_IMAGES;
static_assert(RSERVE_LAYOUT_RGB8 == static_cast<int>(PixelLayout::kRgb8));
static_assert(RSERVE_LAYOUT_RGBA8 == static_cast<int>(PixelLayout::kRgba8));
static_assert(RSERVE_LAYOUT_GRAY8 == static_cast<int>(PixelLayout::kGray8));
static_assert(RSERVE_DTYPE_F32 == static_cast<int>(EmbeddingType::kFloat32));
static_assert(RSERVE_DTYPE_BF16 == static_cast<int>(EmbeddingType::kBfloat16));
static_assert(RSERVE_DTYPE_F16 == static_cast<int>(EmbeddingType::kFloat16));
// Later versions append fields.
constexpr size_t kFirstRequestSize = offsetof(rserve_request, cache_salt);
constexpr size_t kFirstPartSize = offsetof(rserve_part, frames);
constexpr size_t kMaxSaltBytes = 4096;
constexpr size_t kMaxTimestamps = size_t{1} << 24;

absl::Status InPart(size_t index, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("parts[", index, "]: ", what));
}

bool IsItem(const rserve_part& part) {
  return part.type == RSERVE_PART_IMAGE || part.type == RSERVE_PART_PIXELS ||
         part.type == RSERVE_PART_FRAMES || part.type == RSERVE_PART_EMBEDDINGS ||
         part.type == RSERVE_PART_VIDEO;
}

absl::Status CheckPart(size_t index, const rserve_part& part) {
  if (part.reserved != 0) return InPart(index, "reserved is not 0");
  if ((part.flags & ~RSERVE_PART_F_BORROW) != 0) {
    return InPart(index, absl::StrCat("unknown flags ", part.flags));
  }
  if (part.data == nullptr && part.count > 0) {
    return InPart(index, absl::StrCat("data is NULL with count ", part.count));
  }
  if (part.count > static_cast<size_t>(PTRDIFF_MAX) / sizeof(int32_t)) {
    return InPart(index, absl::StrCat("count is ", part.count));
  }
  if (!IsItem(part) && (part.flags & RSERVE_PART_F_BORROW) != 0) {
    return InPart(index, "only pictures, videos and embeddings can be borrowed");
  }
  if (part.type != RSERVE_PART_PIXELS && part.type != RSERVE_PART_FRAMES &&
      (part.width != 0 || part.height != 0 || part.row_stride_bytes != 0 || part.layout != 0)) {
    return InPart(index, "width, height, row_stride_bytes and layout are those of pixels only");
  }
  if ((part.frames != nullptr) != (part.type == RSERVE_PART_FRAMES) &&
      part.type != RSERVE_PART_VIDEO) {
    return InPart(index, "frames is given exactly with RSERVE_PART_FRAMES");
  }
  if ((part.embeddings != nullptr) != (part.type == RSERVE_PART_EMBEDDINGS)) {
    return InPart(index, "embeddings is given exactly with RSERVE_PART_EMBEDDINGS");
  }
  return absl::OkStatus();
}

// A struct that a part points to.
template <typename T>
absl::Status CopyOfPart(size_t index, const char* name, const T* from, T* to) {
  const absl::Status status = CopyIn(name, from, sizeof(T), to);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("parts[", index, "]: ", status.message()));
}

std::string Text(const rserve_part& part) {
  return std::string(static_cast<const char*>(part.data), part.count);
}

absl::Span<const uint8_t> Bytes(const rserve_part& part) {
  return absl::MakeConstSpan(static_cast<const uint8_t*>(part.data), part.count);
}

absl::StatusOr<PixelLayout> Layout(size_t index, const rserve_part& part) {
  if (part.layout >= RSERVE_LAYOUT_RGB8 && part.layout <= RSERVE_LAYOUT_GRAY8) {
    return static_cast<PixelLayout>(part.layout);
  }
  return InPart(index, absl::StrCat("unknown layout ", part.layout));
}

absl::StatusOr<RequestPart> ReadPixels(size_t index, const rserve_part& part, bool borrow) {
  const absl::StatusOr<PixelLayout> layout = Layout(index, part);
  if (!layout.ok()) return layout.status();
  return PixelImage{*layout, Bytes(part), part.width, part.height, part.row_stride_bytes, borrow};
}

absl::StatusOr<RequestPart> ReadFrames(size_t index, const rserve_part& part, bool borrow) {
  const absl::StatusOr<PixelLayout> layout = Layout(index, part);
  if (!layout.ok()) return layout.status();
  rserve_frames f;
  absl::Status status = CopyOfPart(index, "rserve_frames", part.frames, &f);
  if (!status.ok()) return status;
  if (f.num_timestamps > kMaxTimestamps || (f.timestamps_s == nullptr && f.num_timestamps > 0)) {
    return InPart(index, absl::StrCat("num_timestamps is ", f.num_timestamps, ", want 0 to ",
                                      kMaxTimestamps, ", and 0 where timestamps_s is NULL"));
  }
  VideoFrames video;
  video.layout = *layout;
  video.pixels = Bytes(part);
  video.width = part.width;
  video.height = part.height;
  video.frames = f.num_frames;
  video.row_stride_bytes = part.row_stride_bytes;
  video.frame_stride_bytes = f.frame_stride_bytes;
  video.fps = f.fps;
  if (f.num_timestamps > 0) {  // a binding's buffer may be unaligned
    video.timestamps_s.resize(f.num_timestamps);
    std::memcpy(video.timestamps_s.data(), f.timestamps_s, f.num_timestamps * sizeof(double));
  }
  video.borrow = borrow;
  return video;
}

absl::StatusOr<RequestPart> ReadVideo(size_t index, const rserve_part& part, bool borrow) {
  rserve_frames f = RSERVE_FRAMES_INIT;
  if (part.frames != nullptr) {
    absl::Status status = CopyOfPart(index, "rserve_frames", part.frames, &f);
    if (!status.ok()) return status;
  }
  if (f.frame_stride_bytes != 0 || f.timestamps_s != nullptr || f.num_timestamps != 0) {
    return InPart(index, "of a video file's frames only fps and num_frames can be said");
  }
  return VideoFile{Bytes(part), f.fps, f.num_frames, borrow};
}

absl::StatusOr<RequestPart> ReadEmbeddings(size_t index, const rserve_part& part, bool borrow) {
  rserve_embeddings e;
  absl::Status status = CopyOfPart(index, "rserve_embeddings", part.embeddings, &e);
  if (!status.ok()) return status;
  if (e.reserved != 0) return InPart(index, "embeddings: reserved is not 0");
  EmbeddingInput input;
  input.type = static_cast<EmbeddingType>(e.dtype);
  input.data = Bytes(part);
  input.shape = {e.rows, e.width};
  input.grid_t = e.grid_t == 0 ? 1 : e.grid_t;
  input.grid_h = e.grid_h;
  input.grid_w = e.grid_w;
  input.seconds_per_grid = e.seconds_per_grid;
  input.borrow = borrow;
  return input;
}

absl::StatusOr<RequestPart> ReadPart(size_t index, const rserve_part& part) {
  const bool borrow = (part.flags & RSERVE_PART_F_BORROW) != 0;
  switch (part.type) {
    case RSERVE_PART_TOKENS: {
      std::vector<int32_t> ids(part.count);  // a binding's buffer may be unaligned
      if (part.count > 0) std::memcpy(ids.data(), part.data, part.count * sizeof(int32_t));
      return TokenIds{std::move(ids)};
    }
    case RSERVE_PART_TEXT:
      return UserText{Text(part)};
    case RSERVE_PART_TEMPLATE:
      return TemplateText{Text(part)};
    case RSERVE_PART_IMAGE:
      return EncodedImage{Bytes(part), borrow};
    case RSERVE_PART_PIXELS:
      return ReadPixels(index, part, borrow);
    case RSERVE_PART_FRAMES:
      return ReadFrames(index, part, borrow);
    case RSERVE_PART_VIDEO:
      return ReadVideo(index, part, borrow);
    case RSERVE_PART_EMBEDDINGS:
      return ReadEmbeddings(index, part, borrow);
    case RSERVE_PART_ROLE:
      return InPart(index, "a role needs RSERVE_REQUEST_F_CHAT");
    default:
      return InPart(index, absl::StrCat("unknown type ", part.type));
  }
}

absl::StatusOr<std::vector<rserve_part>> CopyParts(const rserve_request& request) {
  if (request.num_parts > 0) {
    if (absl::Status status = CheckNotNull(request.parts, "parts"); !status.ok()) return status;
  }
  absl::Status size = CheckStructSize("rserve_part", request.part_size, kFirstPartSize);
  if (!size.ok()) return size;
  std::vector<rserve_part> parts;
  const auto* at = reinterpret_cast<const char*>(request.parts);
  for (size_t i = 0; i < request.num_parts; ++i, at += request.part_size) {
    rserve_part& part = parts.emplace_back();
    absl::Status status = CopySizedIn("rserve_part", at, request.part_size, kFirstPartSize, &part);
    if (!status.ok()) return status;
    if (status = CheckPart(i, part); !status.ok()) return status;
  }
  return parts;
}

absl::StatusOr<std::vector<RequestPart>> ReadParts(const std::vector<rserve_part>& from) {
  std::vector<RequestPart> parts;
  parts.reserve(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    absl::StatusOr<RequestPart> part = ReadPart(i, from[i]);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  return parts;
}

absl::StatusOr<std::vector<RequestPart>> ReadChat(const ModelEngine& engine,
                                                  const std::vector<rserve_part>& from,
                                                  bool number_images) {
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].type == RSERVE_PART_ROLE) {
      messages.push_back({Text(from[i]), {}});
      continue;
    }
    if (from[i].type == RSERVE_PART_TOKENS || from[i].type == RSERVE_PART_TEMPLATE) {
      return InPart(i, "token ids and template text have no place in a chat");
    }
    absl::StatusOr<RequestPart> part = ReadPart(i, from[i]);
    if (!part.ok()) return part.status();
    if (messages.empty()) messages.push_back({"user", {}});
    messages.back().content.push_back(*std::move(part));
  }
  return engine.RenderChat(std::move(messages), number_images);
}

absl::StatusOr<TimeNs> Deadline(int64_t timeout_ns) {
  if (timeout_ns < 0) {
    return absl::InvalidArgumentError(absl::StrCat("timeout_ns is ", timeout_ns));
  }
  const TimeNs now = Engine::now_ns();
  return timeout_ns == 0 || timeout_ns > kNever - now ? kNever : now + timeout_ns;
}

}  // namespace

absl::StatusOr<ModelRequest> ReadRequest(const ModelEngine& engine, const rserve_request* request) {
  rserve_request r;
  absl::Status status = CheckNotNull(request, "request");
  if (!status.ok()) return status;
  status = CopyIn("rserve_request", request, kFirstRequestSize, &r);
  if (!status.ok()) return status;
  if (r.reserved != 0) return absl::InvalidArgumentError("rserve_request::reserved is not 0");
  if ((r.flags & ~kKnownRequestFlags) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rserve_request::flags has unknown bits: 0x",
                                                   absl::Hex(r.flags & ~kKnownRequestFlags)));
  }
  if (r.cache_salt_length > kMaxSaltBytes || (r.cache_salt == nullptr && r.cache_salt_length > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("cache_salt_length is ", r.cache_salt_length,
                                                   ", want 0 to ", kMaxSaltBytes,
                                                   ", and 0 where cache_salt is NULL"));
  }
  absl::StatusOr<TimeNs> deadline = Deadline(r.timeout_ns);
  if (!deadline.ok()) return deadline.status();
  absl::StatusOr<std::vector<rserve_part>> raw = CopyParts(r);
  if (!raw.ok()) return raw.status();
  const bool chat = (r.flags & RSERVE_REQUEST_F_CHAT) != 0;
  const bool number_images = (r.flags & RSERVE_REQUEST_F_NUMBER_IMAGES) != 0;
  if (number_images && !chat) {
    return absl::InvalidArgumentError("RSERVE_REQUEST_F_NUMBER_IMAGES needs RSERVE_REQUEST_F_CHAT");
  }
  absl::StatusOr<std::vector<RequestPart>> parts =
      chat ? ReadChat(engine, *raw, number_images) : ReadParts(*raw);
  if (!parts.ok()) return parts.status();

  ModelRequest out;
  out.parts = *std::move(parts);
  out.image_markers = (r.flags & RSERVE_REQUEST_F_NO_IMAGE_MARKERS) == 0;
  out.sampling.temperature = r.temperature;
  if (r.top_p != 0) out.sampling.top_p = r.top_p;
  out.sampling.seed = r.seed;
  out.deadline_ns = *deadline;
  out.user_data = r.user_data;
  if (r.cache_salt_length > 0) out.cache_salt.assign(r.cache_salt, r.cache_salt_length);
  out.keep_logits = (r.flags & RSERVE_REQUEST_F_KEEP_LOGITS) != 0;
  out.keep_embeddings = (r.flags & RSERVE_REQUEST_F_KEEP_EMBEDDINGS) != 0;
  out.discard_detail = (r.flags & RSERVE_REQUEST_F_NO_DETAIL) != 0;
  return out;
}

}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_engine_submit(rserve_engine* engine, const rserve_request* request,
                                     uint64_t* request_id, rserve_error** err) {
  return WithModel(engine, err, [&](rserve::ModelEngine& model_engine) -> absl::Status {
    absl::Status status = CheckNotNull(request_id, "request_id");
    if (!status.ok()) return status;
    absl::StatusOr<rserve::ModelRequest> read = ReadRequest(model_engine, request);
    if (!read.ok()) return read.status();
    absl::StatusOr<rserve::RequestId> id = model_engine.Submit(*read);
    if (!id.ok()) return id.status();
    *request_id = *id;
    return absl::OkStatus();
  });
}

rserve_status_t rserve_engine_cancel(rserve_engine* engine, uint64_t request_id,
                                     rserve_error** err) {
  return WithEngine(engine, err, [&](auto& any) { return any.Cancel(request_id); });
}

rserve_status_t rserve_engine_drain(rserve_engine* engine, rserve_error** err) {
  return WithEngine(engine, err, [](auto& any) {
    any.Drain();
    return absl::OkStatus();
  });
}

rserve_status_t rserve_engine_abort(rserve_engine* engine, rserve_error** err) {
  return WithEngine(engine, err, [](auto& any) {
    any.Abort();
    return absl::OkStatus();
  });
}

rserve_status_t rserve_engine_acknowledge(rserve_engine* engine, uint64_t request_id,
                                          rserve_error** err) {
  return WithEngine(engine, err, [&](auto& any) { return any.Acknowledge(request_id); });
}

}  // extern "C"
