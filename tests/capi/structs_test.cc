// Structs of other sizes than the library's: older hosts, newer hosts, and garbage.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "rserve/host.h"
#include "tests/capi/c_fixture.h"

namespace rserve::testing {
namespace {

// A struct at the end of `extra` more bytes than the library knows.
template <typename T>
struct Longer {
  Longer(const T& value, size_t extra, uint8_t fill) : bytes(sizeof(T) + extra, fill) {
    std::memcpy(bytes.data(), &value, sizeof(T));
    const auto size = static_cast<uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &size, sizeof(size));
  }
  T* get() { return reinterpret_cast<T*>(bytes.data()); }
  std::vector<uint8_t> bytes;
};

Failure Create(const rserve_engine_config* config) {
  rserve_engine* engine = nullptr;
  Failure failure =
      Try([&](rserve_error** err) { return rserve_engine_create(config, &engine, err); });
  CHECK((engine != nullptr) == (failure.code == RSERVE_STATUS_OK));
  rserve_engine_destroy(engine);
  return failure;
}

TEST_CASE("a config that is too short is refused before it is read") {
  rserve_engine_config config = TinyConfig();
  constexpr auto kFirst =
      static_cast<uint32_t>(offsetof(rserve_engine_config, embedding_cache_bytes));
  for (const uint32_t size : {0u, 3u, 4u, 63u, kFirst - 1, 4097u, 0xffffffffu}) {
    CAPTURE(size);
    config.struct_size = size;
    const Failure failure = Create(&config);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions("rserve_engine_config"));
    CHECK(failure.Mentions(std::to_string(size)));
  }
}

TEST_CASE("the config of an older header is taken, what it does not have is the default") {
  rserve_engine_config config = TinyConfig();
  config.struct_size = offsetof(rserve_engine_config, weights);
  config.weights = 77;  // not the library's to read
  CHECK(Create(&config).code == RSERVE_STATUS_OK);
  config.struct_size = sizeof(config);
  const Failure failure = Create(&config);
  CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(failure.Mentions("weights"));
  CHECK(failure.Mentions("77"));
  config.weights = RSERVE_WEIGHTS_INT8;
  CHECK(Create(&config).code == RSERVE_STATUS_OK);
}

TEST_CASE("a config of the first version is taken, whatever lies behind it") {
  rserve_engine_config config = TinyConfig();
  config.struct_size = offsetof(rserve_engine_config, embedding_cache_bytes);
  config.embedding_cache_bytes = -1;
  config.backend = 99;
  CHECK(Create(&config).code == RSERVE_STATUS_OK);
}

TEST_CASE("a config without the order's fields has the scheme's") {
  rserve_engine_config config = TinyConfig();
  config.struct_size = offsetof(rserve_engine_config, order);
  config.order = 99;
  CHECK(Create(&config).code == RSERVE_STATUS_OK);
}

TEST_CASE("what the macros give is the adaptive scheme, zero is the paper's as ever") {
  const rserve_engine_config engine = RSERVE_ENGINE_CONFIG_INIT;
  const rserve_host_config host = RSERVE_HOST_CONFIG_INIT;
  CHECK(engine.scheme == RSERVE_SCHEME_ADAPTIVE);
  CHECK(host.scheme == RSERVE_SCHEME_ADAPTIVE);
  CHECK(RSERVE_SCHEME_RSERVE == 0);
}

TEST_CASE("a longer config is taken when the rest is zero and refused by its byte otherwise") {
  for (const size_t extra : {size_t{1}, size_t{8}, size_t{100}}) {
    CAPTURE(extra);
    Longer<rserve_engine_config> zero(TinyConfig(), extra, 0);
    CHECK(Create(zero.get()).code == RSERVE_STATUS_OK);
    Longer<rserve_engine_config> set(TinyConfig(), extra, 0);
    set.bytes.back() = 1;
    const Failure failure = Create(set.get());
    CHECK(failure.code == RSERVE_STATUS_UNIMPLEMENTED);
    CHECK(failure.Mentions(rserve_version()));
    CHECK(failure.Mentions(std::to_string(sizeof(rserve_engine_config))));
    CHECK(failure.Mentions(std::to_string(set.bytes.size())));
  }
}

