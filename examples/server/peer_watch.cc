#include "peer_watch.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>

namespace server {
namespace {

bool IsPeer(int fd, const std::string& address, int port) {
  sockaddr_storage peer;
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&peer);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    return ntohs(in->sin_port) == port && address == text;
  }
  if (peer.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&peer);
    inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
    return ntohs(in->sin6_port) == port && address == text;
  }
  return false;
}

}  // namespace

PeerWatch::PeerWatch(const std::string& address, int port) {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > 2 && IsPeer(fd, address, port)) {
      fd_ = fd;
      break;
    }
  }
  closedir(folder);
}

bool PeerWatch::gone() const {
  if (fd_ < 0) return false;
  pollfd waiting = {fd_, POLLRDHUP, 0};
  return poll(&waiting, 1, 0) > 0 && (waiting.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace server
