// RAII over the C ABI: header-only, standard library only, no exceptions. Needs C++17.
//
//   rserve::capi::Config config;
//   config.fields().stages = 2;
//   config.model_path(folder);
//   rserve::capi::Result<rserve::capi::Engine> engine = rserve::capi::Engine::Create(config.get());
//   if (!engine) { std::puts(engine.error().message().c_str()); return 1; }
//   rserve::capi::Request request;
//   request.Image(png).Text("Which digit?").Flags(RSERVE_REQUEST_F_CHAT);
//   rserve::capi::Result<uint64_t> id = engine->Submit(request);
//
// What the functions do, their threads and their errors are those of rserve/rserve.h. Objects are
// move-only; one that was moved from may only be destroyed or assigned to.

#ifndef RSERVE_RSERVE_HPP_
#define RSERVE_RSERVE_HPP_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rserve/rserve.h"

namespace rserve::capi {

// Why a call failed.
class Error {
 public:
  Error(rserve_status_t code, rserve_error* err) : code_(code) {
    size_t length = 0;
    const char* message = rserve_error_message(err, &length);
    message_.assign(message, length);
    rserve_error_destroy(err);
  }

  rserve_status_t code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  rserve_status_t code_;
  std::string message_;
};

// A value or an error. Nothing is thrown: look before you take.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // Of a result that is ok.
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  T* operator->() { return std::get_if<0>(&state_); }
  T& operator*() { return value(); }
  // Of a result that is not.
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

// The result of a call that gives nothing back.
using Done = Result<std::monostate>;

namespace internal {

template <typename T, void (*Destroy)(T*)>
struct Deleter {
  void operator()(T* handle) const { Destroy(handle); }
};
template <typename T, void (*Destroy)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Destroy>>;

// Calls `call(err)` and makes a result of its status.
template <typename Call>
Done Run(Call&& call) {
  rserve_error* err = nullptr;
  const rserve_status_t status = call(&err);
  if (status != RSERVE_STATUS_OK) return Error(status, err);
  return std::monostate();
}

// The same for a call that fills a struct which begins with struct_size.
template <typename T, typename Call>
Result<T> Fill(T initial, Call&& call) {
  rserve_error* err = nullptr;
  const rserve_status_t status = call(&initial, &err);
  if (status != RSERVE_STATUS_OK) return Error(status, err);
  return initial;
}

// Elements that belong to a handle.
template <typename T>
struct View {
  const T* data = nullptr;
  size_t size = 0;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
};

template <typename T, typename H>
View<T> Look(const T* (*get)(const H*, size_t*), const H* handle) {
  View<T> view;
  view.data = get(handle, &view.size);
  return view;
}

template <typename H>
std::string_view LookText(const char* (*get)(const H*, size_t*), const H* handle) {
  size_t size = 0;
  const char* text = get(handle, &size);
  return std::string_view(text, size);
}

}  // namespace internal

template <typename T>
using View = internal::View<T>;

// An rserve_engine_config that starts at its defaults and owns its path.
class Config {
 public:
  Config& model_path(std::string path) {
    path_ = std::move(path);
    return *this;
  }
  // Every other field. Pointers in it are the caller's.
  rserve_engine_config& fields() { return config_; }
  // For Engine::Create; valid until this object changes.
  const rserve_engine_config& get() {
    config_.model_path = path_.data();
    config_.model_path_length = path_.size();
    return config_;
  }

