#include "kernel/launch/write_all.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace tessera {

bool write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // a terminal or pipe that another program made so
      pollfd wait{.fd = descriptor, .events = POLLOUT, .revents = 0};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace tessera
