// Whether the client of the connection that a handler serves is still there.

#ifndef RSERVE_EXAMPLES_SERVER_PEER_WATCH_H_
#define RSERVE_EXAMPLES_SERVER_PEER_WATCH_H_

#include <string>

namespace server {

// The HTTP library does not hand its socket to handlers, so it is found among the process's
// descriptors by the address of its peer.
class PeerWatch {
 public:
  PeerWatch(const std::string& address, int port);
  // The peer has closed its end, or the connection is broken. False when the socket was not found.
  bool gone() const;

 private:
  int fd_ = -1;
};

}  // namespace server

#endif  // RSERVE_EXAMPLES_SERVER_PEER_WATCH_H_