 private:
  rserve_engine_config config_ = RSERVE_ENGINE_CONFIG_INIT;
  std::string path_;
};

// A request that owns its text and tokens; pictures stay the caller's until Submit returns, and
// borrowed ones until their INPUT_RELEASED event.
class Request {
 public:
  Request& Role(std::string role) { return Add(RSERVE_PART_ROLE, std::move(role)); }
  Request& Text(std::string text) { return Add(RSERVE_PART_TEXT, std::move(text)); }
  Request& Template(std::string text) { return Add(RSERVE_PART_TEMPLATE, std::move(text)); }
  Request& Tokens(const std::vector<int32_t>& ids) {
    const auto* bytes = reinterpret_cast<const char*>(ids.data());
    Add(RSERVE_PART_TOKENS, std::string(bytes, ids.size() * sizeof(int32_t)));
    parts_.back().count = ids.size();
    return *this;
  }
  Request& Image(const void* file, size_t bytes, bool borrow = false) {
    rserve_part& part = Append(RSERVE_PART_IMAGE, borrow);
    part.data = file;
    part.count = bytes;
    return *this;
  }
  Request& Image(const std::vector<uint8_t>& file, bool borrow = false) {
    return Image(file.data(), file.size(), borrow);
  }
  // Rows are `row_stride_bytes` apart (0: width * bytes of a pixel).
  Request& Pixels(const void* pixels, size_t bytes, int32_t width, int32_t height,
                  int64_t row_stride_bytes = 0, bool borrow = false,
                  rserve_layout_t layout = RSERVE_LAYOUT_RGB8) {
    SetPixels(&Append(RSERVE_PART_PIXELS, borrow), pixels, bytes, width, height, row_stride_bytes,
              layout);
    return *this;
  }
  // A video: `frames` says how many and when they are; its timestamps stay the caller's until
  // Submit returns.
  Request& Frames(const void* pixels, size_t bytes, int32_t width, int32_t height,
                  const rserve_frames& frames, int64_t row_stride_bytes = 0, bool borrow = false,
                  rserve_layout_t layout = RSERVE_LAYOUT_RGB8) {
    SetPixels(&Append(RSERVE_PART_FRAMES, borrow), pixels, bytes, width, height, row_stride_bytes,
              layout);
    kept_.back().frames = std::make_unique<rserve_frames>(frames);
    return *this;
  }
  // An animated GIF as a video; `fps` frames a second of it are taken, 0: 2.
  Request& Video(const void* file, size_t bytes, double fps = 0, bool borrow = false) {
    rserve_part& part = Append(RSERVE_PART_VIDEO, borrow);
    part.data = file;
    part.count = bytes;
    rserve_frames frames = RSERVE_FRAMES_INIT;
    frames.fps = fps;
    kept_.back().frames = std::make_unique<rserve_frames>(frames);
    return *this;
  }
  // Rows that the same encoder made elsewhere.
  Request& Embeddings(const void* rows, size_t bytes, const rserve_embeddings& embeddings,
                      bool borrow = false) {
    rserve_part& part = Append(RSERVE_PART_EMBEDDINGS, borrow);
    part.data = rows;
    part.count = bytes;
    kept_.back().embeddings = std::make_unique<rserve_embeddings>(embeddings);
    return *this;
  }
  // Cached embeddings are shared with requests of the same salt only.
  Request& CacheSalt(std::string salt) {
    salt_ = std::move(salt);
    return *this;
  }
  Request& Flags(uint32_t flags) {
    request_.flags |= flags;
    return *this;
  }
  // user_data, timeout_ns, sampling.
  rserve_request& fields() { return request_; }
  // Valid until this object changes.
  const rserve_request& get() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (kept_[i].text != nullptr) parts_[i].data = kept_[i].text->data();
      parts_[i].frames = kept_[i].frames.get();
      parts_[i].embeddings = kept_[i].embeddings.get();
    }
    request_.parts = parts_.data();
    request_.num_parts = parts_.size();
    request_.cache_salt = salt_.data();
    request_.cache_salt_length = salt_.size();
    return request_;
  }

 private:
  Request& Add(rserve_part_type_t type, std::string text) {
    rserve_part& part = Append(type, false);
    part.count = text.size();
    kept_.back().text = std::make_unique<std::string>(std::move(text));
    return *this;
  }
  static void SetPixels(rserve_part* part, const void* pixels, size_t bytes, int32_t width,
                        int32_t height, int64_t row_stride_bytes, rserve_layout_t layout) {
    part->data = pixels;
    part->count = bytes;
    part->width = width;
    part->height = height;
    part->row_stride_bytes = row_stride_bytes;
    part->layout = layout;
  }
  rserve_part& Append(rserve_part_type_t type, bool borrow) {
    rserve_part part = {};
    part.type = type;
    part.flags = borrow ? RSERVE_PART_F_BORROW : 0;
    parts_.push_back(part);
    kept_.emplace_back();
    return parts_.back();
  }

  rserve_request request_ = RSERVE_REQUEST_INIT;
  std::vector<rserve_part> parts_;
  // By part, at addresses that stay: the bytes of text and tokens (aligned for tokens), and what a
  // video or embeddings have beside their data.
  struct Kept {
    std::unique_ptr<std::string> text;
    std::unique_ptr<rserve_frames> frames;
    std::unique_ptr<rserve_embeddings> embeddings;
  };
  std::vector<Kept> kept_;
  std::string salt_;
};

// A snapshot of a request.
class Detail {
 public:
  explicit Detail(rserve_detail* handle) : handle_(handle) {}

  Result<rserve_detail_info> Info() const {
    return internal::Fill<rserve_detail_info>(
        RSERVE_DETAIL_INFO_INIT, [this](rserve_detail_info* info, rserve_error** err) {
          return rserve_detail_get_info(handle_.get(), info, err);
        });
  }
  Result<rserve_item> Item(size_t index) const {
    return internal::Fill<rserve_item>(
        RSERVE_ITEM_INIT, [this, index](rserve_item* item, rserve_error** err) {
          return rserve_detail_get_item(handle_.get(), index, item, err);
        });
  }
  std::string_view message() const {
    return internal::LookText(rserve_detail_message, handle_.get());
  }
  View<int32_t> tokens() const { return internal::Look(rserve_detail_tokens, handle_.get()); }
  View<float> logits() const { return internal::Look(rserve_detail_logits, handle_.get()); }
  View<float> embeddings() const { return internal::Look(rserve_detail_embeddings, handle_.get()); }

 private:
  internal::Handle<rserve_detail, rserve_detail_destroy> handle_;
};

// A request that was planned and not run.
class Plan {
 public:
  explicit Plan(rserve_plan* handle) : handle_(handle) {}

