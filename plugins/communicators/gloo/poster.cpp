#include "poster.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <gloo/transport/tcp/device.h>
#include <tessera/error.hpp>

namespace tessera::gloo_tcp {

Poster::Poster(const Mesh& mesh, std::function<void(const Request&)> start)
    : device_(std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(mesh.device)),
      start_(std::move(start)),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require(wakeup_ >= 0, "gloo: no event descriptor: {}", SystemError());
  device_->registerDescriptor(wakeup_, EPOLLIN, this);
}

Poster::~Poster() {
  device_->unregisterDescriptor(wakeup_, this);
  close(wakeup_);
}

void Poster::add(Request request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    if (requests_.size() > 1) return;  // it is awake
  }
  eventfd_write(wakeup_, 1);
}

void Poster::handleEvents(int) {
  eventfd_t count = 0;
  eventfd_read(wakeup_, &count);
  std::deque<Request> requests;
  {
    const std::lock_guard lock(mutex_);
    requests.swap(requests_);
  }
  for (const Request& request : requests) start_(request);
}

}  // namespace tessera::gloo_tcp