TEST_CASE("requests and parts of other sizes follow the same rule") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<rserve_part> parts = {TextPart("a"), TextPart("b")};
  rserve_request request = RequestOf(parts);
  uint64_t id = 0;
  for (const uint32_t size : {0u, uint32_t{offsetof(rserve_request, cache_salt) - 4}}) {
    request.struct_size = size;
    CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_INVALID_ARGUMENT);
  }
  Longer<rserve_request> longer(RequestOf(parts), 16, 0);
  CHECK(Submit(engine.get(), *longer.get(), &id).code == RSERVE_STATUS_OK);
  longer.bytes[sizeof(rserve_request) + 3] = 9;
  CHECK(Submit(engine.get(), *longer.get(), &id).code == RSERVE_STATUS_UNIMPLEMENTED);

  request = RequestOf(parts);
  request.part_size = offsetof(rserve_part, frames) - 1;
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_INVALID_ARGUMENT);
  // Parts of a newer header: the stride is the host's.
  constexpr size_t kStride = sizeof(rserve_part) + 24;
  std::vector<uint8_t> wide(2 * kStride, 0);
  std::memcpy(wide.data(), &parts[0], sizeof(rserve_part));
  std::memcpy(wide.data() + kStride, &parts[1], sizeof(rserve_part));
  request.part_size = kStride;
  request.parts = reinterpret_cast<const rserve_part*>(wide.data());
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_OK);
  wide[2 * kStride - 1] = 1;
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_UNIMPLEMENTED);
  WaitFor(engine.get(), 2);
}

TEST_CASE("structs of the header's first version are taken, and what they lack is the default") {
  rserve_engine_config config = TinyConfig();
  config.struct_size = offsetof(rserve_engine_config, embedding_cache_bytes);
  config.embedding_cache_bytes = -1;  // behind the struct's end: not read
  const EnginePtr engine = MustCreate(config);

  // Parts as an old header lays them out, one right behind the other.
  constexpr size_t kOldPart = offsetof(rserve_part, frames);
  std::vector<rserve_part> parts = {TextPart("a"), TextPart("b")};
  std::vector<uint8_t> old(2 * kOldPart);
  std::memcpy(old.data(), &parts[0], kOldPart);
  std::memcpy(old.data() + kOldPart, &parts[1], kOldPart);
  rserve_request request = RequestOf(parts);
  request.struct_size = offsetof(rserve_request, cache_salt);
  request.cache_salt_length = 99;  // not read
  request.part_size = kOldPart;
  request.parts = reinterpret_cast<const rserve_part*>(old.data());
  uint64_t id = 0;
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_OK);
  const rserve_part_type_t frames = RSERVE_PART_FRAMES;
  std::memcpy(old.data(), &frames, sizeof(frames));
  CHECK(Submit(engine.get(), request, &id).Mentions("parts[0]: frames"));

  WaitFor(engine.get(), 1);
  rserve_stats stats;
  std::memset(&stats, 0xaa, sizeof(stats));
  stats.struct_size = offsetof(rserve_stats, cache_hits);
  CHECK(rserve_engine_get_stats(engine.get(), &stats, nullptr) == RSERVE_STATUS_OK);
  CHECK(stats.accepted == 1);
  CHECK(stats.cache_hits == static_cast<int64_t>(0xaaaaaaaaaaaaaaaau));  // not written
}

TEST_CASE("structs that a part points to follow the same rule") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> pixels(size_t{3} * 16 * 16 * 3, 7);
  std::vector<rserve_part> parts(1);
  parts[0].type = RSERVE_PART_FRAMES;
  parts[0].data = pixels.data();
  parts[0].count = pixels.size();
  parts[0].width = parts[0].height = 16;
  rserve_frames frames = RSERVE_FRAMES_INIT;
  frames.num_frames = 3;
  frames.fps = 1;
  uint64_t id = 0;
  for (const uint32_t size : {0u, uint32_t{sizeof(frames) - 1}, 5000u}) {
    frames.struct_size = size;
    parts[0].frames = &frames;
    const Failure failure = Submit(engine.get(), RequestOf(parts), &id);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions("parts[0]: rserve_frames"));
  }
  Longer<rserve_frames> longer(frames, 8, 0);
  parts[0].frames = longer.get();
  CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
  WaitFor(engine.get(), 1);
  longer.bytes.back() = 1;
  CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_UNIMPLEMENTED);

  rserve_embeddings rows = RSERVE_EMBEDDINGS_INIT;
  Longer<rserve_embeddings> wide(rows, 16, 1);
  parts[0] = {};
  parts[0].type = RSERVE_PART_EMBEDDINGS;
  parts[0].embeddings = wide.get();
  CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_UNIMPLEMENTED);
  rows.struct_size = 4;
  parts[0].embeddings = &rows;
  CHECK(Submit(engine.get(), RequestOf(parts), &id).Mentions("parts[0]: rserve_embeddings"));
}

