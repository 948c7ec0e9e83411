#include "tessera/doing.hpp"

namespace tessera {

namespace {

// One of each thread; read by signal handlers, so it must need no set-up.
thread_local constinit const Doing* innermost_of_thread [[gnu::tls_model("initial-exec")]] =
    nullptr;

}  // namespace

Doing::Doing(std::string_view what, std::string_view name) noexcept
    : what_(what), name_(name), around_(innermost_of_thread) {
  innermost_of_thread = this;
}

Doing::~Doing() { innermost_of_thread = around_; }

const Doing* const* Doing::innermost() noexcept { return &innermost_of_thread; }

}  // namespace tessera
