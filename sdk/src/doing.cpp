#include "tessera/device/doing.hpp"

namespace tessera {

namespace {

// One of each thread; read by signal handlers, so it must need no set-up.
thread_local constinit const Doing* innermost_of_thread [[gnu::tls_model("initial-exec")]] =
    nullptr;

}  // namespace

Doing::Doing(std::string_view what, std::string_view name, const Identity* component) noexcept
    : what_(what), name_(name), component_(component), around_(innermost_of_thread) {
  if (component_ == nullptr && around_ != nullptr) component_ = around_->component_;
  innermost_of_thread = this;
}

Doing::~Doing() { innermost_of_thread = around_; }

const Identity* Doing::component() noexcept {
  return innermost_of_thread == nullptr ? nullptr : innermost_of_thread->component_;
}

const Doing* const* Doing::innermost() noexcept { return &innermost_of_thread; }

}  // namespace tessera
