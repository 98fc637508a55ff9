#include "server.h"

#include <sys/socket.h>

#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "peer_watch.h"
#include "status_page.h"

namespace server {
namespace {

using nlohmann::json;
using rserve::capi::Detail;
using rserve::capi::Error;
using rserve::capi::Result;

constexpr char kJson[] = "application/json";
constexpr size_t kRecentRequests = 40;
constexpr std::chrono::milliseconds kLookForPeer(50);

std::string Text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Server::Server(ServerOptions options, Dispatcher* dispatcher)
    : options_(std::move(options)), dispatcher_(*dispatcher) {
  http_.new_task_queue = [threads = options_.threads] {
    return new httplib::ThreadPool(static_cast<size_t>(threads));
  };
  http_.set_payload_max_length(options_.max_body_bytes);
  http_.set_keep_alive_timeout(2);
  http_.set_read_timeout(10);
  http_.set_write_timeout(10);
  http_.set_tcp_nodelay(true);
  http_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const char* what = response.status == 404   ? "there is no such path"
                       : response.status == 413 ? "the body is too large"
                                                : "the request could not be read";
    response.set_content(Text(ErrorJson(what, "invalid_request_error")), kJson);
  });
  // Every response has an id; those of answered and failed requests are the engine's.
  http_.set_post_routing_handler([this](const httplib::Request&, httplib::Response& response) {
    if (response.has_header("X-Request-Id")) return;
    response.set_header("X-Request-Id", "req-" + std::to_string(++responses_));
  });
  http_.set_logger([this](const httplib::Request&, const httplib::Response& response) {
    metrics_.Response(response.status);
  });
  http_.Post("/v1/chat/completions",
             [this](const httplib::Request& request, httplib::Response& response) {
               Complete(request, response);
             });
  http_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(Text({{"object", "list"},
                               {"data", json::array({{{"id", options_.model_name},
                                                      {"object", "model"},
                                                      {"created", 0},
                                                      {"owned_by", "local"}}})}}),
                         kJson);
  });
  http_.Get("/health", [this](const httplib::Request&, httplib::Response& response) {
    response.status = draining_ ? 503 : 200;
    response.set_content(draining_ ? "{\"status\":\"draining\"}" : "{\"status\":\"ok\"}", kJson);
  });
  http_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    auto stats = dispatcher_.engine().Stats();
    if (!stats) return Fail(500, ErrorJson(stats.error().message(), "server_error"), response);
    response.set_content(metrics_.Text(*stats), "text/plain; version=0.0.4");
  });
  http_.Get("/recent", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(Text(Recent()), kJson);
  });
  http_.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(kStatusPage, "text/html; charset=utf-8");
  });
}

int Server::Bind(const std::string& host, int port) {
  if (port == 0) {
    port = http_.bind_to_any_port(host);
  } else if (!http_.bind_to_port(host, port)) {
    return -1;
  }
  return port > 0 && http_.WidenBacklog() ? port : -1;
}

void Server::Run() { http_.listen_after_bind(); }

