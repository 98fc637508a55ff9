// The HTTP side: routes, errors, backpressure, draining.

#ifndef RSERVE_EXAMPLES_SERVER_SERVER_H_
#define RSERVE_EXAMPLES_SERVER_SERVER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "chat_completion.h"
#include "dispatcher.h"
#include "httplib.h"
#include "metrics.h"

namespace server {

struct ServerOptions {
  std::string model_name;
  int threads = 160;  // connections served at a time; more than the engine's queue
  size_t max_body_bytes = size_t{64} << 20;
  int64_t timeout_ms = 60000;  // of a request, from its submit
};

// httplib listens with a backlog of 5. Where more clients than that connect at once, the kernel
// drops connections that the client holds for made, and resets them later.
class HttpServer : public httplib::Server {
 public:
  bool WidenBacklog() { return ::listen(svr_sock_, SOMAXCONN) == 0; }
};

class Server {
 public:
  Server(ServerOptions options, Dispatcher* dispatcher);

  // Returns the port, or -1. Port 0: any that is free.
  int Bind(const std::string& host, int port);
  // Serves until Drain is over.
  void Run();
  // Refuses new requests, lets the open ones finish, then ends Run. Blocks.
  void Drain();

 private:
  void Complete(const httplib::Request& request, httplib::Response& response);
  // Waits for the end of a request whose client is `peer`; fills the answer or an error response.
  bool Await(const httplib::Request& request, Waiter& waiter, Answer* answer,
             httplib::Response& response);
  void RefuseSubmit(const rserve::capi::Error& error, rserve::capi::Request& request,
                    httplib::Response& response);
  void Fail(int code, const nlohmann::json& body, httplib::Response& response);
  void Failed(uint64_t id, rserve_status_t status, httplib::Response& response);
  void Remember(uint64_t id, const rserve_detail_info& info);
  nlohmann::json Recent() const;

  const ServerOptions options_;
  Dispatcher& dispatcher_;
  Metrics metrics_;
  HttpServer http_;
  std::atomic<bool> draining_{false};
  std::atomic<uint64_t> responses_{0};  // that no request of the engine gave an id
  mutable std::mutex recent_mutex_;
  std::deque<nlohmann::json> recent_;  // of the status page
};

}  // namespace server

#endif  // RSERVE_EXAMPLES_SERVER_SERVER_H_
