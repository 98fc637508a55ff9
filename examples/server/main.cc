// An OpenAI-compatible server for a Qwen2.5-VL checkpoint, over nothing but the C ABI.
//
//   example_server MODEL_FOLDER [--host H] [--port P] [--queue N] [--max-body-mib N] [--timeout-ms
//   N]
//                  [--cache-mib N] [--kv-reuse 0|1]
//
// POST /v1/chat/completions (text and data-URI pictures; one token is answered: rserve stops at the
// first), GET /v1/models, /health, /metrics (Prometheus), / (live timeline). SIGTERM and SIGINT
// drain: new requests get 503, open ones are answered.

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "server.h"

namespace {

struct Flags {
  std::string model;
  std::string host = "127.0.0.1";
  int port = 8080;
  int64_t queue = 128;
  int64_t cache_mib = 64;
  bool kv_reuse = true;
  int64_t max_body_mib = 64;
  int64_t timeout_ms = 60000;
};

bool ReadFlags(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.rfind("--", 0) != 0) {
      if (!flags->model.empty()) return false;
      flags->model = name;
      continue;
    }
    if (++i == argc) return false;
    char* end = nullptr;
    const long long number = std::strtoll(argv[i], &end, 10);
    const bool is_number = *argv[i] != '\0' && *end == '\0' && number >= 0 && number <= 1000000000;
    if (name == "--host") {
      flags->host = argv[i];
    } else if (name == "--port" && is_number && number < 65536) {
      flags->port = static_cast<int>(number);
    } else if (name == "--queue" && is_number && number >= 1 && number <= 4096) {
      flags->queue = number;
    } else if (name == "--cache-mib" && is_number && number <= 1 << 20) {
      flags->cache_mib = number;
    } else if (name == "--kv-reuse" && is_number && number <= 1) {
      flags->kv_reuse = number == 1;
    } else if (name == "--max-body-mib" && is_number && number >= 1 && number <= 4096) {
      flags->max_body_mib = number;
    } else if (name == "--timeout-ms" && is_number && number >= 1) {
      flags->timeout_ms = number;
    } else {
      std::fprintf(stderr, "%s %s is not understood\n", name.c_str(), argv[i]);
      return false;
    }
  }
  return !flags->model.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!ReadFlags(argc, argv, &flags)) {
    std::fprintf(stderr,
                 "usage: %s MODEL_FOLDER [--host H] [--port P] [--queue N] [--max-body-mib N] "
                 "[--timeout-ms N] [--cache-mib N (embeddings of pictures seen before)] "
                 "[--kv-reuse 0|1 (what prompts have in common is prefilled once)]\n",
                 argv[0]);
    return 2;
  }
  // Blocked here, so in every thread that follows; one thread waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  rserve::capi::Config config;
  config.model_path(flags.model);
  config.fields().queue_requests = flags.queue;
  config.fields().embedding_cache_bytes = flags.cache_mib << 20;
  if (flags.kv_reuse) config.fields().flags |= RSERVE_ENGINE_F_KV_REUSE;
  auto engine = rserve::capi::Engine::Create(config.get());
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().message().c_str());
    return 1;
  }
  server::Dispatcher dispatcher(std::move(*engine));
  server::ServerOptions options;
  options.model_name = std::filesystem::path(flags.model).filename().string();
  if (options.model_name.empty()) options.model_name = flags.model;
  options.threads = static_cast<int>(flags.queue) + 32;
  options.max_body_bytes = static_cast<size_t>(flags.max_body_mib) << 20;
  options.timeout_ms = flags.timeout_ms;
  server::Server server(options, &dispatcher);
  const int port = server.Bind(flags.host, flags.port);
  if (port < 0) {
    std::fprintf(stderr, "cannot listen on %s:%d\n", flags.host.c_str(), flags.port);
    return 1;
  }
  std::printf("serving %s at http://%s:%d\n", options.model_name.c_str(), flags.host.c_str(), port);
  std::fflush(stdout);
  std::thread drainer([&] {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
    std::printf("draining\n");
    std::fflush(stdout);
    server.Drain();
  });
  server.Run();
  drainer.join();
  return 0;
}