TEST_CASE("outputs are written up to the caller's size and keep it") {
  const EnginePtr engine = MustCreate(TinyConfig());
  Longer<rserve_stats> stats(RSERVE_STATS_INIT, 40, 0xaa);
  CHECK(rserve_engine_get_stats(engine.get(), stats.get(), nullptr) == RSERVE_STATUS_OK);
  CHECK(stats.get()->struct_size == sizeof(rserve_stats) + 40);
  for (size_t i = sizeof(rserve_stats); i < stats.bytes.size(); ++i) CHECK(stats.bytes[i] == 0);

  rserve_model_info info;
  std::memset(&info, 0xaa, sizeof(info));
  info.struct_size = 8;
  CHECK(rserve_engine_get_model_info(engine.get(), &info, nullptr) ==
        RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(info.vocab_size == static_cast<int32_t>(0xaaaaaaaau));  // untouched on failure
  info.struct_size = sizeof(info);
  CHECK(rserve_engine_get_model_info(engine.get(), &info, nullptr) == RSERVE_STATUS_OK);
  CHECK(info.struct_size == sizeof(info));
  CHECK(info.vocab_size == kTinyVocab);
  CHECK(info.kv_blocks == 256);
}

TEST_CASE("events are written with the caller's stride, what is unknown as zero") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<rserve_part> parts = {TextPart("a")};
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
  constexpr size_t kStride = 80;
  bool ended = false;
  while (!ended) {
    pollfd wait = {rserve_engine_wait_fd(engine.get()), POLLIN, 0};
    REQUIRE(poll(&wait, 1, 120000) == 1);
    std::vector<uint8_t> bytes(3 * kStride, 0xaa);
    size_t count = 0;
    REQUIRE(rserve_engine_poll(engine.get(), reinterpret_cast<rserve_event*>(bytes.data()), 3,
                               kStride, &count, nullptr) == RSERVE_STATUS_OK);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t b = 64; b < kStride; ++b) {
        CHECK(bytes[i * kStride + b] == (i < count ? 0 : 0xaa));
      }
      if (i >= count) continue;
      rserve_event event;
      std::memcpy(&event, &bytes[i * kStride], sizeof(event));
      CHECK(event.request_id == id);
      ended = ended || (event.flags & RSERVE_EVENT_F_MORE) == 0;
    }
  }
  size_t count = 77;
  rserve_event event;
  const Failure failure = Try([&](rserve_error** err) {
    return rserve_engine_poll(engine.get(), &event, 1, 63, &count, err);
  });
  CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(count == 77);
}

