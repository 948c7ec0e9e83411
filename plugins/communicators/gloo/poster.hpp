#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include <gloo/transport/tcp/loop.h>

#include "connect.hpp"

namespace gloo::transport::tcp {
class Device;
}

namespace tessera::gloo_tcp {

/// A send or receive to be started.
struct Request {
  std::shared_ptr<Buffer> buffer;
  int rank;
  u64 slot;
  bool sends;
};

/// Starts sends and receives on Gloo's own thread. On any other they hold a connection's lock
/// during several system calls, and Gloo's thread spins when it wants the same lock meanwhile: on
/// busy cores for whole time slices. So posting is also cheap, and cannot block.
class Poster : private ::gloo::transport::tcp::Handler {
 public:
  /// `start` is called on Gloo's thread and must neither throw nor block.
  Poster(const Mesh& mesh, std::function<void(const Request&)> start);
  ~Poster() override;
  Poster(const Poster&) = delete;
  Poster& operator=(const Poster&) = delete;

  void add(Request request);

 private:
  void handleEvents(int events) override;

  std::shared_ptr<::gloo::transport::tcp::Device> device_;
  std::function<void(const Request&)> start_;
  int wakeup_;
  std::mutex mutex_;
  std::deque<Request> requests_;
};

}  // namespace tessera::gloo_tcp
