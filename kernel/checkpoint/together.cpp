#include "kernel/checkpoint/together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "kernel/launch/agree.hpp"

namespace tessera {

namespace {

// On the way between ranks: "+text", or "-code text" of a failure.
constexpr char kDone = '+', kFailed = '-';

std::string attempt(const std::function<std::string()>& work) {
  try {
    return kDone + work();
  } catch (const Error& error) {
    return fmt::format("{}{} {}", kFailed, error.exit_code(), error.what());
  } catch (const std::exception& error) {
    return fmt::format("{}1 {}", kFailed, error.what());
  }
}

void throw_failures(const std::vector<std::string>& texts) {
  int code = 0;
  std::vector<std::string> reasons;
  for (const std::string& text : texts) {
    if (text[0] != kFailed) continue;
    const std::size_t blank = text.find(' ');
    if (code == 0) code = std::stoi(text.substr(1, blank - 1));
    const std::string reason = text.substr(blank + 1);
    if (std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  }
  if (!reasons.empty()) throw TogetherError(fmt::format("{}", fmt::join(reasons, "\n")), code);
}

}  // namespace

std::vector<std::string> Together::all(std::string_view what,
                                       const std::function<std::string()>& work) const {
  std::vector<std::string> texts{attempt(work)};
  if (store_ != nullptr) {
    texts =
        gather_text(*store_, rank_, world_, fmt::format("checkpoint/{}", what), texts[0], timeout_);
  }
  const bool failed = std::ranges::any_of(texts, [](const auto& t) { return t[0] == kFailed; });
  if (failed && store_ != nullptr) leave_together(*store_, rank_, world_, "checkpoint", timeout_);
  throw_failures(texts);
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

std::string Together::root(std::string_view what, const std::function<std::string()>& work) const {
  return all(what, [&] { return rank_ == 0 ? work() : std::string(); })[0];
}

}  // namespace tessera