TEST_CASE("reserved fields, unknown flags and unknown enums are refused by name") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<rserve_part> good = {TextPart("a")};
  uint64_t id = 0;
  rserve_request request = RequestOf(good);
  request.reserved = 1;
  CHECK(Submit(engine.get(), request, &id).Mentions("reserved"));
  request = RequestOf(good);
  request.flags = 0x80000000u;
  CHECK(Submit(engine.get(), request, &id).Mentions("flags"));
  request = RequestOf(good);
  request.timeout_ns = -1;
  CHECK(Submit(engine.get(), request, &id).Mentions("timeout_ns"));
  request.timeout_ns = 0;
  request.cache_salt_length = 3;
  CHECK(Submit(engine.get(), request, &id).Mentions("cache_salt"));
  request.cache_salt = "abc";
  request.cache_salt_length = 5000;
  CHECK(Submit(engine.get(), request, &id).Mentions("5000"));
  request.cache_salt_length = 3;
  request.timeout_ns = INT64_MAX;
  CHECK(Submit(engine.get(), request, &id).code == RSERVE_STATUS_OK);

  const std::vector<void (*)(rserve_part*)> spoil = {
      [](rserve_part* p) { p->reserved = 1; },
      [](rserve_part* p) { p->flags = 2; },
      [](rserve_part* p) { p->type = 0; },
      [](rserve_part* p) { p->type = 99; },
      [](rserve_part* p) { p->data = nullptr; },
      [](rserve_part* p) { p->count = SIZE_MAX; },
      [](rserve_part* p) { p->width = 3; },
      [](rserve_part* p) { p->type = RSERVE_PART_ROLE; },
      [](rserve_part* p) { p->flags = RSERVE_PART_F_BORROW; },
      [](rserve_part* p) { p->type = RSERVE_PART_FRAMES; },
      [](rserve_part* p) { p->type = RSERVE_PART_EMBEDDINGS; },
      [](rserve_part* p) {
        static const rserve_frames frames = RSERVE_FRAMES_INIT;
        p->frames = &frames;
      },
      [](rserve_part* p) {
        static const rserve_embeddings rows = RSERVE_EMBEDDINGS_INIT;
        p->type = RSERVE_PART_IMAGE;
        p->embeddings = &rows;
      },
      [](rserve_part* p) {
        p->type = RSERVE_PART_PIXELS;
        p->layout = 5;
      }};
  for (size_t i = 0; i < spoil.size(); ++i) {
    CAPTURE(i);
    std::vector<rserve_part> parts = {TextPart("a"), TextPart("b")};
    spoil[i](&parts[1]);
    const Failure failure = Submit(engine.get(), RequestOf(parts), &id);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions("parts[1]"));
  }

  const std::pair<const char*, void (*)(rserve_engine_config*)> configs[] = {
      {"scheme", [](rserve_engine_config* c) { c->scheme = 5; }},
      {"scheme", [](rserve_engine_config* c) { c->scheme = -1; }},
      {"gate", [](rserve_engine_config* c) { c->gate = 3; }},
      {"sharing", [](rserve_engine_config* c) { c->sharing = -1; }},
      {"trigger", [](rserve_engine_config* c) { c->trigger = 4; }},
      {"flags", [](rserve_engine_config* c) { c->flags = 0x80000000u; }},
      {"model_path", [](rserve_engine_config* c) { c->model_path = nullptr; }},
      {"stages", [](rserve_engine_config* c) { c->stages = -1; }},
      {"encoders", [](rserve_engine_config* c) { c->encoders = 1000; }},
      {"encoders",
       [](rserve_engine_config* c) {
         c->scheme = RSERVE_SCHEME_EPD;
         c->encoders = RSERVE_ENCODERS_SHARED;
       }},
      {"order", [](rserve_engine_config* c) { c->order = 4; }},
      {"order_stretch", [](rserve_engine_config* c) { c->order_stretch = -1; }},
      {"order_guard_ns", [](rserve_engine_config* c) { c->order_guard_ns = -1; }},
      {"slo_ns", [](rserve_engine_config* c) { c->order = RSERVE_ORDER_FEASIBLE_FIRST; }},
      {"min_token_budget", [](rserve_engine_config* c) { c->min_token_budget = -1; }},
      {"square_root_budget", [](rserve_engine_config* c) { c->square_root_budget = 3; }},
      {"adaptive_encode_batch", [](rserve_engine_config* c) { c->adaptive_encode_batch = -1; }},
      {"queue_requests", [](rserve_engine_config* c) { c->queue_requests = -1; }},
      {"embedding_cache_bytes", [](rserve_engine_config* c) { c->embedding_cache_bytes = -1; }},
      {"stage_layers", [](rserve_engine_config* c) { c->num_stage_layers = 1; }},
      {"worker_cores", [](rserve_engine_config* c) { c->num_worker_cores = SIZE_MAX; }},
      {"backend", [](rserve_engine_config* c) { c->backend = 2; }},
      {"device_sharing", [](rserve_engine_config* c) { c->device_sharing = 3; }},
      {"encoder_percent", [](rserve_engine_config* c) { c->encoder_percent = 100; }},
      {"stage_handover", [](rserve_engine_config* c) { c->stage_handover = 3; }},
      {"graph_rows", [](rserve_engine_config* c) { c->graph_rows = -2; }},
      {"deterministic",
       [](rserve_engine_config* c) { c->flags = RSERVE_ENGINE_F_CUDNN_ATTENTION; }},
      {"cudnn_attention is of the CUDA backend",
       [](rserve_engine_config* c) {
         c->flags = RSERVE_ENGINE_F_CUDNN_ATTENTION | RSERVE_ENGINE_F_NOT_DETERMINISTIC;
       }},
      {"tensor_parallel", [](rserve_engine_config* c) { c->tensor_parallel = -1; }},
      {"devices", [](rserve_engine_config* c) { c->num_devices = 1; }},
      {"cuda_library", [](rserve_engine_config* c) { c->cuda_library_length = 1; }},
  };
  for (const auto& [name, change] : configs) {
    CAPTURE(name);
    rserve_engine_config config = TinyConfig();
    change(&config);
    const Failure failure = Create(&config);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions(name));
  }
}

