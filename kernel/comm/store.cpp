#include "kernel/comm/store.hpp"

#include <fmt/format.h>

namespace tessera {

void StoreTable::set(std::string_view key, std::string_view value) {
  {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  changed_.notify_all();
}

i64 StoreTable::add(std::string_view key, i64 amount) {
  i64 sum = amount;
  {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[std::string(key)];
    if (!value.empty()) sum += std::stoll(value);
    value = std::to_string(sum);
  }
  changed_.notify_all();
  return sum;
}

std::string StoreTable::get(std::string_view key, std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    const auto found = [&] { return values_.find(key) != values_.end(); };
    changed_.wait_for(lock, timeout, [&] { return found() || !death_.empty(); });
    if (found()) return values_.find(key)->second;
  }
  throw missing(key, timeout);
}

std::optional<std::string> StoreTable::find(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

Error StoreTable::missing(std::string_view key, std::chrono::milliseconds waited) const {
  const std::lock_guard lock(mutex_);
  if (dead_ != Error::kNoRank) {
    return Error(death_, ErrorKind::peer_failed, dead_)
        .add(ErrorFrame::Kind::note, fmt::format("store: waiting for \"{}\"", key));
  }
  return Error(fmt::format("store: nobody has set \"{}\" within {:.1f} s; is a rank missing, or "
                           "did it fail earlier?",
                           key,
                           std::chrono::duration<double>(waited).count()),
               ErrorKind::peer_silent);
}

void StoreTable::report_death(i64 rank, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    if (dead_ == Error::kNoRank) {
      dead_ = rank;
      death_ = fmt::format("rank {} died: {}", rank, why);
    }
  }
  changed_.notify_all();
}

std::string StoreTable::first_death() const {
  const std::lock_guard lock(mutex_);
  return death_;
}

}  // namespace tessera
