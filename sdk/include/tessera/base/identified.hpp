#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/api.hpp"

namespace tessera {

/// Who a component is, for errors and for messages about crashes.
struct Identity {
  std::string kind;     ///< "layer"
  std::string name;     ///< "moe"
  std::string plugin;   ///< "moe 0.3"; empty: the kernel's own, which no message names
  std::string library;  ///< its path
  std::string text;     ///< "layer/moe of plugin moe 0.3"
  std::string place;    ///< "at run.toml:12:8: [model.block.mlp]", "by default: [lr]"
  std::string choice;   ///< `run.toml:12:8: [model.block.mlp] type = "moe"`, for errors
  mutable std::atomic<bool> told = false;  ///< a warning has told of a rounding that it left behind
};

/// Base of all kinds of components but devices. A function that others call is not virtual: it says
/// what runs (Doing), checks what the interface promises, puts back how the thread computes, and
/// calls a private virtual one of the same name with `do_` before it, which a plugin overrides (of
/// `operator()` it is do_forward or do_route). An exception that passes says afterwards from whom
/// it comes (ErrorFrame::Kind::component).
class TESSERA_API Identified {
 public:
  virtual ~Identified();
  Identified(const Identified&) = default;
  Identified& operator=(const Identified&) = default;

  /// nullptr where no host made the component, as in a test.
  const Identity* identity() const noexcept { return identity_.get(); }
  /// Called by the host, once, before anything else. A component that makes others (a communicator
  /// its groups) hands its own on.
  void identify(std::shared_ptr<const Identity> identity) { identity_ = std::move(identity); }

 protected:
  Identified() = default;
  const std::shared_ptr<const Identity>& shared_identity() const noexcept { return identity_; }

 private:
  std::shared_ptr<const Identity> identity_;
};

}  // namespace tessera