TEST_CASE("a backend that is not there is UNAVAILABLE with the reason, and nothing is made") {
  rserve_engine_config config = TinyConfig();
  config.backend = RSERVE_BACKEND_CUDA;
  const std::string library = "/nowhere/librserve_cuda.so";
  config.cuda_library = library.data();
  config.cuda_library_length = library.size();
  const Failure failure = Create(&config);
  CHECK(failure.code == RSERVE_STATUS_UNAVAILABLE);
  CHECK(failure.Mentions("/nowhere/librserve_cuda.so"));
  // Where the library is and a GPU is not, the driver says why.
  config.cuda_library_length = 0;
  const int32_t gpu = 4096;
  config.devices = &gpu;
  config.num_devices = 1;
  CHECK(Create(&config).code == RSERVE_STATUS_UNAVAILABLE);
}

TEST_CASE("ranks of a stage are asked for by number") {
  rserve_engine_config config = TinyConfig();
  config.tensor_parallel = 2;
  CHECK(Create(&config).code == RSERVE_STATUS_OK);
  config.tensor_parallel = 3;
  CHECK(Create(&config).Mentions("tensor_parallel"));
}

TEST_CASE("an adaptive engine shares its cores when told, and takes every choice") {
  rserve_engine_config config = TinyConfig();
  config.scheme = RSERVE_SCHEME_ADAPTIVE;
  config.encoders = RSERVE_ENCODERS_SHARED;
  config.order = RSERVE_ORDER_FEASIBLE_FIRST;
  config.slo_ns = 1000000000;
  config.order_stretch = 3;
  config.order_guard_ns = 1;
  config.min_token_budget = 16;
  config.square_root_budget = RSERVE_CHOICE_YES;
  config.adaptive_encode_batch = RSERVE_CHOICE_NO;
  const EnginePtr engine = MustCreate(config);
  rserve_model_info info = RSERVE_MODEL_INFO_INIT;
  CHECK(rserve_engine_get_model_info(engine.get(), &info, nullptr) == RSERVE_STATUS_OK);
  CHECK(info.num_workers == 1);
  uint64_t id = 0;
  const std::vector<rserve_part> parts = {TextPart("a")};
  CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
}

TEST_CASE("lists of layers, threads and cores reach the workers") {
  rserve_engine_config config = TinyConfig();
  const int32_t layers[] = {4, 1};
  const int32_t threads[] = {1, 2, 1};
  const rserve_core_list cores[] = {{nullptr, 0}, {nullptr, 0}, {nullptr, 0}};
  config.stages = 2;
  config.stage_layers = layers;
  config.num_stage_layers = 2;
  config.worker_threads = threads;
  config.num_worker_threads = 3;
  config.worker_cores = cores;
  config.num_worker_cores = 3;
  const EnginePtr engine = MustCreate(config);
  rserve_model_info info = RSERVE_MODEL_INFO_INIT;
  CHECK(rserve_engine_get_model_info(engine.get(), &info, nullptr) == RSERVE_STATUS_OK);
  CHECK(info.num_workers == 3);
}

}  // namespace
}  // namespace rserve::testing