  Result<rserve_plan_info> Info() const {
    return internal::Fill<rserve_plan_info>(RSERVE_PLAN_INFO_INIT,
                                            [this](rserve_plan_info* info, rserve_error** err) {
                                              return rserve_plan_get_info(handle_.get(), info, err);
                                            });
  }
  Result<rserve_item> Item(size_t index) const {
    return internal::Fill<rserve_item>(
        RSERVE_ITEM_INIT, [this, index](rserve_item* item, rserve_error** err) {
          return rserve_plan_get_item(handle_.get(), index, item, err);
        });
  }
  std::string_view message() const {
    return internal::LookText(rserve_plan_message, handle_.get());
  }
  View<int32_t> tokens() const { return internal::Look(rserve_plan_tokens, handle_.get()); }
  View<int32_t> positions() const { return internal::Look(rserve_plan_positions, handle_.get()); }

 private:
  internal::Handle<rserve_plan, rserve_plan_destroy> handle_;
};

class Engine {
 public:
  static Result<Engine> Create(const rserve_engine_config& config) {
    rserve_engine* handle = nullptr;
    rserve_error* err = nullptr;
    const rserve_status_t status = rserve_engine_create(&config, &handle, &err);
    if (status != RSERVE_STATUS_OK) return Error(status, err);
    return Engine(handle);
  }

  Result<uint64_t> Submit(Request& request) {
    uint64_t id = 0;
    rserve_error* err = nullptr;
    const rserve_status_t status = rserve_engine_submit(handle_.get(), &request.get(), &id, &err);
    if (status != RSERVE_STATUS_OK) return Error(status, err);
    return id;
  }
  Result<capi::Plan> Plan(Request& request) const {
    rserve_plan* plan = nullptr;
    rserve_error* err = nullptr;
    const rserve_status_t status = rserve_engine_plan(handle_.get(), &request.get(), &plan, &err);
    if (status != RSERVE_STATUS_OK) return Error(status, err);
    return capi::Plan(plan);
  }
  // Replaces `events` by at most `capacity` new ones.
  Done Poll(std::vector<rserve_event>* events, size_t capacity = 64) {
    events->resize(capacity);
    size_t count = 0;
    Done done = internal::Run([&](rserve_error** err) {
      return rserve_engine_poll(handle_.get(), events->data(), capacity, sizeof(rserve_event),
                                &count, err);
    });
    events->resize(count);
    return done;
  }
  Done Cancel(uint64_t id) {
    return internal::Run(
        [&](rserve_error** err) { return rserve_engine_cancel(handle_.get(), id, err); });
  }
  Done Acknowledge(uint64_t id) {
    return internal::Run(
        [&](rserve_error** err) { return rserve_engine_acknowledge(handle_.get(), id, err); });
  }
  Done Drain() {
    return internal::Run(
        [&](rserve_error** err) { return rserve_engine_drain(handle_.get(), err); });
  }
  Done Abort() {
    return internal::Run(
        [&](rserve_error** err) { return rserve_engine_abort(handle_.get(), err); });
  }
  int wait_fd() const { return rserve_engine_wait_fd(handle_.get()); }
  int64_t next_deadline_ns() const { return rserve_engine_next_deadline_ns(handle_.get()); }

  Result<capi::Detail> Detail(uint64_t id) const {
    rserve_detail* detail = nullptr;
    rserve_error* err = nullptr;
    const rserve_status_t status = rserve_request_detail(handle_.get(), id, &detail, &err);
    if (status != RSERVE_STATUS_OK) return Error(status, err);
    return capi::Detail(detail);
  }
  Result<rserve_stats> Stats() const {
    return internal::Fill<rserve_stats>(RSERVE_STATS_INIT,
                                        [this](rserve_stats* stats, rserve_error** err) {
                                          return rserve_engine_get_stats(handle_.get(), stats, err);
                                        });
  }
  Result<rserve_model_info> ModelInfo() const {
    return internal::Fill<rserve_model_info>(
        RSERVE_MODEL_INFO_INIT, [this](rserve_model_info* info, rserve_error** err) {
          return rserve_engine_get_model_info(handle_.get(), info, err);
        });
  }
  Result<std::string> Decode(const int32_t* tokens, size_t count) const {
    std::string text;
    size_t length = 0;
    Done done = internal::Run([&](rserve_error** err) {
      return rserve_engine_decode(handle_.get(), tokens, count, nullptr, 0, &length, err);
    });
    if (!done.ok()) return done.error();
    text.resize(length);
    done = internal::Run([&](rserve_error** err) {
      return rserve_engine_decode(handle_.get(), tokens, count, text.data(), text.size(), &length,
                                  err);
    });
    if (!done.ok()) return done.error();
    return text;
  }

  rserve_engine* handle() const { return handle_.get(); }

 private:
  explicit Engine(rserve_engine* handle) : handle_(handle) {}
  internal::Handle<rserve_engine, rserve_engine_destroy> handle_;
};

}  // namespace rserve::capi

#endif  // RSERVE_RSERVE_HPP_