void Server::Drain() {
  draining_ = true;
  static_cast<void>(dispatcher_.engine().Drain());
  for (;;) {
    auto stats = dispatcher_.engine().Stats();
    if (!stats || stats->idle == 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  http_.stop();  // answers under way are still written
}

void Server::Fail(int code, const json& body, httplib::Response& response) {
  response.status = code;
  // Backpressure: the same request may be sent again when something has ended.
  if (code == 429 || code == 503) response.set_header("Retry-After", "1");
  response.set_content(Text(body), kJson);
}

// Too much for now is 429, too much for ever 413: the plan of the request tells which.
void Server::RefuseSubmit(const Error& error, rserve::capi::Request& request,
                          httplib::Response& response) {
  switch (error.code()) {
    case RSERVE_STATUS_INVALID_ARGUMENT:
    case RSERVE_STATUS_UNIMPLEMENTED:
      return Fail(400, ErrorJson(error.message(), "invalid_request_error"), response);
    case RSERVE_STATUS_FAILED_PRECONDITION:
      return Fail(503, ErrorJson(error.message(), "server_draining"), response);
    case RSERVE_STATUS_RESOURCE_EXHAUSTED: {
      auto plan = dispatcher_.engine().Plan(request);
      if (!plan) return Fail(413, ErrorJson(error.message(), "invalid_request_error"), response);
      auto info = plan->Info();
      if (info && info->fits != RSERVE_STATUS_OK) {
        return Fail(413, ErrorJson(error.message(), "invalid_request_error"), response);
      }
      return Fail(429, ErrorJson(error.message(), "rate_limit_error"), response);
    }
    default:
      return Fail(500, ErrorJson(error.message(), "server_error"), response);
  }
}

void Server::Failed(uint64_t id, rserve_status_t status, httplib::Response& response) {
  std::string message = rserve_status_name(status);
  if (Result<Detail> detail = dispatcher_.engine().Detail(id)) {
    message += ": " + std::string(detail->message());
  }
  switch (status) {
    case RSERVE_STATUS_INVALID_ARGUMENT:  // pictures are only decoded once they are accepted
    case RSERVE_STATUS_DATA_LOSS:
    case RSERVE_STATUS_UNIMPLEMENTED:
      return Fail(400, ErrorJson(message, "invalid_request_error"), response);
    case RSERVE_STATUS_DEADLINE_EXCEEDED:
      return Fail(504, ErrorJson(message, "timeout"), response);
    case RSERVE_STATUS_CANCELLED:
    case RSERVE_STATUS_UNAVAILABLE:
      return Fail(503, ErrorJson(message, "server_draining"), response);
    default:
      return Fail(500, ErrorJson(message, "server_error"), response);
  }
}

bool Server::Await(const httplib::Request& request, Waiter& waiter, Answer* answer,
                   httplib::Response& response) {
  const PeerWatch peer(request.remote_addr, request.remote_port);
  int32_t token = -1;
  bool asked = false;
  for (;;) {
    const std::optional<rserve_event> event = waiter.Next(kLookForPeer);
    if (!event.has_value()) {
      // Nobody is left to read the answer.
      if (!asked && peer.gone()) {
        asked = true;
        static_cast<void>(dispatcher_.engine().Cancel(waiter.id()));
      }
      continue;
    }
    if (event->type == RSERVE_EVENT_FIRST_TOKEN) token = event->u.first_token.token;
    if ((event->flags & RSERVE_EVENT_F_MORE) != 0) continue;
    if (event->type != RSERVE_EVENT_FINISHED) {
      Failed(waiter.id(), event->status, response);
      return false;
    }
    break;
  }
  Result<Detail> detail = dispatcher_.engine().Detail(waiter.id());
  if (detail) {
    answer->prompt_tokens = static_cast<int64_t>(detail->tokens().size);
    if (auto info = detail->Info()) {
      answer->cached_tokens = info->reused_tokens;
      metrics_.FirstToken(*info);
      Remember(waiter.id(), *info);
    }
  }
  auto text = dispatcher_.engine().Decode(&token, 1);
  if (text) answer->text = *text;
  answer->stopped = answer->text == "<|im_end|>";
  if (answer->stopped) answer->text.clear();
  return true;
}

void Server::Complete(const httplib::Request& request, httplib::Response& response) {
  auto parsed = ParseChatCompletion(request.body);
  if (const auto* bad = std::get_if<BadRequest>(&parsed)) {
    return Fail(400, ErrorJson(bad->message, "invalid_request_error", bad->param), response);
  }
  ChatCompletion& completion = std::get<ChatCompletion>(parsed);
  completion.request.fields().timeout_ns = options_.timeout_ms * 1000000;
  Result<std::shared_ptr<Waiter>> waiter = dispatcher_.Submit(completion.request);
  if (!waiter) return RefuseSubmit(waiter.error(), completion.request, response);

  Answer answer;
  answer.id = (*waiter)->id();
  answer.created_s = std::time(nullptr);
  answer.model = completion.model.empty() ? options_.model_name : completion.model;
  const bool answered = Await(request, **waiter, &answer, response);
  static_cast<void>(dispatcher_.engine().Acknowledge(answer.id));
  response.set_header("X-Request-Id", "chatcmpl-" + std::to_string(answer.id));
  if (!answered) return;
  if (completion.stream) {
    response.set_content(CompletionStream(answer, completion.include_usage), "text/event-stream");
  } else {
    response.set_content(Text(CompletionJson(answer)), kJson);
  }
}

void Server::Remember(uint64_t id, const rserve_detail_info& info) {
  json entry = {{"id", id},
                {"pictures", info.num_items},
                {"submitted", info.submitted_ns},
                {"first_encode", info.first_encode_ns},
                {"last_encode", info.last_encode_ns},
                {"first_prefill", info.first_prefill_ns},
                {"first_token", info.first_token_ns}};
  std::lock_guard<std::mutex> lock(recent_mutex_);
  recent_.push_back(std::move(entry));
  if (recent_.size() > kRecentRequests) recent_.pop_front();
}

json Server::Recent() const {
  json out = {{"model", options_.model_name}, {"draining", draining_.load()}};
  if (auto stats = dispatcher_.engine().Stats()) {
    out["open"] = stats->open_requests;
    out["finished"] = stats->finished;
    out["embedding_bytes"] = stats->embedding_bytes;
  }
  std::lock_guard<std::mutex> lock(recent_mutex_);
  out["requests"] = recent_;
  return out;
}

}  // namespace server
