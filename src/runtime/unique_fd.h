// UniqueFd: owns a file descriptor and closes it once.

#ifndef RSERVE_SRC_RUNTIME_UNIQUE_FD_H_
#define RSERVE_SRC_RUNTIME_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace rserve::runtime {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  void Reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_UNIQUE_FD_H_
