#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/error.hpp"

namespace tessera {

/// Runs checks one after the other and keeps what they throw, each text once.
class ProblemList {
 public:
  /// What `check` returns; nothing when it threw an Error.
  template <class F>
  auto run(F&& check) -> std::optional<decltype(check())> {
    try {
      return check();
    } catch (const Error& error) {
      add(error.what());
      if (error.resource() != Resource::none) resource_ = error.resource();
      return std::nullopt;
    }
  }
  void add(std::string text) {
    if (std::ranges::find(texts_, text) == texts_.end()) texts_.push_back(std::move(text));
  }
  void add(const ProblemList& more) {
    for (const std::string& text : more.texts_) add(text);
  }
  bool empty() const { return texts_.empty(); }
  const std::vector<std::string>& texts() const { return texts_; }
  /// Throws all of them as one ConfigError, if there are any.
  void throw_all() const {
    if (empty()) return;
    Error(fmt::format("{}", fmt::join(texts_, "\n")), ErrorKind::configuration)
        .add(resource_)
        .raise();
  }

 private:
  std::vector<std::string> texts_;
  Resource resource_ = Resource::none;  // that one of them ran out of
};

}  // namespace tessera
